"""``subscriber scenario``: runs and records scenarios with PostgreSQL's subscriber or a target."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click

from subscriber.base.errors import UsageError
from subscriber.base.settings import POSTGRESQL_VERSIONS, Settings
from subscriber.cli.options import json_option
from subscriber.testing import library
from subscriber.testing.run_session import Result, Runner
from subscriber.testing.session.session_file import with_output
from subscriber.testing.session_page import write_report
from subscriber.testing.stage import NATIVE, Publications, Setup, Stage, check_subscriber

_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(path_type=Path))
_pg = click.option(
    "--pg", "majors", type=int, multiple=True, default=(18,), show_default=True, metavar="MAJOR",
    help="Major version of the PostgreSQL servers; can be given more than once.",
)  # fmt: skip
_timeout = click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="The longest time for a statement, and for its subscriptions to catch up.",
)  # fmt: skip


@click.group("scenario")
def command() -> None:
    """Run psql sessions as tests of PostgreSQL's subscriber or of this one.

    A scenario is a file with a psql session: statements for a publisher and a subscriber, and the
    output that they must print. The servers are started for the run, and removed afterwards.
    """


@command.command("run")
@_paths
@click.option(
    "--subscriber", "subscribers", multiple=True, default=("sqlite",), show_default=True,
    metavar="native|sqlite|duckdb|mariadb|postgresql|turso|seekdb|firebird|URL",
    help="The subscriber: native is PostgreSQL's, the others are targets of this program. Can be given more than once.",
)  # fmt: skip
@click.option(
    "--publications", type=click.Choice(["server", "emulated"]), default="server", show_default=True,
    help="Where publications are evaluated: at the publisher's server, or emulated by the subscriber.",
)  # fmt: skip
@_pg
@_timeout
@click.option("--shuffle", type=int, metavar="SEED", help="Run the files in the random order that SEED gives.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML page with every session to this file.",
)
@json_option
def run(
    paths: tuple[Path, ...],
    subscribers: tuple[str, ...],
    publications: Publications,
    majors: tuple[int, ...],
    timeout: float,
    shuffle: int | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Run scenarios, and compare what their statements print with the expected output.

    A PATH is a scenario file, or a folder whose scenarios are run. Prints one line for each run,
    with the differences if it failed, and the totals. A scenario that the file
    expected_failures.toml of its folder lists is expected to fail, and it is an error if it passes.
    Subscribers act as the version that SUBSCRIBER_POSTGRESQL_VERSION names, and emulated
    publications too if the servers are older.

    The exit code is 0 if no run failed or passed unexpectedly, else 1.
    """
    for subscriber in subscribers:
        check_subscriber(subscriber, publications)
    version = Settings.from_environment().postgresql_version
    files = library.find_scenarios(paths)
    scenarios = [library.read_scenario(file) for file in files]
    expected = _expected_failures(files)
    if shuffle is not None:
        random.Random(shuffle).shuffle(scenarios)
    judged = []
    with Stage() as stage:
        runner = Runner(stage, timeout)
        setups = [
            Setup(subscriber, major, publications, max(version, min(major, max(POSTGRESQL_VERSIONS))))
            for subscriber, major in product(subscribers, majors)
        ]
        for setup, scenario in product(setups, scenarios):
            result = runner.run(scenario, setup)
            verdict = library.judge(result, expected)
            judged.append((result, verdict))
            if not as_json:
                _print_result(result, verdict, expected)
    if as_json:
        click.echo(json.dumps([_as_json(result, verdict) for result, verdict in judged], indent=1))
    else:
        click.echo(_summary([verdict for _, verdict in judged]))
    if report is not None:
        write_report(report, judged, expected)
    if any(verdict in library.FAILURES for _, verdict in judged):
        sys.exit(1)


@command.command("record")
@_paths
@_pg
@_timeout
def record(paths: tuple[Path, ...], majors: tuple[int, ...], timeout: float) -> None:
    """Record scenarios: run them with PostgreSQL's subscriber, and write what they print into the
    files as the expected output.

    A file is not changed if the version does not meet its requirements, or if one of its statements
    fails to end. The exit code is then 1, else 0.
    """
    if len(majors) != 1:
        raise click.UsageError("--pg can be given only once: a file has one expected output.")
    files = library.find_scenarios(paths)
    failed = False
    with Stage() as stage:
        runner = Runner(stage, timeout)
        for file in files:
            failed |= not _record(runner, file, Setup(NATIVE, majors[0]))
    if failed:
        sys.exit(1)


