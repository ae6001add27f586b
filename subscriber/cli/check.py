"""``subscriber check``: what would go wrong with a subscription, before anything is changed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

from subscriber.base.settings import Settings
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.cli.options import json_option, target_option
from subscriber.commands.subscription_grammar import CreateSubscription, parse
from subscriber.migrate.check_migration import Migration, check_migration
from subscriber.migrate.findings import Finding, has_failed
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.targets import Target, open_target

_COLORS = {"FAIL": "red", "WARN": "yellow", "INFO": "cyan"}


@click.command("check")
@target_option
@click.option(
    "--subscription", metavar="NAME", help="Check an existing subscription, in place of CONNECTION and PUBLICATION."
)
@click.option(
    "--with",
    "options",
    default="",
    metavar="OPTIONS",
    help="The options that CREATE SUBSCRIPTION is to have, such as 'create_tables = true'.",
)
@click.option("--scan", is_flag=True, help="Read the published tables, for values that the target cannot hold.")
@json_option
@click.argument("connection", required=False, metavar="CONNECTION")
@click.argument("publications", nargs=-1, metavar="PUBLICATION…")
def command(
    target: str,
    subscription: str | None,
    options: str,
    scan: bool,
    as_json: bool,
    connection: str | None,
    publications: tuple[str, ...],
) -> None:
    """Say what would go wrong with a subscription, before anything is changed.

    CONNECTION is the publisher, as a libpq connection string. The command checks publisher, tables
    and target. Then it lists what is not replicated, and estimates how long the initial copy takes.
    Nothing is changed anywhere; only a database that must be probed (docs/targets.md) gets tables
    for a moment, and its facts are listed.

    Each finding has one line. The lines below it give the reason and the statement that puts it
    right. FAIL means that the subscription would stop, or would lose something; WARN means that it
    may; INFO is a fact to know.

    With --scan, columns that cannot hold every value of the publisher's type are read, and values
    that the target cannot hold are counted: NaN, infinity, dates before Christ, numbers that are
    too large. A column with such values is a FAIL, or a WARN where the option
    unrepresentable_values replaces them by NULL.

    The exit code is 1 if there is a FAIL.
    """
    with open_target(target) as database:
        migration = _migration(database, subscription, options, connection, publications)
        found = []
        for finding in check_migration(database, migration, Settings.from_environment(), scan=scan):
            found.append(finding)
            if not as_json:
                click.echo("\n".join(_lines(finding)))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=1))
    else:
        counts = {kind: sum(one.severity == kind for one in found) for kind in _COLORS}
        click.echo(f"\n{counts['FAIL']} FAIL, {counts['WARN']} WARN, {counts['INFO']} INFO")
    if has_failed(found):
        sys.exit(1)


def _migration(
    database: Target,
    subscription: str | None,
    options: str,
    connection: str | None,
    publications: tuple[str, ...],
) -> Migration:
    if subscription is not None:
        if connection is not None or options:
            raise click.UsageError("--subscription excludes CONNECTION, PUBLICATION and --with.")
        found = existing_subscription(database, subscription)
        return Migration(found.conninfo, tuple(found.publications), found.options, found.name)
    if connection is None or not publications:
        raise click.UsageError("Give CONNECTION and at least one PUBLICATION, or --subscription.")
    names = ", ".join(map(delimited_identifier, publications))
    wanted = f"CREATE SUBSCRIPTION checked CONNECTION '' PUBLICATION {names}" + (
        f" WITH ({options})" if options else ""
    )
    parsed = parse(wanted)
    assert isinstance(parsed, CreateSubscription)
    return Migration(connection, parsed.publications, parsed.options)


def _lines(finding: Finding) -> Iterator[str]:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity])
    yield f"{severity}  {_escaped(finding.object)}: {_escaped(finding.message)}"
    if finding.reason:
        yield f"        {_escaped(finding.reason)}"
    if finding.remedy:
        yield f"        → {_escaped(_QUOTED_NAME.sub(_written, finding.remedy))}"


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_QUOTED_NAME: Final = re.compile(r'"(?:[^"]|"")*"')


def _escaped(text: str) -> str:
    """A text in one line: a name may have line breaks and other control characters."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _written(name: re.Match[str]) -> str:
    """A quoted name of a statement, as PostgreSQL reads it if it has control characters."""
    if not _CONTROL.search(name[0]):
        return name[0]
    escaped = name[0].replace("\\", "\\\\")
    return "U&" + _CONTROL.sub(lambda found: f"\\{ord(found[0]):04X}", escaped)
