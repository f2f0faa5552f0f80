"""Small shapes that several resources answer with."""

from typing import Annotated

import msgspec

from shared.store.people import User

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=80, pattern=r"\S")]


class UserView(msgspec.Struct):
    """An account; `features` of an administrator are all there are, whatever is listed."""

    id: str
    name: str
    role: str
    features: list[str]
    enabled: bool
    has_password: bool
    created_at: str

    @classmethod
    def of(cls, user: User) -> "UserView":
        return cls(
            user.id,
            user.name,
            user.role,
            list(user.features),
            user.disabled_at is None,
            user.has_password,
            user.created_at.isoformat(),
        )


class Ok(msgspec.Struct):
    ok: bool = True


def clean(text: str) -> str:
    """A name as it is stored: one line, without white space around it."""
    return " ".join(text.split())
