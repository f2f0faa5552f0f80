"""Requests and answers of the model API held against the written contract; used with validation only."""

from typing import Any

from services.simulators.contracts import Contract
from services.simulators.model.errors import ModelError


class Checks:
    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def request(self, schema: str, body: Any) -> None:
        violation = self._contract.violation(schema, body)
        if violation is not None:
            raise ModelError(400, f"Invalid request: {violation.message}", param=violation.field or None)

    def answer(self, schema: str, body: Any) -> None:
        """Raises a 500 that names what is wrong: the simulator itself has a bug then."""
        violation = self._contract.violation(schema, body)
        if violation is not None:
            raise ModelError(500, f"simulator answer breaks {schema}: {violation.message}")
