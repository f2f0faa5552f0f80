"""Every metric of Trunkline. Names follow the Prometheus rules: one prefix, base units, no unbounded labels."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

INBOUND = Counter(
    "trunkline_inbound_messages_total", "Messages decided on, by outcome.", ["outcome"], registry=REGISTRY
)
DUPLICATES = Counter(
    "trunkline_inbound_duplicates_total", "Messages that had been stored before.", registry=REGISTRY
)
SKIPPED = Counter(
    "trunkline_inbound_skipped_total",
    "Updates that were passed without a message for anybody: of kinds that nobody reads, or unreadable.",
    registry=REGISTRY,
)
POLLS = Counter("trunkline_polls_total", "Completed polls, by result.", ["result"], registry=REGISTRY)
LAST_POLL = Gauge(
    "trunkline_last_poll_timestamp_seconds",
    "When the last poll of this leader was completed.",
    registry=REGISTRY,
)
DEAF_BINDINGS = Gauge(
    "trunkline_deaf_bindings",
    "Connections that are on and hear nothing from their platform, over the whole cluster.",
    registry=REGISTRY,
)
OLDEST_POLL = Gauge(
    "trunkline_oldest_poll_seconds",
    "Age of the oldest last completed poll of a connection that is on, over the whole cluster.",
    registry=REGISTRY,
)
OLDEST_FRAME = Gauge(
    "trunkline_oldest_frame_seconds",
    "How long a connection that is on has heard nothing at all from its platform, the longest over the whole cluster.",
    registry=REGISTRY,
)
LEADER_TERM = Gauge(
    "trunkline_leader_term",
    "Term of the shards that this frontend leads; 0 when it does not.",
    ["shard"],
    registry=REGISTRY,
)
OLDEST_WAITING = Gauge(
    "trunkline_oldest_waiting_seconds",
    "Age of the oldest message that is neither answered nor refused.",
    registry=REGISTRY,
)
TURNS_RUNNING = Gauge("trunkline_turns_running", "Turns that run in this process.", registry=REGISTRY)
TURNS = Counter("trunkline_turns_total", "Turns that ended here, by state.", ["state"], registry=REGISTRY)
TAKEOVERS = Counter(
    "trunkline_turn_takeovers_total", "Turns taken over from another frontend.", registry=REGISTRY
)
TURN_SECONDS = Histogram(
    "trunkline_turn_duration_seconds",
    "From the claim of a turn to its planned answer.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
MODEL_REQUESTS = Counter(
    "trunkline_model_requests_total",
    "Requests to the model server, by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
DELIVERIES = Counter(
    "trunkline_deliveries_total",
    "Executed parts, by purpose and outcome.",
    ["purpose", "outcome"],
    registry=REGISTRY,
)
PREVIEWS = Counter("trunkline_previews_total", "Previews, by outcome.", ["outcome"], registry=REGISTRY)
ADDON_STARTS = Counter(
    "trunkline_addon_starts_total", "Starts of add-on processes.", ["addon"], registry=REGISTRY
)
ADDONS_RUNNING = Gauge("trunkline_addons_running", "Add-on processes that answer.", registry=REGISTRY)
OWNER_TERM = Gauge(
    "trunkline_owner_term", "Term of this owner; 0 when it is not the active one.", registry=REGISTRY
)
HTTP_REQUESTS = Counter(
    "trunkline_http_requests_total",
    "HTTP requests, by route and status class.",
    ["route", "status"],
    registry=REGISTRY,
)
LOOP_DELAY = Histogram(
    "trunkline_event_loop_delay_seconds",
    "How late the event loop of this process comes to what is due, looked at 20 times a second.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
