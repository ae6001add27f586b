"""``subscriber journal``: shows received messages as pg_waldump does, and forgets consumers."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from subscriber.base.errors import UsageError
from subscriber.base.lsn import INVALID_LSN, MAX_LSN, format_lsn, parse_lsn
from subscriber.base.settings import Settings
from subscriber.cli.options import json_option
from subscriber.stream.journal.browse import JournalSummary, browse, list_journals, segments_of
from subscriber.stream.journal.named_consumers import NamedConsumer, list_named, quoted
from subscriber.stream.journal.named_consumers import forget as forget_named
from subscriber.stream.journal.retention import ConsumerPosition, list_consumers
from subscriber.stream.journal.storage import open_storage

journal_option = click.option(
    "--journal",
    metavar="PATH|URL",
    help="A journal, or the folder that contains the journals (default: $SUBSCRIBER_JOURNAL, else the user's data folder).",
)


@click.group("journal")
def command() -> None:
    """List and print the journals of received changes, and remove their consumers.

    `subscriber run` and `subscriber receive` store what they receive from a replication slot in a
    journal, and remove it when every consumer has passed it. A consumer is a subscription of a
    target, a running table synchronization, or a query of Spark that has registered a name.
    """


@command.command("ls")
@journal_option
@json_option
@click.option("--segments", is_flag=True, help="Also list the files of each journal (segments).")
def ls(journal: str | None, as_json: bool, segments: bool) -> None:
    """List the journals.

    For each journal prints its slot, its publisher's system identifier, the range of its LSNs, the
    received LSN, its entries and its size; then each consumer with its position, how far it is
    behind, and whether it prevents trimming. A consumer of a target has a file, and a query of
    Spark has a name, and the time of its last move.
    """
    summaries = list_journals(journal or Settings.from_environment().journal)
    if as_json:
        click.echo(json.dumps([_as_json(summary) for summary in summaries], indent=1))
        return
    for summary in summaries:
        control = summary.control
        last = format_lsn(summary.end)
        click.echo(f"{summary.url}")
        click.echo(
            f"  slot {control.slot}, system {control.system_identifier}, from {format_lsn(control.begin)} to {last},"
            f" received {format_lsn(max(control.received, parse_lsn(last)))}, {len(summary.entries)} entries, {summary.size:,} bytes"
        )
        for consumer in summary.consumers:
            click.echo(f"  {_in_words(summary, consumer)}\n    {consumer.file}")
        for named in summary.named:
            click.echo(f"  {_in_words(summary, named)}\n    {_moved(named)}")
        if segments:
            for segment in segments_of(summary):
                click.echo(f"  {segment.name}  {segment.size:>12,}")
    if not summaries:
        click.echo("no journals", err=True)


@command.command("forget")
@journal_option
@click.argument("consumer", metavar="CONSUMER")
@click.option(
    "--yes", is_flag=True, help="Remove the consumer. Without it, only its position is printed, and the exit code is 1."
)
def forget(journal: str | None, consumer: str, yes: bool) -> None:
    """Remove a consumer from a journal.

    CONSUMER is the name of a query of Spark, or the file of a consumer of a target, as `subscriber
    journal ls` prints them. Use it if the consumer will never read again, its target no longer
    exists, or was restored to a time before CREATE SUBSCRIPTION.

    The journal is then trimmed up to the position of the remaining consumers. If the subscription
    still exists, the changes that it has not applied are lost. A query of Spark that comes back is
    refused if changes after its checkpoint were trimmed. Of a consumer that was dropped, because it
    was too far behind, the record is removed.
    """
    storage = open_storage(the_journal(journal))
    found: ConsumerPosition | NamedConsumer | None
    found = next((one for one in list_consumers(storage) if one.file == consumer), None)
    found = found or next((one for one in list_named(storage) if one.name == consumer), None)
    if found is None:
        raise UsageError(
            f'the journal at "{storage.url}" has no consumer {quoted(consumer)}',
            hint="`subscriber journal ls` lists the consumers with their names or files.",
        )
    if not yes:
        raise UsageError(
            f"nothing was removed: {_whose(found)} is at {format_lsn(found.lsn)}",
            hint="Give --yes if it will not read from there again.",
        )
    if isinstance(found, NamedConsumer):
        forget_named(storage, found.name)
    else:
        storage.delete([found.file])
    click.echo(f"removed {_whose(found)}")


@command.command("show")
@journal_option
@click.option(
    "--from",
    "start",
    metavar="LSN",
    help="Only transactions whose end LSN is greater (default: the beginning of the journal).",
)
@click.option(
    "--to",
    "end",
    metavar="LSN",
    help="Only transactions whose end LSN is not greater (default: the end of the journal).",
)
@click.option("--xid", type=int, help="Only messages of this transaction.")
@click.option("--relation", metavar="SCHEMA.TABLE", help="Only messages of this relation.")
@click.option("--show-values", is_flag=True, help="Print the values of rows instead of their sizes.")
@json_option
def show(
    journal: str | None,
    start: str | None,
    end: str | None,
    xid: int | None,
    relation: str | None,
    show_values: bool,
    as_json: bool,
) -> None:
    """Print the messages of a journal in commit order, one a line.

    Each line has the end LSN of the transaction, its ID, the LSN of the message, its type (the byte
    of the protocol), the relation, and the message in words. Values are only printed with
    --show-values.
    """
    for line in browse(
        the_journal(journal),
        parse_lsn(start) if start else INVALID_LSN,
        parse_lsn(end) if end else MAX_LSN,
        show_values=show_values,
    ):
        if (xid is not None and line.xid != xid) or (relation is not None and line.relation != relation):
            continue
        if as_json:
            fields = asdict(line) | {"finish_lsn": format_lsn(line.finish_lsn), "lsn": format_lsn(line.lsn)}
            click.echo(json.dumps(fields))
        else:
            click.echo(
                f"{format_lsn(line.finish_lsn):>12}  xid {line.xid:<8} lsn {format_lsn(line.lsn):>12}  {line.action}  "
                f"{line.relation + ': ' if line.relation else ''}{line.description}"
            )


def the_journal(given: str | None) -> str:
    """The given journal, or the only journal that there is."""
    base = given or Settings.from_environment().journal
    found = list_journals(base)
    if len(found) == 1:
        return found[0].url
    if not found:
        raise UsageError(
            f'there is no journal at "{base}"',
            hint="`subscriber run` or `subscriber receive` creates it. Use --journal to name another folder.",
        )
    urls = ", ".join(Path(summary.url).name for summary in found)
    raise UsageError(
        f'there are {len(found)} journals at "{base}"', hint=f"Choose one with --journal {base}/NAME: {urls}."
    )


def _whose(consumer: ConsumerPosition | NamedConsumer) -> str:
    if isinstance(consumer, NamedConsumer):
        return f"consumer {quoted(consumer.name)}"
    known = consumer.subscription
    name = "an unknown subscription" if known is None else f"subscription {quoted(known)}"
    purpose = " (table sync)" if consumer.purpose == "sync" else ""
    return f"{name}{purpose} of {consumer.place or 'an unknown target'}"


def _in_words(summary: JournalSummary, consumer: ConsumerPosition | NamedConsumer) -> str:
    is_dropped = isinstance(consumer, NamedConsumer) and consumer.dropped is not None
    held = ", holds trimming back" if not is_dropped and summary.holds_back(consumer) else ""
    return f"{_whose(consumer)}: at {format_lsn(consumer.lsn)}, {summary.behind(consumer):,} bytes behind{held}"


def _moved(named: NamedConsumer) -> str:
    moved = f"last moved {named.moved or 'at an unknown time'}"
    return moved if named.dropped is None else f"{moved}, dropped {named.dropped}: nothing is kept for it"


def _as_json(summary: JournalSummary) -> dict[str, object]:
    control = summary.control
    return {
        "url": summary.url,
        "slot": control.slot,
        "system_identifier": control.system_identifier,
        "begin": format_lsn(control.begin),
        "received": format_lsn(control.received),
        "bytes": summary.size,
        "consumers": [
            {
                "file": one.file,
                "target": one.consumer and one.consumer.target,
                "subid": one.consumer and one.consumer.subid,
                "purpose": one.purpose,
                "subscription": one.subscription,
                "place": one.place,
                "lsn": format_lsn(one.lsn),
                "behind_bytes": summary.behind(one),
                "holds_trimming_back": summary.holds_back(one),
            }
            for one in summary.consumers
        ],
        "named_consumers": [
            {
                "name": one.name,
                "lsn": format_lsn(one.lsn),
                "moved": one.moved,
                "dropped": one.dropped,
                "behind_bytes": summary.behind(one),
                "holds_trimming_back": one.dropped is None and summary.holds_back(one),
            }
            for one in summary.named
        ],
        "segments": [segment.name for segment in segments_of(summary)],
    }
