"""What Lily says about itself: log lines, metrics by name, and trace ids that travel."""

import logging
import re
import secrets
import sys
from contextvars import ContextVar
from typing import Literal, TextIO

import msgspec
import structlog
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector
from structlog.typing import EventDict, Processor, WrappedLogger

Format = Literal["json", "pretty", "auto"]

# Set by whoever begins a piece of work: the API for a request, the pipeline for a batch.
request_id: ContextVar[str] = ContextVar("request_id", default="")
tenant: ContextVar[str] = ContextVar("tenant", default="")
traceparent: ContextVar[str] = ContextVar("traceparent", default="")

# Traces ---------------------------------------------------------------------------------------

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Trace(msgspec.Struct, frozen=True):
    """A place in a trace, as W3C trace context writes it."""

    trace_id: str
    span_id: str
    flags: str = "01"

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def new_trace() -> Trace:
    return Trace(secrets.token_hex(16), secrets.token_hex(8))


def parse_trace(header: str | None) -> Trace | None:
    """None for what is not a traceparent; a newer version of the format is read as far as known."""
    found = _TRACEPARENT.fullmatch((header or "").strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    unknown = version == "ff" or (version == "00" and more)
    if unknown or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Trace(trace_id, span_id, flags)


def child_trace(header: str | None) -> Trace:
    """The next span of the trace in the header; a new trace when there is none."""
    parent = parse_trace(header)
    if parent is None:
        return new_trace()
    return Trace(parent.trace_id, secrets.token_hex(8), parent.flags)


# Logs -----------------------------------------------------------------------------------------


def logger(name: str) -> structlog.stdlib.BoundLogger:
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


def configure(level: str = "info", style: Format = "auto", to: TextIO | None = None) -> None:
    """Send every log line, ours and those of libraries, through one formatter to one stream."""
    stream = to or sys.stderr
    pretty = style == "pretty" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared(), processors=_rendering(pretty)
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("py4j", "asyncio", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    # A pool repeats itself many times a second while the database restarts.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    for own_handlers in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(own_handlers).handlers.clear()
        logging.getLogger(own_handlers).propagate = True
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _shared() -> list[Processor]:
    return [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _context,
    ]


def _rendering(pretty: bool) -> list[Processor]:
    clean: Processor = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if pretty:
        console = structlog.dev.ConsoleRenderer(
            timestamp_key="time",
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,  # rich would print local variables
        )
        return [clean, console]
    return [clean, structlog.processors.format_exc_info, _in_order, _json]


def _context(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Whose work this line belongs to."""
    if request := request_id.get():
        event.setdefault("request_id", request)
    if name := tenant.get():
        event.setdefault("tenant", name)
    if trace := parse_trace(traceparent.get()):
        event.setdefault("trace_id", trace.trace_id)
    return event


_FIRST = ("time", "level", "logger", "event", "request_id", "tenant", "trace_id")


def _in_order(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    head = {key: event.pop(key) for key in _FIRST if key in event}
    return {**head, **event}


def _json(_: WrappedLogger, __: str, event: EventDict) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()


# Metrics --------------------------------------------------------------------------------------
# Every name in one place. Times are in seconds; the event's own time counts, not the scrape's.

_FAST = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 10, 30, 60, 300)

INGEST_SECONDS = Histogram(
    "lily_ingest_queryable_seconds",
    "From the append of an observation to its commit in the store.",
    ["lane"],
    buckets=_FAST,
)
BATCHES = Counter("lily_batches", "Batches that the pipeline committed.", ["lane"])
BATCH_SECONDS = Histogram(
    "lily_batch_seconds", "How long a batch took, read to commit.", buckets=_FAST
)
OBSERVATIONS = Counter(
    "lily_observations", "Observations by what became of them.", ["lane", "outcome"]
)
DEAD_LETTERS = Counter("lily_dead_letters", "Observations parked, by stage.", ["stage"])
LOG_LAG = Gauge(
    "lily_log_lag",
    "Observations in the log that are not applied yet.",
    ["cell", "lane"],
    multiprocess_mode="mostrecent",
)
LOG_LAG_SECONDS = Gauge(
    "lily_log_lag_seconds",
    "Age of the oldest observation that is not applied yet.",
    ["cell", "lane"],
    multiprocess_mode="mostrecent",
)
LOG_NEWEST_SECONDS = Gauge(
    "lily_log_newest_applied_seconds",
    "Age of the newest observation that is applied.",
    ["cell", "lane"],
    multiprocess_mode="mostrecent",
)
TENANT_WAITING = Gauge(
    "lily_tenant_waiting",
    "Observations of a tenant that are not applied yet.",
    ["tenant", "lane"],
    multiprocess_mode="mostrecent",
)
LAKE_LAG_SECONDS = Gauge(
    "lily_lake_lag_seconds",
    "How long the oldest of what the lake's tables lack has been in the store.",
    ["cell", "table"],
    multiprocess_mode="mostrecent",
)
HTTP_SECONDS = Histogram(
    "lily_http_request_seconds",
    "Requests by route template.",
    ["method", "route", "status"],
    buckets=_FAST,
)
LIVE_FOLLOWERS = Gauge(
    "lily_live_followers",
    "Sockets and streams that follow the feed.",
    multiprocess_mode="livesum",
)
WEBHOOKS = Counter("lily_webhooks", "Calls of other tools.", ["plugin", "outcome"])
PROPAGATION_SECONDS = Histogram(
    "lily_propagation_seconds", "From a batch of facts to what they stirred.", buckets=_FAST
)
ENFORCED = Histogram(
    "lily_enforced_seconds", "From what is wanted of an engine to what it says holds.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300),
)  # fmt: skip
PROPAGATED = Counter("lily_propagated", "Assets that showed something new by lineage.")
PROPAGATION_LIMITED = Counter(
    "lily_propagation_limited", "Limits that propagation has reached.", ["limit"]
)
LOGINS = Counter("lily_logins", "Logins by outcome.", ["outcome"])
DELIVERIES = Counter(
    "lily_deliveries", "Tries to tell a notice, by what came of them.", ["plugin", "outcome"]
)
DELIVERY_SECONDS = Histogram(
    "lily_delivery_seconds", "How long a try to tell a notice took.", buckets=_FAST
)
NOTICES = Counter("lily_notices", "Notices made from facts.")
CRAWLS = Counter("lily_crawls", "Crawls that ended, by state.", ["state"])
LEADS = Gauge(
    "lily_leads",
    "Duties that a process has alone, such as applying the log; nobody else does them meanwhile.",
    ["duty"],
    multiprocess_mode="livesum",
)
LOOP_FAILURES = Counter("lily_worker_failures", "Worker loops that broke and restarted.", ["loop"])


def exposition() -> bytes:
    """The text of /metrics: all processes of one `lily up` together, else this process alone."""
    registry = CollectorRegistry()
    try:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    except ValueError:  # no shared folder: not started by `lily up`
        registry = REGISTRY
    return generate_latest(registry)


def tell(port: int, host: str) -> None:
    """Answer scrapes of this process on a port of its own."""
    start_http_server(port, addr=host)
