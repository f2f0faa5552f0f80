"""A setting is a field of a frozen dataclass whose metadata says unit, meaning and bounds."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a person reads about a setting, and what it may be."""

    help: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False


def setting(
    default: T,
    help: str,  # noqa: A002 - the word people know from command lines
    *,
    unit: str = "",
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    secret: bool = False,
) -> T:
    """Declare one setting; a secret is never printed and may be given by the name of a file."""
    meaning = Meaning(help, unit, least, most, choices, secret)
    field: Any = dataclasses.field(default=default, metadata={"meaning": meaning}, repr=not secret)
    return field  # type: ignore[no-any-return]


def settings_of(cls: type) -> Iterator[tuple[str, Any, Meaning]]:
    """Name, default and meaning of each setting of a section."""
    for field in dataclasses.fields(cls):
        yield field.name, field.default, field.metadata["meaning"]