@command.command("new")
@click.argument("name")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True), default=Path("scenarios"),
    show_default=True, help="The folder in which to create the file.",
)  # fmt: skip
def new(name: str, folder: Path) -> None:
    """Create the scenario file NAME.psql from a template with comments.

    An existing file is not overwritten.
    """
    name = name.removesuffix(library.SUFFIX)
    if re.fullmatch(r"\w[\w-]*", name) is None:
        raise UsageError(
            f'"{name}" is not a valid name for a scenario',
            hint="Use letters, digits, _ and -, such as 110_filter_on_dates.",
        )
    path = folder / f"{name}{library.SUFFIX}"
    try:
        with path.open("x") as file:
            file.write(library.scenario_template(name))
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="Choose another name.") from None
    click.echo(f"wrote {path}; run it with: subscriber scenario run {path}")


def _expected_failures(files: Iterable[Path]) -> library.ExpectedFailures:
    found: dict[tuple[str, str, Publications], library.Expected] = {}
    for folder in {file.parent for file in files}:
        found |= library.read_expected_failures(folder)
    return found


# Recording --------------------------------------------------------------------------------------


def _record(runner: Runner, file: Path, setup: Setup) -> bool:
    scenario = library.read_scenario(file)
    text = file.read_text(encoding="utf-8")
    result = runner.run(scenario, setup)
    broken = [exchange for exchange in result.exchanges if exchange.error]
    if result.skipped or broken or result.leftover:
        reason = result.skipped or result.leftover or broken[0].error
        click.echo(f"{file} was not changed: {reason}", err=True)
        return False
    printed = [exchange.printed or "" for exchange in result.exchanges]
    recorded = with_output(text, scenario, printed)
    if recorded == text:
        click.echo(f"{file}: no changes")
    else:
        file.write_text(recorded)
        click.echo(
            f"{file}: recorded, {len(result.failures)} of {len(printed)} statements print other output than before"
        )
    return True


# Printing ---------------------------------------------------------------------------------------


def _print_result(result: Result, verdict: library.Verdict, expected: library.ExpectedFailures) -> None:
    click.echo(f"{verdict:<20}{result.setup}  {result.scenario.name}  {result.seconds:.1f} s")
    if verdict == "skipped":
        click.echo(f"    {result.skipped}")
    elif verdict == "failed as expected":
        why = expected[library.expected_key(result)]
        click.echo(f"    {why.until}: {why.reason}")
    elif verdict == "passed unexpectedly":
        click.echo("    remove it from expected_failures.toml")
    elif verdict == "failed":
        for line in _failure_lines(result):
            click.echo(f"    {line}")


def _failure_lines(result: Result) -> Iterator[str]:
    for exchange in result.failures:
        statement = exchange.statement
        first, *more = statement.text.splitlines()
        yield f"line {statement.line}, {statement.node}: {first}{' …' if more else ''}"
        found = (exchange.error, exchange.difference, exchange.disagreement)
        yield from (f"  {line}" for part in found for line in part.splitlines())
    yield from result.leftover.splitlines()


def _summary(verdicts: Sequence[library.Verdict]) -> str:
    """``N passed, N failed``, below a line with those that failed as expected."""
    known = verdicts.count("failed as expected")
    skipped = verdicts.count("skipped")
    failed = sum(verdict in library.FAILURES for verdict in verdicts)
    before = f"{known} failed as expected\n" if known else ""
    after = f", {skipped} skipped" if skipped else ""
    return f"{before}{len(verdicts) - failed - skipped - known} passed, {failed} failed{after}"


def _as_json(result: Result, verdict: library.Verdict) -> dict[str, Any]:
    return {
        "scenario": result.scenario.name,
        "title": result.scenario.title,
        "subscriber": result.setup.subscriber_name,
        "postgresql": result.setup.major,
        "publications": result.setup.publications,
        "verdict": verdict,
        "seconds": round(result.seconds, 3),
        "skipped": result.skipped or None,
        "leftover": result.leftover or None,
        "failures": [
            {
                "line": exchange.statement.line,
                "node": exchange.statement.node,
                "statement": exchange.statement.text,
                "expected": list(exchange.statement.expected),
                "actual": None if exchange.printed is None else exchange.printed.splitlines(),
                "difference": exchange.difference.splitlines(),
                "error": exchange.error or None,
                "disagreement": exchange.disagreement.splitlines(),
            }
            for exchange in result.failures
        ],
    }
