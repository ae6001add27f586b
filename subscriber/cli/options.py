"""Options that several verbs share."""

from __future__ import annotations

import logging
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


def log_to_stderr(*, verbose: bool = False) -> None:
    """Log as PostgreSQL's server log does, on standard error."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s:  %(message)s", level=logging.DEBUG if verbose else logging.INFO, force=True
    )
    for chatty in ("py4j", "pyspark", "sqlglot"):
        # py4j logs a traceback for an error of ours that is handled and reported in its own words.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
