"""``subscriber schema``: what the publisher has beside tables and keys, and the target lacks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from subscriber.cli.options import json_option, target_option
from subscriber.cli.psql_table import format_rows
from subscriber.migration.schema.apply_schema import Outcome, apply_schema
from subscriber.migration.schema.ddl_script import ddl_script
from subscriber.migration.schema.schema_difference import schema_difference
from subscriber.migration.schema.schema_object import Phase, SchemaObject
from subscriber.settings import Settings
from subscriber.targets import open_target


@click.group("schema")
def command() -> None:
    """Compare the publisher's schema with the target's, and build what is missing.

    CREATE SUBSCRIPTION with create_tables creates tables with their keys. This command has the
    rest: types, defaults, constraints, indexes, foreign keys and comments.
    """


@command.command("diff")
@target_option
@click.option("--ddl", is_flag=True, help="Print a script in the target's SQL.")
@json_option
@click.argument("subscription", metavar="SUBSCRIPTION")
def diff(target: str, ddl: bool, as_json: bool, subscription: str) -> None:
    """List what the publisher of SUBSCRIPTION has and the target lacks, and constraints that only
    the target has.

    Objects of phase "before" are for empty tables, those of phase "after" are faster to build after
    the initial copy. Those of phase "manual" are left out, with the reason. Nothing is changed.
    """
    if ddl and as_json:
        raise click.UsageError("--ddl excludes --json, whose objects have their DDL.")
    with open_target(target) as database:
        difference = schema_difference(database, subscription, Settings.from_environment())
    if as_json:
        click.echo(json.dumps([one.as_json() for one in difference.objects], indent=1))
    elif ddl:
        click.echo(ddl_script(difference), nl=False)
    else:
        rows = [(one.phase, one.kind, one.name, one.reason) for one in difference.objects]
        counts = Counter(one.phase for one in difference.objects)
        footer = f"{counts['before']} before, {counts['after']} after, {counts['manual']} manual"
        click.echo(format_rows(("Phase", "Kind", "Name", "Reason"), rows, footers=(footer,)))


@command.command("apply")
@target_option
@click.option("--before", is_flag=True, help="Build what is for empty tables.")
@click.option("--after", is_flag=True, help="Build what is for copied tables.")
@json_option
@click.argument("subscription", metavar="SUBSCRIPTION")
def apply(target: str, before: bool, after: bool, as_json: bool, subscription: str) -> None:
    """Build what the target of SUBSCRIPTION lacks, each object in a transaction of its own.

    What is there is left alone, so the command can be repeated. An object that calls a function
    that the target lacks is left out. The exit code is 1 if an object was refused or left out.
    """
    if before == after:
        raise click.UsageError("Give either --before or --after.")
    phase: Phase = "before" if before else "after"
    with open_target(target) as database:
        difference = schema_difference(database, subscription, Settings.from_environment())
        objects = difference.missing(phase)
        with _bar(len(objects)) as bar:
            task = bar.add_task(phase, total=len(objects))
            outcomes = apply_schema(database, difference, phase, lambda _outcome: bar.advance(task))
    refused = [one for one in outcomes if one.refusal]
    if as_json:
        click.echo(json.dumps([_json(one) for one in outcomes], indent=1))
    else:
        for one in refused:
            click.echo(f"{'left out' if one.left_out else 'refused'}: {_shown(one.object)}: {one.refusal}")
        left_out = sum(one.left_out for one in refused)
        more = f", {left_out} left out" if left_out else ""
        click.echo(f"{len(outcomes) - len(refused)} built, {len(refused) - left_out} refused{more}")
    if refused:
        sys.exit(1)


def _bar(total: int) -> Progress:
    """A progress bar on standard error; nothing if that is no terminal, or nothing is built."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, transient=True, disable=not (console.is_terminal and total))


def _shown(one: SchemaObject) -> str:
    return f"{one.kind} {one.name}"


def _json(outcome: Outcome) -> dict[str, Any]:
    return {**outcome.object.as_json(), "refusal": outcome.refusal}
