"""``subscriber cutover``: switch an application over from the publisher to the target."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.settings import Settings
from subscriber.cli.live import showing_progress
from subscriber.cli.options import json_option, target_option
from subscriber.migrate.cutover import run_cutover as cutovers
from subscriber.migrate.cutover.cutover_report import (
    CutoverReport,
    StepResult,
    as_json,
    new_report,
    prepare_folder,
    write_report,
)
from subscriber.migrate.cutover.cutover_servers import CutoverServers
from subscriber.migrate.cutover.holder import carrying_out, look_at
from subscriber.migrate.cutover.work import CutoverOptions, Work
from subscriber.publisher.conninfo import check_conninfo
from subscriber.targets import open_target

_COLORS = {"done": "green", "undone": "green", "would do": "green", "skipped": "yellow"}


_LONGEST_SECONDS = 30 * 86_400.0
_UNITS = (("ms", 0.001), ("min", 60.0), ("s", 1.0), ("h", 3600.0), ("", 1.0))


def _seconds(_context: click.Context, _option: click.Parameter, value: str) -> float:
    """A time such as 60s, 5min or 500ms, in seconds; a plain number is seconds."""
    text = value.strip()
    unit, factor = next(one for one in _UNITS if text.endswith(one[0]))
    number = text.removesuffix(unit).strip()
    if not number.isascii() or not number.replace(".", "", 1).isdigit() or float(number) <= 0:
        raise click.BadParameter(f'"{value}" is not a time such as 60s, 5min or 500ms.')
    seconds = float(number) * factor
    if seconds > _LONGEST_SECONDS:
        raise click.BadParameter(f'"{value}" is longer than 30 days.')
    return seconds


def _conninfo(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """A connection string, which is shown nowhere."""
    try:
        if value is not None:
            check_conninfo(value)
    except UsageError as error:
        raise click.BadParameter(f"{error.message}. {error.hint}") from None
    return value


@click.command("cutover")
@target_option
@click.option(
    "--timeout", callback=_seconds, metavar="TIME", default="60s", show_default=True, help="How long one step may wait."
)
@click.option("--verify", is_flag=True, help="Compare publisher and target at the barrier.")
@click.option("--reverse", is_flag=True, help="Prepare the way back (PostgreSQL targets).")
@click.option(
    "--reverse-connection",
    callback=_conninfo,
    metavar="CONNINFO",
    help="How the old publisher's server reaches the target, if not by the target's URL.",
)
@click.option("--fence", is_flag=True, help="Make the publisher's database read-only for new sessions.")
@click.option("--terminate", is_flag=True, help="With --fence, end the sessions that began before it.")
@click.option(
    "--accept-missing",
    multiple=True,
    metavar="NAME",
    help="Accept that the target lacks this table, column, view, index, constraint or sequence; a kind, such as view, for all of it. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Say what each step would do, and change nothing.")
@click.option("--finish", is_flag=True, help="Drop the subscription and its slot after the switch.")
@click.option("--abandon", is_flag=True, help="Restore the state before the cutover.")
@click.option(
    "--discard-writes",
    is_flag=True,
    help="With --abandon, go back although the application may have written to the target.",
)
@click.option(
    "--report",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the report to this folder, as HTML and JSON.",
)
@json_option
@click.argument("subscription")
def command(
    target: str,
    subscription: str,
    folder: Path | None,
    as_json: bool,
    dry_run: bool,
    finish: bool,
    abandon: bool,
    **given: Any,
) -> None:
    """Switch an application over from the publisher to the target.

    The steps are: preconditions, writes stopped, barrier drained, sequences set, schema complete,
    verified (with --verify), way back prepared (with --reverse), switched over. A step that finds a
    problem stops the command and changes nothing further. Then the subscription is disabled, and
    its slot is kept until --finish or --abandon.

    Stop the application first, or give --fence. `subscriber run` must be running. If the command
    is interrupted, run it again with the same options: it goes on.

    The exit code is 1 if a step refuses or fails.
    """
    if sum((dry_run, finish, abandon)) > 1:
        raise click.UsageError("--dry-run, --finish and --abandon exclude each other.")
    options = CutoverOptions(**given)
    if (finish or abandon) and options.words:
        verb = "--finish" if finish else "--abandon"
        raise click.UsageError(f"{verb} does not go with {', '.join(options.words)}.")
    if options.terminate and not options.fence:
        raise click.UsageError("--terminate needs --fence.")
    if options.reverse_connection is not None and not options.reverse:
        raise click.UsageError("--reverse-connection needs --reverse.")
    if options.discard_writes and not abandon:
        raise click.UsageError("--discard-writes needs --abandon.")
    if folder is not None:
        prepare_folder(folder)
    kind: Any = "dry run" if dry_run else "finish" if finish else "abandon" if abandon else "cutover"
    with open_target(target) as database, showing_progress(bars=False):
        servers = CutoverServers(database, subscription, Settings.from_environment())
        report = new_report(servers, kind)
        show = _Show(as_json=as_json)
        try:
            kept = look_at(database, servers.subid)
            if kind in ("finish", "abandon") and (kept is None or not kept.in_progress):
                raise _none(subscription)
            if kind == "dry run":
                work = Work(servers, options, kept or cutovers.new_cutover(servers.subid), show.waiting)
                is_clean = cutovers.rehearse(work, report, show.step)
            else:
                with carrying_out(database, subscription, servers.subid) as held:
                    work = Work(servers, options, held, show.waiting)
                    function = {
                        "finish": cutovers.finish,
                        "abandon": cutovers.abandon,
                        "cutover": cutovers.run_cutover,
                    }[kind]
                    function(work, report, show.step)
                is_clean = True
        except SubscriberError as error:
            report.error = error.report()
            _end(report, show, folder)
            raise
        except KeyboardInterrupt:
            report.error = "interrupted"
            _end(report, show, folder)
            raise
    _end(report, show, folder)
    if not is_clean:
        sys.exit(1)


class _Show:
    """Prints the steps as they end, or nothing before the JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._number = 0

    def waiting(self, text: str) -> None:
        click.echo(f"NOTICE:  {text}", err=True)

    def step(self, result: StepResult) -> None:
        refuses = result.status == "refused"
        self._number += not refuses
        if self.as_json:
            return
        number = "" if refuses else self._number
        status = click.style(f"{result.status:<12}", fg=_COLORS.get(result.status, "red"))
        click.echo(f"{number:>2}  {result.title:<18} {status} {result.seconds:>7.2f} s  {result.text}")
        for line in result.details:
            click.echo(f"{'':<36}{line}")


def _end(report: CutoverReport, show: _Show, folder: Path | None) -> None:
    """Print what to do next, and write the report."""
    if show.as_json:
        click.echo(json.dumps(as_json(report), indent=1))
    else:
        for note in report.notes:
            click.echo(f"\n{note}" if note is report.notes[0] else note)
    if folder is not None:
        try:
            page, data = write_report(report, folder)
        except UsageError as error:  # what was done is not undone by this
            show.waiting(error.message)
            return
        if not show.as_json:
            click.echo(f"\nreport: {page} and {data.name}")


def _none(subscription: str) -> UsageError:
    return UsageError(
        f'no cutover of subscription "{subscription}" is in progress',
        sqlstate="55000",
        detail="There was none, it was abandoned or finished, or it was refused before it had changed anything.",
        hint=f"Begin one: subscriber cutover {shlex.quote(subscription)}",
    )
