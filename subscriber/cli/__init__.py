"""The command line: one module for each verb, which parses options, calls the library and prints.

::

    check, cutover, decode, demo, explain,
    journal, publication, run, scenario,
    schema, sql, status, verify            the verbs; each module has a click command ``command``
    options                                options that several verbs share, and logging
    psql_table                             tables as psql prints them
    backslash                              the backslash commands of ``sql``
    describe_publications                  the backslash commands that describe publications
    prompt, prompt_history                 the prompt of ``sql``, and its history file
    secrets                                commands and errors without passwords
    schema_change_table                    the part of ``status`` about tables that were altered
    live                                   the live table of ``run`` and ``demo`` on a terminal

This module loads the module of the verb that is used. The packages that a verb asks load theirs
when a name of them is first used (:mod:`subscriber.lazy_names`). The verb's module calls
:mod:`subscriber.commands`, :mod:`subscriber.runtime` or :mod:`subscriber.scenario`, which do the
work.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Errors are printed as psql prints
them (ERROR, DETAIL, HINT, CONTEXT) on standard error. A traceback is a bug of this program.
"""

from __future__ import annotations

import atexit
import importlib
import sys
from typing import Final

import click

from subscriber import __version__
from subscriber.cli.options import warn_on_stderr
from subscriber.errors import SubscriberError
from subscriber.suggestions import closest
from subscriber.waiting import told_by

VERBS: Final = {
    "check": "Say what would go wrong with a subscription, before anything is changed.",
    "cutover": "Switch an application over from the publisher to the target, in steps.",
    "decode": "Print what a journal contains as an output plugin writes it.",
    "demo": "Replicate an embedded PostgreSQL 18 into SQLite through Spark.",
    "explain": "Show why emulated publications sent, rewrote or left out changes.",
    "journal": "List and print the journals of received changes, and remove their consumers.",
    "publication": "Store publications of a server in the target, for the subscriber to evaluate.",
    "scenario": "Run psql sessions as tests of PostgreSQL's subscriber or of this one.",
    "run": "Replicate: run the workers of all enabled subscriptions of a target.",
    "schema": "List what the target lacks of the publisher's schema, and build it.",
    "sql": "Run CREATE, ALTER and DROP SUBSCRIPTION or PUBLICATION, and queries, on a target.",
    "status": "Show subscriptions, slots, table states, lag, conflicts and errors of a target.",
    "verify": "Compare publisher and target at one LSN, and repair what differs.",
}
"""Verb, which is also the name of its module → its description.

A module is loaded when its verb is used, so that ``--help`` does not wait for Spark.
"""


_COMMANDS: Final = frozenset({"check", "cutover", "explain", "publication", "schema", "sql", "status", "verify"})
"""Verbs that print what they wait for. The other verbs log it."""


class _Verbs(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"subscriber.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, arguments)
        except click.UsageError as error:
            verb = closest(arguments[0], VERBS)
            if verb is None:
                raise
            raise click.UsageError(f"{error.format_message()} Did you mean '{verb}'?", context) from None

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context) -> None:
    """PostgreSQL's logical replication subscriber for any database that SQLAlchemy can open.

    First create a subscription with `subscriber sql`, then replicate with `subscriber run`. The
    commands keep subscriptions and progress in tables of the target.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Errors and notices are printed
    on standard error.
    """
    if context.invoked_subcommand in _COMMANDS:
        context.with_resource(told_by(lambda text: click.echo(f"NOTICE:  {text}", err=True)))


def _leave_quietly() -> None:
    targets = sys.modules.get("subscriber.targets")  # not loaded if no target was opened
    if targets is not None:
        targets.leave_quietly()


def main() -> None:
    """The entry point of the console script."""
    atexit.register(_leave_quietly)  # the first registered function runs last
    warn_on_stderr()
    try:
        cli.main(prog_name="subscriber", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SubscriberError as error:
        click.echo(error.report(), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # For instance `subscriber journal show | head`: the reader has closed the pipe.
        sys.stderr.close()
        sys.exit(0)
