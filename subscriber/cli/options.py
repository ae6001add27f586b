"""Options that several verbs share, and logging to standard error."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import click
from typing_extensions import override

from subscriber.base.background import in_background
from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.run_log import JsonFormatter, RepeatFilter, TextFormatter

target_option: Callable[[Any], Any] = click.option(
    "--target",
    envvar="SUBSCRIBER_TARGET",
    required=True,
    metavar="URL",
    show_envvar=True,
    help="The database that changes are written to, as a SQLAlchemy URL.",
)

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)


def http_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``http``, the address and the token of its HTTP server, or None without
    ``--http``.
    """

    @click.option(
        "--http",
        metavar="HOST:PORT",
        help="Serve metrics, health and a dashboard, such as 127.0.0.1:9187 (needs subscriber[http]).",
    )
    @click.option(
        "--http-token-file",
        metavar="FILE",
        help="A file with the token that requests must have; needed for another host than a loopback address.",
    )
    @functools.wraps(function)
    def with_http(*, http: str | None, http_token_file: str | None, **options: Any) -> None:
        function(http=_http_address(http, http_token_file), **options)

    return with_http


HttpAddress: TypeAlias = tuple[tuple[str, int], str | None]
"""Host and port, and the token that requests must have."""


def _http_address(http: str | None, token_file: str | None) -> HttpAddress | None:
    """Wrong options are refused before anything is started."""
    if http is None:
        if token_file is not None:
            raise UsageError("--http-token-file is for --http")
        return None
    try:
        for module in ("jinja2", "prometheus_client", "starlette", "uvicorn"):
            importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f'--http needs the module "{error.name}"', hint='Install it with: pip install "subscriber[http]"'
        ) from None
    from subscriber.operate.http_server import parse_address, read_token

    address = parse_address(http)
    return address, read_token(token_file, address[0])


_COUNT_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class RunLog(logging.Handler):
    """The log of a run on standard error; :meth:`log_counts` writes how often records repeat.

    It writes to the current ``sys.stderr``, which a live table replaces to print above itself.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self._repeats = RepeatFilter()
        self.addFilter(self._repeats)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)

    def log_counts(self, *, all_counts: bool = False) -> None:
        for record in self._repeats.due(time.time(), all_counts=all_counts):
            with self.lock or contextlib.nullcontext():
                self.emit(record)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Write the counts that are due while the block runs, in a thread."""

        def count(end: threading.Event) -> None:
            while not end.wait(_COUNT_SECONDS):
                self.log_counts()

        with in_background("counts of the log", count, 0.0):
            yield

    @override
    def close(self) -> None:
        self.log_counts(all_counts=True)
        super().close()


def warn_on_stderr() -> None:
    """Print warnings and errors on standard error, as psql does."""
    logging.basicConfig(format="%(levelname)s:  %(message)s", level=logging.WARNING)
    _silence_libraries()


def log_to_stderr(*, verbose: bool = False, log_format: str = "text") -> RunLog:
    """Log to standard error, as PostgreSQL's server log does, or as one JSON object a line."""
    log = RunLog(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[log], force=True)
    logging.captureWarnings(log_format == "json")
    _silence_libraries()
    return log


def run_log_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``log``, the log that ``--verbose`` and ``--log-format`` describe. An error of
    the command is an object of the JSON log, too.
    """

    @click.option("--verbose", "-v", is_flag=True, help="Also log debug messages.")
    @click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        envvar="SUBSCRIBER_LOG_FORMAT",
        show_envvar=True,
        help="The log as PostgreSQL's server writes it, or one JSON object a line.",
    )
    @functools.wraps(function)
    def with_log(*, verbose: bool, log_format: str, **options: Any) -> None:
        log = log_to_stderr(verbose=verbose, log_format=log_format)
        try:
            function(log=log, **options)
        except SubscriberError as error:
            if log_format == "text":
                raise
            logger.error("%(error)s%(further)s", {"error": error.message, "further": error.further})  # noqa: TRY400
            sys.exit(1)

    return with_log


def _silence_libraries() -> None:
    for chatty in ("py4j", "pyspark", "sqlalchemy.pool", "sqlglot"):
        # py4j logs a traceback for an error that this program handles and reports. SQLAlchemy's
        # pool logs a traceback for a connection that the target has ended: the statement that uses
        # the connection fails, and its error is reported.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
