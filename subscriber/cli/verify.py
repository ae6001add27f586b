"""``subscriber verify``: whether publisher and target have the same rows."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console

from subscriber.base.errors import UsageError
from subscriber.base.lsn import format_lsn
from subscriber.base.progress_lines import shown_by
from subscriber.base.settings import Settings
from subscriber.catalog.existing_catalog import existing_catalog, missing_catalog
from subscriber.catalog.subscriptions import list_subscriptions
from subscriber.cli.live import showing_bars, showing_progress
from subscriber.cli.options import json_option, target_option
from subscriber.targets import Target, open_target
from subscriber.testing.session.psql_table import format_rows
from subscriber.verify.report import OnProgress, TableVerification, VerifyOptions, VerifyProgress, VerifyReport
from subscriber.verify.verify_subscription import verify_subscription

_HEADINGS = ("table", "publisher", "target", "differing", "only at publisher", "only in target", "at", "")
_MANY_ROWS = 100_000
"""A table of fewer rows has no bar of its own."""
_KINDS = {"differing": "differing", "only_publisher": "only at publisher", "only_target": "only in target"}


class _Share(click.ParamType[float]):
    """A percentage, such as ``1%``."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        given = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", str(value))
        share = 0.0 if given is None else float(given[1]) / 100
        if not 0 < share <= 1:
            self.fail(f"{value!r} is not a percentage from above 0% to 100%, such as 1%", param, ctx)
        return share


@click.command("verify")
@target_option
@click.option(
    "--table", "tables", multiple=True, metavar="TABLE", help="Compare this table only; the option can be repeated."
)
@click.option("--sample", type=_Share(), metavar="PERCENT", help="Compare only this share of the rows, such as 1%.")
@click.option("--repair", is_flag=True, help="Write the publisher's rows into the target where they differ.")
@click.option("--show-values", is_flag=True, help="Show the keys of the first rows that differ.")
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Spark tasks that read a large table at a time; one for each processor by default. With 1, Spark is not used.",
)
@json_option
@click.argument("subscription", required=False, metavar="[SUBSCRIPTION]")
def command(
    target: str,
    tables: tuple[str, ...],
    sample: float | None,
    repair: bool,
    show_values: bool,
    processes: int | None,
    as_json: bool,
    subscription: str | None,
) -> None:
    """Compare publisher and target at one LSN, while both are being written.

    `subscriber run` must be running. The command pauses `subscriber run` at one LSN, reads both
    sides, and resumes it; changes wait in the journal meanwhile. SUBSCRIPTION may be left out if
    the target has only one.

    For each table prints the numbers of rows on both sides, of rows that differ, and of rows that
    only one side has. With --repair, these rows become those of the publisher, in one transaction
    for each table; rows that only the target has are deleted.

    The exit code is 0 if every table is equal, or was repaired, and 1 otherwise.
    """
    options = VerifyOptions(tables, sample, repair, show_values, processes)
    with open_target(target) as database:
        name = subscription or _only_subscription(database)
        stop = threading.Event()
        with _progress_bar() as on_progress:
            report = verify_subscription(database, name, Settings.from_environment(), options, on_progress, stop=stop)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=1))
    else:
        _print(report)
        if not repair and any(one.differences for one in report.tables):
            command = f"subscriber verify {shlex.quote(name)} --repair"
            click.echo(
                f"\nTo make the target's rows those of the publisher: {command}"
                "\nIt deletes rows that only the target has. --show-values shows the keys of the first rows that differ."
            )
    if not report.is_equal:
        sys.exit(1)


def _only_subscription(database: Target) -> str:
    """The name of the target's only subscription; neither a file nor the catalog is created."""
    with existing_catalog(database) as connection:
        names = [] if connection is None else [one.name for one in list_subscriptions(connection)]
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(
            "there is no subscription to verify",
            sqlstate="42704",
            hint=f"{missing_catalog(database)}. Is the target URL correct?",
        )
    raise click.UsageError(f"Name one of the subscriptions: {', '.join(names)}.")


@contextlib.contextmanager
def _progress_bar(console: Console | None = None) -> Iterator[OnProgress | None]:
    """Give the function that draws a bar for the rows of a large table; None without a terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        with showing_progress(console):
            yield None
        return
    with showing_bars(console) as draw, shown_by(draw):

        def show(current: VerifyProgress) -> None:
            if current.estimated_rows >= _MANY_ROWS:  # each row is read on both sides
                draw(current.table, current.publisher_rows + current.target_rows, 2 * current.estimated_rows)

        yield show


def _print(report: VerifyReport) -> None:
    click.echo(format_rows(_HEADINGS, [_row(table) for table in report.tables]))
    if not report.tables:
        click.echo("\nthe subscription has no tables: nothing was compared")
    for note in report.notes:
        click.echo(f"\nNOTE:  {note}")
    if report.sample is not None:
        click.echo(f"\nonly a sample of {report.sample:.6%} of the rows was compared".replace(".000000%", "%"))
    for table in report.tables:
        for line in _lines(table):
            click.echo(line)


def _row(table: TableVerification) -> list[str]:
    name = table.table if table.target_table == table.table else f"{table.table} => {table.target_table}"
    result = "ERROR" if table.error else f"repaired {table.repaired}" if table.repaired else ""
    if not result:
        result = "equal" if table.is_equal else "DIFFERENT"
    if table.lsn is None:
        return [name, *["-"] * 6, result]
    numbers = (table.publisher_rows, table.target_rows, table.differing, table.only_publisher, table.only_target)
    return [name, *(f"{number:,}" for number in numbers), format_lsn(table.lsn), result]


def _printable(value: str) -> str:
    """A value on one line, without control characters, which a terminal would obey."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in value)


def _lines(table: TableVerification) -> Iterator[str]:
    """What is to be said below the table of the report."""
    if table.columns:
        yield f"\n{table.table}: rows differ in {', '.join(table.columns)}"
    for kind, words in _KINDS.items():
        keys = [one.key for one in table.keys if one.kind == kind]
        if keys:
            shown = ", ".join(
                "(" + ", ".join("null" if value is None else _printable(value) for value in key) + ")" for key in keys
            )
            yield f"\n{table.table}: {words}: {shown}"
    for note in table.notes:
        yield f"\n{table.table}: NOTE:  {note}"
    if table.error:
        yield f"\n{table.table}:\n{table.error}"
