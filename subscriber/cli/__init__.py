"""The command line: one file a verb, thin over the library.

Exit codes: 0 done, 1 it failed, 2 wrong usage, 130 interrupted. Errors are printed as psql prints
them (ERROR, DETAIL, HINT, CONTEXT) on standard error; a traceback is a bug of ours.
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
from subscriber.waiting import told_by

VERBS: Final = {
    "demo": "Replicate an embedded PostgreSQL 18 into SQLite through Spark.",
    "explain": "Say why changes were sent, rewritten or left out by the subscriber's own publications.",
    "journal": "Look into what was received and is kept until the target has it.",
    "publication": "Take over publications of a server, so that the subscriber can do the filtering.",
    "scenario": "Run psql sessions against PostgreSQL's subscriber or ours, and compare what they print.",
    "run": "Run the workers of all enabled subscriptions of a target.",
    "sql": "Run CREATE, ALTER and DROP of SUBSCRIPTION and PUBLICATION, and queries, on a target.",
    "status": "Show subscriptions, table states, copies in progress, lag, conflicts and the last error.",
}
"""Verb (and module of this package) → what it does. Modules are loaded when used: ``--help`` should
not wait for Spark.
"""


_COMMANDS: Final = frozenset({"explain", "publication", "sql", "status"})
"""Verbs that print for whom they wait; the others log it."""


class _Verbs(click.Group):
    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command = importlib.import_module(f"subscriber.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context) -> None:
    """CREATE SUBSCRIPTION for any database: replicate PostgreSQL into every SQLAlchemy target."""
    if context.invoked_subcommand in _COMMANDS:
        context.with_resource(told_by(lambda text: click.echo(f"NOTICE:  {text}", err=True)))


def _leave_quietly() -> None:
    targets = sys.modules.get("subscriber.targets")  # not loaded where nothing had a target
    if targets is not None:
        targets.leave_quietly()


def main() -> None:
    """The console script."""
    atexit.register(_leave_quietly)  # the first that is registered runs last
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
        # `subscriber journal show | head`: the reader has what it wanted.
        sys.stderr.close()
        sys.exit(0)
