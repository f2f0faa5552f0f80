"""The manifest of an add-on: strict JSON, at most 64 KiB, no unknown or doubled keys.

Source: adjacent facts 1.2 and 3.3, checklist CLU-01 and CLU-02. Texts for people are English defaults;
catalogs beside the manifest may translate them by the same keys.
"""

import re
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

MANIFEST_MAX_BYTES = 64 * 1024
_NAMESPACE_ID = re.compile(r"[a-z][a-z0-9-]{0,63}\Z")
_VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}(-[a-z][a-z0-9.]{0,31})?\Z")
RESERVED_IDS = frozenset(
    [
        "apps",
        "proposals",
        "artifacts",
        "resources",
        "conversations",
        "dispatch",
        "relay",
        "catalog",
        "icon",
        "assets",
        "installed",
        "sources",
    ]
)
#: what this host speaks; a manifest's ranges must hold these
HOST_VERSIONS = {"host": 1, "api": 2, "protocol": 1, "dataFormat": 1}


class Range(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    min: int
    max: int


class TextDialect(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """How text goes out: the markup's name, and the platform's limit for one message in `unit`."""

    markup: str = ""
    limit: int = 4000
    unit: Literal["utf16", "codepoints", "bytes"] = "codepoints"


class Option(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """A setting of the add-on's own on a binding, with a closed set of values; the first is the default."""

    id: str
    title: str
    values: tuple[str, ...]


class Kind(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel", omit_defaults=True):
    """One platform that the add-on connects. `delivery` has no default: a manifest must say it (CLU-01)."""

    id: str
    title: str
    delivery: Literal["pull", "push"]
    description: str = ""
    setup: str = ""
    sender_hint: str = ""
    page: str = ""
    drafts: bool = False
    preview_ms: int = 1000
    typing: bool = False
    edits: bool = True
    tool_only: bool = False
    wildcard_resources: bool = False
    calls_per_second: float = 30.0
    burst: int = 30
    text: TextDialect = TextDialect()
    options: tuple[Option, ...] = ()
    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()


class Connector(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    kinds: tuple[Kind, ...]


class Tool(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel", omit_defaults=True):
    """A tool that a model may call; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    kind: Literal["read", "write"]
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    always_confirm: bool = False
    page_only: bool = False
    resource_argument: str = ""
    enumerates: bool = False
    expiry_seconds: int = 0
    scope: str = ""


class Capabilities(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    connector: Connector | None = None
    tools: tuple[Tool, ...] = ()


class Manifest(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel", omit_defaults=True):
    """`executable` is a Python module that the owner starts, or a file of the package."""

    schema_version: Literal[1]
    id: str
    version: str
    executable: str
    os: tuple[str, ...]
    arch: tuple[str, ...]
    host: Range
    api: Range
    protocol: Range
    data_format: Range
    capabilities: Capabilities
    title: str = ""
    description: str = ""
    icon: str = ""


class ManifestRefused(ValueError):
    """The manifest cannot be used; the text says which key and why."""


def parse_manifest(raw: bytes) -> Manifest:
    """Read and check a manifest.

    Raises ManifestRefused for anything outside the contract, with the place named.
    """
    if len(raw) > MANIFEST_MAX_BYTES:
        raise ManifestRefused(f"the manifest has {len(raw)} bytes; at most {MANIFEST_MAX_BYTES} are allowed")
    _refuse_doubled_keys(raw)
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as problem:
        raise ManifestRefused(f"the manifest does not fit: {problem}") from None
    problems = list(_problems(manifest))
    if problems:
        raise ManifestRefused("the manifest does not fit: " + "; ".join(problems))
    return manifest


def _problems(manifest: Manifest) -> Iterable[str]:
    if not _NAMESPACE_ID.match(manifest.id):
        yield "id must be a lower-case name such as `telegram`"
    if manifest.id in RESERVED_IDS:
        yield f"id `{manifest.id}` is reserved"
    if not _VERSION.match(manifest.version):
        yield "version must look like 1.2.3"
    for key, ours in HOST_VERSIONS.items():
        span: Range = getattr(manifest, "data_format" if key == "dataFormat" else key)
        if not span.min <= ours <= span.max:
            yield f"{key} {span.min} to {span.max} does not hold {ours}, which this server speaks"
    kinds = manifest.capabilities.connector.kinds if manifest.capabilities.connector else ()
    if manifest.capabilities.connector and not 1 <= len(kinds) <= 4:
        yield "capabilities.connector.kinds must hold 1 to 4 kinds"
    for kind in kinds:
        yield from _kind_problems(kind)
    names = [tool.name for tool in manifest.capabilities.tools]
    if len(set(names)) != len(names):
        yield "two tools have the same name"
    yield from (
        f"tool name {name!r} must be letters, digits and _"
        for name in names
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name)
    )


def _kind_problems(kind: Kind) -> Iterable[str]:
    if not _NAMESPACE_ID.match(kind.id):
        yield f"kind id {kind.id!r} must be a lower-case name"
    if kind.preview_ms < 100:
        yield f"kind {kind.id}: previewMs must be at least 100"
    if kind.calls_per_second <= 0 or kind.burst < 1:
        yield f"kind {kind.id}: callsPerSecond and burst must be positive"
    yield from (f"kind {kind.id}: option {o.id!r} has no values" for o in kind.options if not o.values)


def _refuse_doubled_keys(raw: bytes) -> None:
    import json

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in items]
        doubled = sorted({key for key in keys if keys.count(key) > 1})
        if doubled:
            raise ManifestRefused(f"the manifest names {doubled[0]!r} twice")
        return dict(items)

    try:
        json.loads(raw, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, ManifestRefused):
            raise
        raise ManifestRefused(f"the manifest is not valid JSON: {problem}") from None
