"""Bodies and views of bindings, and the checks that need nothing but themselves."""

import unicodedata
from typing import Annotated, Any, Literal

import msgspec

from services.frontend.api.errors import invalid
from services.frontend.api.liveness_views import LivenessView
from services.frontend.api.views import Name, clean
from shared.domain.records import Conversation, ReplyMode
from shared.sdk.manifest import Kind
from shared.store.bindings import BindingRow

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET
ReplyLanguage = Literal["auto", "en", "it", "de", "es", "fr", "pt-BR"]
Entry = Annotated[str, msgspec.Meta(max_length=128)]
Allow = Annotated[list[Entry], msgspec.Meta(max_length=500)]
Token = Annotated[str, msgspec.Meta(max_length=4096)]
Window = Annotated[int, msgspec.Meta(ge=1, le=10_080)]
Options = Annotated[dict[str, str], msgspec.Meta(max_length=50)]

#: what must be sent along to let everybody in, and to connect one bot twice
ACCEPT_ANY = "accept any message"
ANSWER_TWICE = "answer twice"
MOST_ALLOWED = 500


class BindingNew(msgspec.Struct, forbid_unknown_fields=True):
    """`confirm_...` are the words that confirm what should not happen by accident."""

    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    name: Name
    token: Token = ""
    agent_id: str = ""
    enabled: bool = False
    allow: Allow = []
    accept_any: bool = False
    confirm_accept_any: str = ""
    reply_mode: ReplyMode = "progress"
    conversation: Conversation = "sender"
    window_minutes: Window = 60
    send_files: bool = True
    reply_language: ReplyLanguage = "auto"
    notify_chat: Entry = ""
    options: Options = {}
    confirm_duplicate: str = ""
    take_over_webhook: bool = False


class BindingChange(msgspec.Struct, forbid_unknown_fields=True):
    """What is absent stays. With `revision`, the change is refused when somebody else was faster."""

    name: Name | Unset = UNSET
    token: Token | Unset = UNSET
    agent_id: str | Unset = UNSET
    enabled: bool | Unset = UNSET
    allow: Allow | Unset = UNSET
    accept_any: bool | Unset = UNSET
    confirm_accept_any: str = ""
    reply_mode: ReplyMode | Unset = UNSET
    conversation: Conversation | Unset = UNSET
    window_minutes: Window | Unset = UNSET
    send_files: bool | Unset = UNSET
    reply_language: ReplyLanguage | Unset = UNSET
    notify_chat: Entry | Unset = UNSET
    options: Options | Unset = UNSET
    confirm_duplicate: str = ""
    take_over_webhook: bool = False
    revision: int | Unset = UNSET


class Account(msgspec.Struct):
    """Whose bot the token is, as the platform said."""

    id: str
    name: str


class Duplicate(msgspec.Struct):
    """Another enabled binding of the same bot: both would answer the same message."""

    id: str
    name: str
    message: str
    code: str = "duplicate_connection"


class BindingView(msgspec.Struct, omit_defaults=True):
    """`reason` says why it is not `active`; `warning` what the save could not check.

    `liveness` says whether it hears its platform.
    """

    id: str
    kind: str
    addon: str
    name: str
    agent_id: str
    enabled: bool
    active: bool
    has_token: bool
    allow: list[str]
    accept_any: bool
    reply_mode: str
    conversation: str
    window_minutes: int
    send_files: bool
    reply_language: str
    notify_chat: str
    options: dict[str, str]
    revision: int
    created_at: str
    account: Account | None = None
    reason: str = ""
    credentials_only: bool = False
    duplicate: Duplicate | None = None
    warning: str = ""
    liveness: LivenessView | None = None


_NOT_COLUMNS = frozenset(
    ["kind", "token", "revision", "confirm_accept_any", "confirm_duplicate", "take_over_webhook"]
)


def columns_of(body: BindingNew | BindingChange) -> dict[str, Any]:
    """The columns that a body sets, cleaned and checked. Raises ApiError 400."""
    given = msgspec.structs.asdict(body)
    values = {name: value for name, value in given.items() if name not in _NOT_COLUMNS and value is not UNSET}
    if "name" in values:
        values["name"] = clean(values["name"])
    if "allow" in values:
        values["allow"] = checked_allow(values["allow"])
    if "agent_id" in values:
        values["agent_id"] = values["agent_id"] or None
    return values


def checked_allow(entries: list[str]) -> list[str]:
    """User IDs, chat IDs and @names, each once; names are compared without case (ALLOW-03)."""
    kept: dict[str, str] = {}
    for raw in entries:
        entry = raw.strip()
        if not entry or any(unicodedata.category(c) in {"Cc", "Zl", "Zp"} for c in entry):
            raise invalid("an entry of the allowlist is a user ID, a chat ID or an @name", "allow")
        kept.setdefault(entry.lower(), entry)
    return list(kept.values())


def checked_token(token: str) -> str:
    """A token as it is sealed; what the platform makes of it is asked later. Never quoted in an error."""
    token = token.strip()
    if not all(c.isprintable() and not c.isspace() for c in token):
        raise invalid("the token must not hold spaces or control characters", "token")
    return token


def checked_options(kind: Kind, options: dict[str, str]) -> None:
    """Only what the add-on declares (BIND-35 to BIND-37)."""
    declared = {option.id: option.values for option in kind.options}
    for option, value in options.items():
        if option not in declared:
            raise invalid(f"{kind.title} has no option {option[:64]!r}", f"options.{option[:64]}")
        if value not in declared[option]:
            allowed = ", ".join(declared[option])
            raise invalid(f"the option {option} is one of: {allowed}", f"options.{option}")


def duplicate_of(row: BindingRow, others: list[BindingRow]) -> BindingRow | None:
    """Another enabled binding of the same owner, kind and account (TWIN-06, TWIN-07)."""
    if not row.enabled or not row.account_id:
        return None
    return next((other for other in others if _twins(row, other)), None)


def _twins(row: BindingRow, other: BindingRow) -> bool:
    identity = (row.kind, row.account_id)
    return other.enabled and other.id != row.id and (other.kind, other.account_id) == identity


def duplicate_view(other: BindingRow) -> Duplicate:
    sentence = f"This bot is also connected as {other.name}. Both connections will answer the same message."
    return Duplicate(other.id, other.name, sentence)
