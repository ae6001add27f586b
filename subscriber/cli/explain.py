"""``subscriber explain``: why emulated publications sent, rewrote or left out a change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from subscriber.base.errors import UsageError
from subscriber.base.lsn import format_lsn, parse_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.stored_publishing import read_publishing
from subscriber.catalog.subscriptions import Subscription, get_subscription, list_subscriptions
from subscriber.cli.options import json_option, target_option
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.publication.transform import OPERATION_OF
from subscriber.stream.decode.explain_journal import ChangeSelection, ExplainedChange, Values, explain_journal
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import journal_url, open_storage
from subscriber.targets import Target, open_target


@click.command("explain")
@target_option
@click.option(
    "--subscription",
    metavar="NAME",
    help="The subscription. Needed if several subscriptions of the target have emulated publications.",
)
@click.option(
    "--lsn", metavar="LSN", help="Only the change with this LSN, or the changes of the transaction with this end LSN."
)
@click.option("--xid", type=int, help="Only changes of this transaction.")
@click.option(
    "--table",
    metavar="SCHEMA.TABLE",
    help="Only changes of this table; for a partition, give the name of the partition.",
)
@click.option(
    "--key", "keys", multiple=True, metavar="COLUMN=VALUE",
    help="Only changes whose old or new row has this value. If given more than once, all must match.",
)  # fmt: skip
@click.option("--show-values", is_flag=True, help="Also print the values of the old and new rows.")
@json_option
def command(
    target: str,
    subscription: str | None,
    lsn: str | None,
    xid: int | None,
    table: str | None,
    keys: tuple[str, ...],
    show_values: bool,
    as_json: bool,
) -> None:
    """Show why emulated publications sent, rewrote or left out changes.

    For each change in the journal of a subscription, in commit order, prints its operation, what
    was sent, and one line for each publication with its row filter and the filter's result for the
    old and the new row: t, f or null as in psql, - if the filter was not evaluated. If there is no
    such change, a message on standard error says so.

    The subscription must have the option carrier, and its journal must be on this machine
    (SUBSCRIBER_JOURNAL). The journal does not keep changes that were applied and trimmed. The
    publications are evaluated as they are defined now, not as they were when the change was
    applied.
    """
    wanted = ChangeSelection(parse_lsn(lsn) if lsn else None, xid, table, _key(keys))
    with open_target(target) as database:
        found, publishing = _subscription(database, subscription)
    assert found.system_identifier is not None
    assert found.slot_name is not None
    url = journal_url(Settings.from_environment().journal, found.system_identifier, found.slot_name)
    nothing = True
    for change in explain_journal(JournalReader(open_storage(url)), publishing, wanted):
        nothing = False
        if as_json:
            click.echo(json.dumps(_as_json(change, show_values=show_values)))
        else:
            click.echo("\n".join(_lines(change, show_values=show_values)))
    if nothing:
        click.echo("no such change in the journal", err=True)


def _key(keys: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [key.partition("=") for key in keys]
    for column, equals, _ in pairs:
        if not column or not equals:
            raise click.BadParameter("write it as COLUMN=VALUE.", param_hint="--key")
    return {column: value for column, _, value in pairs} or None


def _subscription(target: Target, name: str | None) -> tuple[Subscription, Publishing]:
    with target.reporting(), target.engine.connect() as connection:
        if name is not None:
            found = get_subscription(connection, name)
        else:
            emulated = [one for one in list_subscriptions(connection) if one.options.carrier is not None]
            if len(emulated) != 1:
                raise UsageError(
                    "there is no subscription with a carrier in this target"
                    if not emulated
                    else f"there are {len(emulated)} subscriptions with a carrier in this target",
                    hint="`subscriber explain` is for subscriptions whose publications the subscriber evaluates."
                    if not emulated
                    else f"Choose one with --subscription: {', '.join(one.name for one in emulated)}.",
                )
            (found,) = emulated
        publishing = read_publishing(connection, found)
    if publishing is None:
        raise UsageError(
            f'subscription "{found.name}" has publications of the server',
            hint="The server evaluates them, and does not send the changes that they leave out.",
        )
    if found.system_identifier is None or found.slot_name is None:
        raise UsageError(
            f'subscription "{found.name}" has no journal',
            hint="`subscriber run` creates the journal when the subscription has a slot.",
        )
    return found, publishing


# Printing ---------------------------------------------------------------------------------------


def _lines(change: ExplainedChange, *, show_values: bool) -> Iterator[str]:
    place = f"{format_lsn(change.finish_lsn):>12}  xid {change.xid:<8} lsn {format_lsn(change.lsn):>12}  "
    yield f"{place}{change.operation} {', '.join(change.relations)}: {change.outcome()}"
    for result in () if change.explanation is None else change.explanation.filter_results:
        yield f"    {result.in_words()}"
    if show_values:
        for name, values in (("old", change.old), ("new", change.new)):
            if values:
                yield f"    {name}: {_row(values)}"


def _row(values: Values) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items())


def _as_json(change: ExplainedChange, *, show_values: bool) -> dict[str, Any]:
    explanation = change.explanation
    found: dict[str, Any] = {
        "finish_lsn": format_lsn(change.finish_lsn),
        "lsn": format_lsn(change.lsn),
        "xid": change.xid,
        "relations": list(change.relations),
    }
    if explanation is None:
        return found | {"operation": "truncate", "sent_for": list(change.truncated)}
    found |= {
        "operation": explanation.operation,
        "reason": explanation.reason,
        "old": explanation.old,
        "new": explanation.new,
        "judgements": [
            {"publication": one.publication, "where": one.where, "old": one.old, "new": one.new}
            for one in explanation.filter_results
        ],
        "sent": None if explanation.sent is None else OPERATION_OF[explanation.sent],
        "sent_as": None if explanation.sent_as is None else explanation.sent_as.qualified_name,
    }
    return found | ({"old_row": dict(change.old), "new_row": dict(change.new)} if show_values else {})
