"""A string that never prints itself."""

from typing import NoReturn

_MASK = "[secret]"


class Secret:
    """Holds a token or a password; only `reveal` gives it out, so that every use can be searched for.

    Printing, formatting and logging show a mask. It cannot be pickled, and no serializer knows the type.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return _MASK

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return _MASK

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.__value == other.reveal()

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied to where it could be read")
