"""All settings. `TRUNKLINE_<SECTION>_<NAME>` sets one from the environment, `[section] name` in the file."""

from dataclasses import dataclass, field, fields
from typing import Any

from shared.config.declare import setting


@dataclass(frozen=True, slots=True)
class Database:
    """The Postgres that holds all truth."""

    url: str = setting(
        "", "address of the database, such as postgresql://user:password@host:5432/name", secret=True
    )
    pool_size: int = setting(10, "connections that one process keeps for its requests", least=2, most=200)
    statement_seconds: float = setting(10.0, "longest time for one statement", unit="seconds", least=0.1)
    connect_seconds: float = setting(5.0, "longest time to open a connection", unit="seconds", least=0.1)


@dataclass(frozen=True, slots=True)
class Nats:
    """The bus for signals. Without an address the process uses its own memory, which suits one process only."""

    url: str = setting("", "address of the NATS server, such as nats://host:4222", secret=True)
    ca_file: str = setting("", "certificate authority of the NATS server, for TLS")
    cert_file: str = setting("", "certificate of this process for NATS, for TLS")
    key_file: str = setting("", "private key of this process for NATS, for TLS")


@dataclass(frozen=True, slots=True)
class Http:
    """The HTTP side of a service."""

    host: str = setting("127.0.0.1", "address to listen on")
    port: int = setting(8080, "port to listen on; 0 takes any free one", least=0, most=65535)
    public_url: str = setting("", "address under which people reach the frontends, for links")
    session_hours: float = setting(24 * 14.0, "how long a sign-in lasts", unit="hours", least=0.1)
    secure_cookies: bool = setting(False, "send the session cookie over HTTPS only")


@dataclass(frozen=True, slots=True)
class Frontend:
    """One HTTP replica that runs turns."""

    id: str = setting("", "name of this frontend; empty makes one")
    max_turns: int = setting(200, "turns that one frontend runs at a time", least=1)
    grace_seconds: float = setting(20.0, "time that running turns get at a stop", unit="seconds", least=0)


@dataclass(frozen=True, slots=True)
class Model:
    """The OpenAI-compatible model server."""

    url: str = setting("", "base address of the model server, ending in /v1")
    api_key: str = setting("", "key for the model server", secret=True)
    connect_seconds: float = setting(5.0, "longest time to connect", unit="seconds", least=0.1)
    idle_seconds: float = setting(120.0, "longest silence inside an answer", unit="seconds", least=0.1)
    total_seconds: float = setting(600.0, "longest time for one whole answer", unit="seconds", least=0.1)
    connect_retries: int = setting(3, "how often a failed connection is tried again", least=0, most=20)


@dataclass(frozen=True, slots=True)
class Carrier:
    """The private channel between the frontends and the owner, over mutual TLS."""

    url: str = setting("", "where the frontends find the owner, such as https://owner:7443")
    host: str = setting("127.0.0.1", "address the owner listens on")
    port: int = setting(7443, "port the owner listens on; 0 takes any free one", least=0, most=65535)
    folder: str = setting(
        "", "folder with ca.pem and this process's certificate and key, made by `trunkline certs`"
    )
    name: str = setting("", "name of this peer in its certificate; empty takes the only one in the folder")


@dataclass(frozen=True, slots=True)
class Owner:
    """The one process that hosts the add-ons."""

    root: str = setting("", "folder of the add-ons' data, on a durable volume")
    http_host: str = setting("127.0.0.1", "address to listen on for health and metrics")
    http_port: int = setting(
        7444, "port to listen on for health and metrics; 0 takes any free one", least=0, most=65535
    )
    ping_seconds: float = setting(
        1.0, "how often an add-on is asked for its health", unit="seconds", least=0.1
    )
    lease_renew_seconds: float = setting(
        1.0, "how often the owner renews its lease", unit="seconds", least=0.05
    )
    lease_trust_seconds: float = setting(
        4.0, "how long the owner trusts a renewal", unit="seconds", least=0.1
    )
    lease_seconds: float = setting(6.0, "when another owner may take over", unit="seconds", least=0.2)
    addon_seconds: float = setting(
        5.0, "an add-on that was not asked for so long ends itself", unit="seconds", least=0.5
    )
    preinstalled: str = setting(
        "", "bundled add-ons that a new installation starts with, separated by spaces"
    )
    test_addons: bool = setting(default=False, help="offer the bundled add-ons that exist for tests")
    development_hosts: str = setting(
        "",
        'operators only: JSON of platform addresses for simulators, such as {"telegram_api": "http://127.0.0.1:9"}',
    )


@dataclass(frozen=True, slots=True)
class Sealing:
    """Where the key ring for tokens is. Without a file it is a row that all processes share."""

    key_file: str = setting(
        "", "path of connectors.key; every process that shares the database needs the same file"
    )


@dataclass(frozen=True, slots=True)
class Leader:
    """Election of the frontends that poll."""

    try_seconds: float = setting(
        0.25, "how often a frontend looks who lives and who leads", unit="seconds", least=0.01
    )
    renew_seconds: float = setting(1.0, "how often the leader renews its lease", unit="seconds", least=0.05)
    trust_seconds: float = setting(
        4.0, "how long a leader trusts a renewal, from when it was sent", unit="seconds", least=0.1
    )
    takeover_seconds: float = setting(
        6.0, "age of a lease at which a follower ends the holder", unit="seconds", least=0.2
    )
    owner_loss_seconds: float = setting(
        10.0, "a leader without the owner for so long releases", unit="seconds", least=0.1
    )
    abstain_seconds: float = setting(30.0, "and does not try again for so long", unit="seconds", least=0)


