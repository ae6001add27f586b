"""``subscriber sql``: commands and queries of the target, in PostgreSQL's words."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from subscriber.cli.options import target_option
from subscriber.cli.table import format_rows
from subscriber.errors import SubscriberError, UsageError
from subscriber.settings import Settings
from subscriber.subscription import catalog
from subscriber.subscription.commands import create_subscription, drop_subscription
from subscriber.subscription.grammar import CreateSubscription, DropSubscription, Query, parse
from subscriber.subscription.statements import Statement, split_statements
from subscriber.target import Target, open_target


@click.command("sql")
@target_option
@click.option("-c", "--command", "text", metavar="SQL", help="Run this, then exit.")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="Run the statements of this file (- is standard input)."
)
def command(target: str, text: str | None, file: Path | None) -> None:
    """Run CREATE SUBSCRIPTION, DROP SUBSCRIPTION or SELECT on a target.

    Without -c and -f, statements are read from standard input. The first error ends the run.
    """
    if text is not None and file is not None:
        raise click.UsageError("-c and -f exclude each other.")
    source, statements = _statements(text, file)
    with open_target(target) as database:
        for statement in statements:
            try:
                _run(database, statement.text)
            except SubscriberError as error:
                raise _at(error, source, statement) from error


def _statements(text: str | None, file: Path | None) -> tuple[str | None, list[Statement]]:
    """The statements, and the name of the file they are from."""
    if text is not None:
        return None, split_statements(text)
    if file is None or str(file) == "-":
        return "<stdin>", split_statements(sys.stdin.read())
    try:
        return str(file), split_statements(file.read_text())
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror}", hint="-f takes a file of statements; - is standard input."
        ) from error


def _at(error: SubscriberError, source: str | None, statement: Statement) -> SubscriberError:
    """Say where in a file the statement stands, as psql does."""
    if source is not None:
        error.context = error.context or f"{source}:{statement.line}"
    return error


def _run(database: Target, text: str) -> None:
    parsed = parse(text)
    match parsed:
        case CreateSubscription():
            create_subscription(database, parsed, _notify)
            click.echo("CREATE SUBSCRIPTION")
        case DropSubscription():
            drop_subscription(database, parsed, Settings.from_environment(), _notify)
            click.echo("DROP SUBSCRIPTION")
        case Query():
            with database.reporting():
                catalog.ensure_catalog(database.engine)
            with database.reporting(), database.engine.connect() as connection:
                names, rows = catalog.run_query(connection, parsed.sql)
            click.echo(format_rows(names, rows))


def _notify(text: str) -> None:
    click.echo(text, err=True)
