"""``subscriber conformance``: what of PostgreSQL's semantics holds in a database."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from subscriber.cli.options import json_option, target_option
from subscriber.testing.conformance_kit import CheckOutcome, check_conformance, outcome_lines


@click.command("conformance")
@target_option
@click.option("--quick", is_flag=True, help="Start no servers and kill no process, which takes longest.")
@json_option
def command(target: str, quick: bool, as_json: bool) -> None:
    """Check what of PostgreSQL's semantics holds in an empty database.

    The command writes to tables of its own, applies changes to them as a subscription does, and
    drops them. It checks the values of PostgreSQL's types at their edges, transactions,
    constraints, replica identities, conflicts, the order of commits, the progress, histories, and
    a process that is killed at a commit. Then it starts a PostgreSQL server, as a publisher, and
    runs scenarios.

    Each check holds, is refused, or fails. Refused means that the database cannot have something,
    and that replication stops with an error there. Fails means that the database would have other
    rows than the publisher. Scenarios are skipped if there is no PostgreSQL server.

    The exit code is 1 if a check fails.
    """
    found: list[CheckOutcome] = []
    for outcome in check_conformance(target, quick=quick):
        found.append(outcome)
        if not as_json:
            click.echo(f"{outcome.verdict:<8}{outcome.area}: {outcome.check}")
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        click.echo("")
        for line in outcome_lines(found):
            click.echo(line)
    if any(one.verdict == "fails" for one in found):
        sys.exit(1)
