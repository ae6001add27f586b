"""The command line: one module for each verb, which parses options, calls the library and prints.

::

    check, conformance, cutover, decode,
    demo, explain,
    journal, publication, receive, run,
    scenario, schema, spark, sql, status,
    verify                                 the verbs; each module has a click command ``command``
    options                                options that several verbs share, and logging
    backslash                              the backslash commands of ``sql``
    prompt                                 the prompt of ``sql``, and its history file
    secrets                                commands and errors without passwords
    live                                   how far ``run``, ``demo`` and other verbs have come, on a terminal

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Errors are printed as psql prints
them on standard error. A traceback is a bug of this program.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import Final

import click

from subscriber import __version__
from subscriber.base.errors import SubscriberError
from subscriber.base.suggestions import closest
from subscriber.base.waiting import notices_to
from subscriber.cli.options import warn_on_stderr

VERBS: Final = {
    "check": "Say what would go wrong with a subscription, before anything is changed.",
    "conformance": "Check what of PostgreSQL's semantics holds in an empty database.",
    "cutover": "Switch an application over from the publisher to the target, in steps.",
    "decode": "Print what a journal contains as an output plugin writes it.",
    "demo": "Replicate an embedded PostgreSQL 18 into SQLite through Spark.",
    "explain": "Show why emulated publications sent, rewrote or left out changes.",
    "journal": "List and print the journals of received changes, and remove their consumers.",
    "publication": "Store publications of a server in the target, for the subscriber to evaluate.",
    "receive": "Receive a replication slot into a journal, without a target, for Spark.",
    "scenario": "Run psql sessions as tests of PostgreSQL's subscriber or of this one.",
    "run": "Replicate: run the workers of all enabled subscriptions of a target.",
    "schema": "List what the target lacks of the publisher's schema, and build it.",
    "spark": "Write an archive for Spark applications that read change feeds; a demo.",
    "sql": "Run CREATE, ALTER and DROP SUBSCRIPTION or PUBLICATION, and queries, on a target.",
    "status": "Show subscriptions, slots, table states, lag, conflicts and errors of a target.",
    "verify": "Compare publisher and target at one LSN, and repair what differs.",
}
"""Verb → description. Its module is loaded when it is used: ``--help`` does not wait for Spark."""


_COMMANDS: Final = frozenset({"check", "cutover", "explain", "publication", "schema", "sql", "status", "verify"})
"""Verbs that print what they wait for. The other verbs log it."""
_OURS: Final = "SUBSCRIBER_"
"""How the environment variables begin that this program reads."""


class _Verbs(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(VERBS)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Refuse bytes that are not UTF-8 before anything is done with them."""
        given = [(_argument(args, number), text) for number, text in enumerate(args)]
        given += [(f"Environment variable {name}", text) for name, text in os.environ.items() if name.startswith(_OURS)]
        for place, text in given:
            if not text.isascii():
                # The module is loaded only if there is such a text.
                from subscriber.base.utf8 import invalid_utf8

                wrong = invalid_utf8(text)
                if wrong is not None:
                    raise click.UsageError(f"{place}: {wrong}", context)
        return super().parse_args(context, args)

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


def _argument(args: list[str], number: int) -> str:
    """The place of an argument, with the option that it seems to belong to."""
    before = args[number] if args[number].startswith("-") else args[number - 1] if number else ""
    option = before.partition("=")[0] if before.startswith("--") else before[:2]
    belongs = option.startswith("-") and option.isascii()
    return f"Argument {number + 1}{f' ({option})' if belongs else ''}"


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
        context.with_resource(notices_to(lambda text: click.echo(f"NOTICE:  {text}", err=True)))


def _exit_quietly() -> None:
    targets = sys.modules.get("subscriber.targets")  # not loaded if no target was opened
    if targets is not None:
        targets.exit_quietly()


def main() -> None:
    atexit.register(_exit_quietly)  # the first registered function runs last
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
