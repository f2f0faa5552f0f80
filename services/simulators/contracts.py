"""Holds requests and answers against the written API descriptions, where these are at hand."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

_REFERENCE = re.compile(r"&#(\d{4,6});")
"""The Telegram description writes the emoji of reactions as character references of HTML."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Where and how a value breaks its description. `field` is the top-level name, `rule` the schema keyword."""

    field: str
    rule: str
    message: str


class Contract:
    """One description document; a validator is compiled once in the process for each definition that is used.

    The validator library is imported here and nowhere else, so that a server without validation never loads it.
    """

    def __init__(self, path: Path, prefix: str) -> None:
        text = path.read_text(encoding="utf-8")
        self._document = orjson.loads(_REFERENCE.sub(lambda found: chr(int(found[1])), text))
        self._document.pop("$id", None)
        self._prefix = prefix
        self._names = self._definitions()
        self._compiled: dict[str, Any] = {}

    def knows(self, name: str) -> bool:
        return name in self._names

    def violation(self, name: str, value: Any) -> Violation | None:
        """The most telling breach of the definition `name`, or None; an unknown definition allows anything."""
        if not self.knows(name):
            return None
        from jsonschema.exceptions import best_match

        validator = self._compiled.get(name) or self._compile(name)
        if validator.is_valid(value):
            return None
        return _described(best_match(validator.iter_errors(value)))

    def _compile(self, name: str) -> Any:
        from jsonschema import Draft202012Validator

        validator = Draft202012Validator({**self._document, "$ref": f"{self._prefix}{name}"})
        self._compiled[name] = validator
        return validator

    def _definitions(self) -> frozenset[str]:
        node = self._document
        for step in self._prefix.strip("#/").split("/"):
            node = node[step]
        return frozenset(node)


def _described(error: Any) -> Violation:
    top = next(iter(error.absolute_path), "")
    if not top and error.validator in {"required", "additionalProperties"}:
        top = next(_named_fields(error), "")
    where = "/".join(str(step) for step in error.absolute_path) or "the body"
    return Violation(str(top), str(error.validator), f"{where}: {error.message[:300]}")


def _named_fields(error: Any) -> Iterator[str]:
    if error.validator == "required":
        yield from (name for name in error.validator_value if name not in error.instance)
    else:
        yield from (name for name in error.instance if name not in error.schema.get("properties", {}))


@dataclass(frozen=True, slots=True)
class Contracts:
    """The descriptions that were found; None where a stand-in runs without one."""

    telegram: Contract | None = None
    openai: Contract | None = None

    @classmethod
    def found_in(cls, folder: Path | None) -> "Contracts":
        if folder is None or not folder.is_dir():
            return cls()
        return cls(
            telegram=_contract(folder / "telegram" / "bot-api.schema.json", "#/$defs/"),
            openai=_contract(folder / "openai" / "openapi.json", "#/components/schemas/"),
        )


@cache
def _contract(path: Path, prefix: str) -> Contract | None:
    return Contract(path, prefix) if path.is_file() else None
