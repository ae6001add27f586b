"""``subscriber schema``: what the publisher has beside tables and keys, and the target lacks."""

from __future__ import annotations

import json
import sys
from collections import Counter

import click

from subscriber.cli.live import showing_progress
from subscriber.cli.options import json_option, target_option
from subscriber.migrate.schema.apply_schema import apply_schema, check_copied, ddl_script
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.migrate.schema.schema_object import Phase
from subscriber.targets import open_target
from subscriber.testing.session.psql_table import format_rows


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
    with open_target(target) as database, showing_progress():
        difference = schema_difference(database, subscription)
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

    What is there is left alone, so the command can be repeated. With --after, all tables must be
    ready. An object that calls a function
    that the target lacks is left out. The exit code is 1 if an object was refused or left out.
    """
    if before == after:
        raise click.UsageError("Give either --before or --after.")
    phase: Phase = "before" if before else "after"
    with open_target(target) as database, showing_progress():
        if after:
            check_copied(database, subscription)
        difference = schema_difference(database, subscription)
        outcomes = apply_schema(database, difference, phase)
    refused = [one for one in outcomes if one.refusal]
    if as_json:
        click.echo(json.dumps([{**one.object.as_json(), "refusal": one.refusal} for one in outcomes], indent=1))
    else:
        for one in refused:
            outcome = "left out" if one.left_out else "refused"
            click.echo(f"{outcome}: {one.object.kind} {one.object.name}: {one.refusal}")
        left_out = sum(one.left_out for one in refused)
        more = f", {left_out} left out" if left_out else ""
        click.echo(f"{len(outcomes) - len(refused)} built, {len(refused) - left_out} refused{more}")
    if refused:
        sys.exit(1)
