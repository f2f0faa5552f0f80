"""Logs: one line an event, a constant event name, data as fields; JSON for machines, colours for a terminal."""

import logging
import sys
from typing import Any

import structlog

from shared.config.sections import Log
from shared.text.redaction import scrub_tokens


def configure(settings: Log, service: str) -> None:
    """Set up logging for this process, with the name of the service in every line.

    Loggers of third parties go through the same renderer; token shapes pass neither way (TOK-09).
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    console = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Plain tracebacks: those with local values show secrets and texts, and take seconds in which nothing else runs.
    renderers: list[Any] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.contextvars.bind_contextvars(service=service)
    structlog.configure(
        processors=[*common, *renderers, _scrub],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers, _scrub],
        )
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("aiohttp.server").addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    """Not a request that is no HTTP: its sender hears of it, and the error quotes headers, which may hold a key."""
    problem = record.exc_info[1] if record.exc_info else None
    return type(problem).__module__ != "aiohttp.http_exceptions"


def _scrub(_logger: Any, _method: str, line: Any) -> str:
    return scrub_tokens(str(line))
