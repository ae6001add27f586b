"""Options that several verbs share, and logging to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import click

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


class _StandardError(logging.Handler):
    """Writes to the current ``sys.stderr``.

    A live table replaces ``sys.stderr``, to print log lines above itself.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def warn_on_stderr() -> None:
    """Print warnings and errors on standard error, as psql does."""
    logging.basicConfig(format="%(levelname)s:  %(message)s", level=logging.WARNING)
    _silence_libraries()


def log_to_stderr(*, verbose: bool = False) -> None:
    """Log to standard error, as PostgreSQL's server log does."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s:  %(message)s",
        level=logging.DEBUG if verbose else logging.INFO,
        handlers=[_StandardError()],
        force=True,
    )
    _silence_libraries()


def _silence_libraries() -> None:
    for chatty in ("py4j", "pyspark", "sqlalchemy.pool", "sqlglot"):
        # py4j logs a traceback for an error that this program handles and reports. SQLAlchemy's
        # pool logs a traceback for a connection that the target has ended: the statement that uses
        # the connection fails, and its error is reported.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