@dataclass(frozen=True, slots=True)
class Poll:
    """Reading the platforms."""

    shards: int = setting(
        1,
        "parts that the bindings are led in, each on its own; all frontends need the same number",
        least=1,
        most=64,
    )
    wait_seconds: float = setting(
        25.0, "how long one poll waits for a message", unit="seconds", least=0.05, most=50
    )
    deaf_seconds: float = setting(
        20.0,
        "a poll that is not back so long after its own wait is ended with its connection, and a link that was "
        "silent for both together is deaf",
        unit="seconds",
        least=0.1,
        most=600,
    )
    conflict_seconds: float = setting(
        60.0, "how long a second reader of the same bot is borne", unit="seconds", least=0
    )
    backoff_seconds: float = setting(
        15.0, "longest pause after failures in a row", unit="seconds", least=0.05
    )

    @property
    def silence_seconds(self) -> float:
        """How long nothing may be heard on a link before it is deaf."""
        return self.wait_seconds + self.deaf_seconds


@dataclass(frozen=True, slots=True)
class Turns:
    """Running turns and taking them over."""

    renew_seconds: float = setting(
        1.0, "how often a frontend renews the lease of its turns", unit="seconds", least=0.05
    )
    lease_seconds: float = setting(
        6.0, "when the turns of a silent frontend may be taken", unit="seconds", least=0.2
    )
    watch_seconds: float = setting(
        0.2, "how often the others look for a frontend that is gone", unit="seconds", least=0.02
    )
    sweep_seconds: float = setting(
        1.0, "how often what a lost signal left behind is looked for", unit="seconds", least=0.05
    )
    max_requests: int = setting(24, "model requests in one turn", least=1)
    history_messages: int = setting(200, "newest messages of a chat that the model reads", least=2)
    history_chars: int = setting(200_000, "characters of a chat that the model reads", least=1000)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Sending what was planned."""

    sweep_seconds: float = setting(
        1.0, "how often the owner looks for planned parts", unit="seconds", least=0.05
    )
    retry_seconds: float = setting(
        0.5, "first pause after a platform that was out of reach", unit="seconds", least=0.01
    )
    retry_most_seconds: float = setting(30.0, "longest pause between tries", unit="seconds", least=0.01)
    give_up_seconds: float = setting(
        3600.0, "a part older than this is recorded as failed", unit="seconds", least=1
    )
    call_seconds: float = setting(30.0, "longest time for one call to a platform", unit="seconds", least=0.1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a person and a user may do."""

    sender_per_minute: int = setting(20, "messages of one sender in a minute, commands too", least=1)
    message_chars: int = setting(8000, "characters of one message", least=1)
    bindings_per_user: int = setting(50, "bindings of one user", least=1)


@dataclass(frozen=True, slots=True)
class Log:
    """What is written to standard error."""

    level: str = setting("info", "least level", choices=("debug", "info", "warning", "error"))
    format: str = setting(
        "auto", "json, console, or auto by the terminal", choices=("auto", "json", "console")
    )


@dataclass(frozen=True, slots=True)
class Testing:
    """For tests of Trunkline itself; an installation leaves this empty."""

    points_socket: str = setting(
        "", "Unix socket that hears of named instants and may hold the process there"
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections together; only a composition root holds this."""

    database: Database = field(default_factory=Database)
    nats: Nats = field(default_factory=Nats)
    http: Http = field(default_factory=Http)
    frontend: Frontend = field(default_factory=Frontend)
    model: Model = field(default_factory=Model)
    carrier: Carrier = field(default_factory=Carrier)
    owner: Owner = field(default_factory=Owner)
    sealing: Sealing = field(default_factory=Sealing)
    leader: Leader = field(default_factory=Leader)
    poll: Poll = field(default_factory=Poll)
    turns: Turns = field(default_factory=Turns)
    delivery: Delivery = field(default_factory=Delivery)
    limits: Limits = field(default_factory=Limits)
    log: Log = field(default_factory=Log)
    testing: Testing = field(default_factory=Testing)


def relations(settings: Settings) -> list[str]:
    """Problems between settings that are each fine alone."""
    problems = []
    for name, renew, trust, lease in (
        (
            "leader",
            settings.leader.renew_seconds,
            settings.leader.trust_seconds,
            settings.leader.takeover_seconds,
        ),
        (
            "owner",
            settings.owner.lease_renew_seconds,
            settings.owner.lease_trust_seconds,
            settings.owner.lease_seconds,
        ),
    ):
        if not renew < trust < lease:
            problems.append(
                f"[{name}] renewal ({renew}), trust ({trust}) and lease ({lease}) seconds must grow in this order"
            )
    if settings.turns.renew_seconds >= settings.turns.lease_seconds:
        problems.append("[turns] renew_seconds must be below lease_seconds")
    if settings.delivery.retry_seconds > settings.delivery.retry_most_seconds:
        problems.append("[delivery] retry_seconds must not be above retry_most_seconds")
    return problems


#: name of each section -> the section with its defaults
SECTIONS: dict[str, Any] = {f.name: getattr(Settings(), f.name) for f in fields(Settings)}
