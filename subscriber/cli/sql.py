"""``subscriber sql``: PostgreSQL's commands for subscriptions and publications, and queries."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

from subscriber.base.errors import SQLSyntaxError, SubscriberError, UsageError
from subscriber.base.settings import Settings
from subscriber.base.utf8 import decode_utf8
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.cli.backslash import run_backslash
from subscriber.cli.options import target_option
from subscriber.cli.secrets import point_at
from subscriber.commands.subscription_grammar import CreateSubscription, Query, parse
from subscriber.postgres.sql.statements import Statement, cut
from subscriber.targets import Target, open_target
from subscriber.testing.session.psql_table import format_result


@click.command("sql")
@target_option
@click.option(
    "--publisher",
    envvar="SUBSCRIBER_PUBLISHER",
    metavar="CONNINFO",
    show_envvar=True,
    help="The server that has the tables of CREATE and ALTER PUBLICATION (default: the publisher of the target's subscriptions).",
)
@click.option("-c", "--command", "text", metavar="SQL", help="Run these statements, then exit.")
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path),
    help="Run the statements of this file, then exit. - is standard input.",
)
def command(target: str, publisher: str | None, text: str | None, file: Path | None) -> None:
    r"""Run CREATE, ALTER and DROP SUBSCRIPTION or PUBLICATION, and queries, on a target.

    The commands for subscriptions have PostgreSQL's syntax and options. Publications that are
    created here are emulated: the subscriber evaluates them. Queries are SELECT statements in the
    SQL of the target. Results, notices and errors are printed as psql prints them.

    Without -c and -f, statements are read from a prompt, or from standard input if that is not a
    terminal. \h and \? at the prompt list the commands. The first error ends the command with exit
    code 1; at the prompt, errors are only printed.
    """
    if text is not None and file is not None:
        raise click.UsageError("-c and -f cannot be used together.")
    with open_target(target) as database:
        run = partial(_run, database, Settings.from_environment(), publisher)
        if text is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
            _converse(database, run)
            return
        source, statements = _statements(text, file)
        for statement in statements:
            if statement.command in (r"\q", r"\quit"):
                return
            try:
                click.echo(run(statement))
            except SubscriberError as error:
                raise _at(error, source, statement) from error


def _converse(database: Target, run: partial[str]) -> None:
    # prompt_toolkit is loaded only if there is a prompt.
    from subscriber.cli.prompt import converse, history_file, open_history, open_session

    converse(open_session(database, open_history(history_file(os.environ))), run)


def _statements(text: str | None, file: Path | None) -> tuple[str | None, list[Statement]]:
    if text is not None:
        return None, cut(text)
    if file is None or str(file) == "-":
        return "<stdin>", cut(decode_utf8(sys.stdin.buffer.read(), "<stdin>"))
    try:
        return str(file), cut(decode_utf8(file.read_bytes(), str(file)))
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror}", hint="-f needs a file with statements; - is standard input."
        ) from error


def _at(error: SubscriberError, source: str | None, statement: Statement) -> SubscriberError:
    """The error with the file and the line of the statement, as psql prints them."""
    return error if source is None else error.replace(context=error.context or f"{source}:{statement.line}")


def _run(database: Target, settings: Settings, publisher: str | None, statement: Statement) -> str:
    if statement.command:
        if statement.sql:
            raise UsageError(
                "a backslash command after a statement is not supported", hint="End the statement with a semicolon."
            )
        return run_backslash(statement.command, database, settings.postgresql_version)
    try:
        parsed = parse(statement)
        if not isinstance(parsed, Query):
            # A query needs no commands.
            from subscriber.commands.dispatch import run_command

            tag = run_command(database, parsed, settings, _notify, publisher)
            if isinstance(parsed, CreateSubscription):
                _warn_at_creation(database, parsed, settings)
            return tag
    except SQLSyntaxError as error:
        raise point_at(error, statement) from None
    with database.reporting():
        ensure_catalog(database.engine)
    return format_result(database.query(parsed.sql)) + "\n"


def _warn_at_creation(database: Target, created: CreateSubscription, settings: Settings) -> None:
    # The check is loaded only if a subscription was created.
    from subscriber.migrate.check_migration import warn_at_creation

    warn_at_creation(database, created, settings, _notify)


def _notify(text: str) -> None:
    click.echo(text, err=True)
