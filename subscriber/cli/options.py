"""Options that several verbs share."""

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
    help="The database to replicate into, as a SQLAlchemy URL.",
)

json_option: Callable[[Any], Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON instead of a table."
)


class _StandardError(logging.Handler):
    """Writes to what standard error is at that moment: a live table puts itself in its place, to
    make room for the line.
    """

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def warn_on_stderr() -> None:
    """Print warnings and errors as psql does, on standard error."""
    logging.basicConfig(format="%(levelname)s:  %(message)s", level=logging.WARNING)
    _silence_libraries()


def log_to_stderr(*, verbose: bool = False) -> None:
    """Log as PostgreSQL's server log does, on standard error."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s:  %(message)s",
        level=logging.DEBUG if verbose else logging.INFO,
        handlers=[_StandardError()],
        force=True,
    )
    _silence_libraries()


def _silence_libraries() -> None:
    for chatty in ("py4j", "pyspark", "sqlalchemy.pool", "sqlglot"):
        # py4j logs a traceback for an error of ours that is handled and reported in its own words,
        # and SQLAlchemy's pool one for a connection that a target that went away has ended: what it
        # was used for fails, and says so.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
