"""ALTER SUBSCRIPTION … RECREATE SLOT: a new slot in place of one whose changes are lost, and new
copies of all tables.

::

    applied P ─────── journal's end D        lost        C ────────────▶ the new slot
                                     └──────────────────┘ └─ L: snapshots of the copies, later than C

The changes between D and C are in no slot. Every table is copied again from a snapshot after C, and
each copy replaces the rows in one transaction (:mod:`subscriber.commands.table_commands`). It has
also what was deleted meanwhile.

What is done at the publisher cannot be rolled back, so the steps are in this order::

    lock the journal ── drop the old slot ── create the new one ── one transaction of the target ── remove the journal
                                         1                      2                               3

The transaction moves the progress to C, by compare-and-set; sets the tables to be copied; and
releases the slot at C and takes it up again, so that another worker continues at C
(:mod:`subscriber.commands.slot_position`). No batch and no copy of the old worker is committed
after it (:mod:`subscriber.worker.catalog_rules`, ``check_replicated``). If the command is killed,

- at 1 there is no slot, and at 2 there is one that was confirmed beyond the journal's end: a
  receiver refuses both, and the repeated command finds that changes are lost, and begins again;
- at 3 everything is done. A receiver begins a journal that ends before C again at C by itself. It
  refuses one that ends after C, is from another timeline, or cannot be read; the repeated command
  removes it.

The creation of a slot waits for every transaction of the publisher, prepared ones included. So a
transaction that is still prepared in the target was decided at the publisher before C, and the
copies have its outcome. In the target, where it would hold locks for ever, it is rolled back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

from subscriber.apply.prepared import still_prepared
from subscriber.base import failpoints
from subscriber.base.errors import JournalCorrupt, SlotInUse, UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.prepared_transactions import forget_prepared, list_prepared
from subscriber.catalog.released import ReleasedSlot, release_slot
from subscriber.catalog.subscription_options import read_options
from subscriber.catalog.subscriptions import Subscription, set_two_phase_state, take_up_slot
from subscriber.catalog.table_states import read_states, relations_of, replace_relations
from subscriber.commands import subscription_slots
from subscriber.commands.consumers import check_other_targets
from subscriber.commands.lost_changes import lost_changes
from subscriber.commands.notices import Notify, notice, warning
from subscriber.commands.subscription_grammar import RecreateSlot
from subscriber.commands.subscription_slots import connected, remove_journal_of, replicating, while_progress_stands
from subscriber.commands.table_commands import check_not_shared
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient, Slot
from subscriber.publisher.conninfo import wants_standby
from subscriber.publisher.history import UNKNOWN_TIMELINE, Server, check_is_primary, check_system, identify
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.storage import Storage, journal_url, open_storage
from subscriber.targets import Target

_REFRESH: Final = "ALTER SUBSCRIPTION ... REFRESH TABLE copies tables again with the slot that there is."


def recreate_slot(
    target: Target, subscription: Subscription, command: RecreateSlot, settings: Settings, notify: Notify
) -> None:
    """ALTER SUBSCRIPTION … RECREATE SLOT. UsageError 55000: the subscription has no slot, its slot
    is well, or a table has rows of another subscription, too; 55006: another subscription uses the
    slot. SlotInUse: a receiver streams from the slot, or writes the journal.
    """
    slot_name = subscription.slot_name
    if slot_name is None:
        raise UsageError(
            "cannot recreate the slot of a subscription that does not have a slot name",
            sqlstate="55000",
            hint=f"Use ALTER SUBSCRIPTION {quote_identifier(subscription.name)} SET (slot_name = {quote_identifier(subscription.name)}) first.",
        )
    given = {"copy_data": True} | read_options(command.options, "REFRESH")
    copy_data: bool = given["copy_data"]
    with target.reporting(), target.engine.connect() as connection:
        applied = subscription.progress.read(connection)
        identifier = target_identifier(connection)
        tables = [(one.schema, one.name) for one in relations_of(connection, subscription.subid)]
        if copy_data:
            check_not_shared(target, connection, subscription, tables)
    server, conninfo = _primary(subscription, settings, slot_name)
    with connected(conninfo, subscription.name) as publisher:
        publisher.check_server()
        publisher.check_publications(subscription.streamed_publications)
        storage = open_storage(journal_url(settings.journal, server.system_identifier, slot_name))
        check_other_targets(storage, identifier, slot_name)
        slot = _unused(publisher, subscription, slot_name)
        lost = lost_changes(storage, slot, server, applied, slot_name)
        if lost is None:
            raise UsageError(
                f'replication slot "{slot_name}" of subscription "{subscription.name}" does not need to be recreated',
                sqlstate="55000",
                detail="No change is lost: the slot and the journal have everything that the target has not applied.",
                hint=_REFRESH,
            )
        notice(notify, f'subscription "{subscription.name}" cannot continue with its slot: {lost}')
        with _locked(storage):
            if slot is not None:
                subscription_slots.remove_slot(publisher, slot_name)
                notice(notify, f'dropped replication slot "{slot_name}" on publisher')
            failpoints.hit("recreate.before")
            begin = _make_slot(subscription, conninfo, slot_name, notify)
            failpoints.hit("recreate.after")
            try:
                _begin_again(target, subscription, server, begin, notify, copy_data=copy_data)
            except BaseException:
                publisher.drop_slot(slot_name)
                raise
            if _hinders(storage, begin, server.timeline):
                remove_journal_of(server.system_identifier, slot_name, settings, notify)
    if copy_data:
        notice(notify, f"{_count(tables)} copied again; readers see the old rows until then")
    else:
        warning(
            notify,
            f'the tables of subscription "{subscription.name}" lack the changes between {format_lsn(applied)} and {format_lsn(begin)}',
            hint="`subscriber verify --repair` finds and writes the rows that differ.",
        )


def _unused(publisher: PublisherClient, subscription: Subscription, name: str) -> Slot | None:
    """The slot, which nobody streams from; None if there is none."""
    slot = publisher.slot(name)
    if slot is None or slot.lost is not None:
        return slot
    if slot.active_pid is not None and (subscription.enabled or not subscription_slots.is_released(publisher, name)):
        raise subscription_slots.in_use(publisher, name, _REFRESH)
    publisher.check_slot(name)
    if not subscription.slot_adopted:
        raise UsageError(
            f'subscription "{subscription.name}" has never streamed from replication slot "{name}"',
            sqlstate="55000",
            hint="To stream from it, ENABLE the subscription. For a slot of its own, use ALTER SUBSCRIPTION ... SET (slot_name = ...)"
            " with a new name, and then RECREATE SLOT.",
        )
    return slot


def _primary(subscription: Subscription, settings: Settings, slot: str) -> tuple[Server, str]:
    """The WAL's state of the server that CONNECTION leads to, and that server's connection string.
    What a former primary, a standby or another system lacks is not lost.
    """
    with replicating(subscription.conninfo, subscription.name) as stream:
        server = identify(stream, received_on=UNKNOWN_TIMELINE)
        check_system(server.system_identifier, subscription.system_identifier)
        received_on = _timeline(open_storage(journal_url(settings.journal, server.system_identifier, slot)))
        check_is_primary(server, received_on, wants_standby=wants_standby(subscription.conninfo))
        return identify(stream, received_on=received_on), stream.same_server


def _timeline(storage: Storage) -> int:
    """The timeline that changes were received on, as far as the journal says."""
    with contextlib.suppress(JournalCorrupt):
        control = read_control(storage)
        if control is not None:
            return control.timeline
    return UNKNOWN_TIMELINE


@contextlib.contextmanager
def _locked(storage: Storage) -> Iterator[None]:
    """Keep receivers from opening the journal, if it is on this machine."""
    if not storage.names():
        yield
        return
    with storage.lock() as locked:
        if not locked:
            raise SlotInUse(
                f'a receiver writes the journal at "{storage.url}"',
                hint="It ends when it finds that the slot is lost. Give the command again.",
            )
        yield


def _make_slot(subscription: Subscription, conninfo: str, name: str, notify: Notify) -> LSN:
    """Two-phase commit waits for ready tables, as after CREATE SUBSCRIPTION (rule C48)."""
    created = subscription_slots.make_slot(
        conninfo,
        subscription.name,
        name,
        two_phase=False,
        failover=subscription.options.failover,
    )
    notice(notify, f'created replication slot "{name}" on publisher')
    return created.consistent_point


def _begin_again(
    target: Target, subscription: Subscription, server: Server, begin: LSN, notify: Notify, *, copy_data: bool
) -> None:
    """Change the catalog so that the subscription begins at ``begin``, and have tables copied."""
    assert subscription.slot_name is not None
    released = ReleasedSlot(server.system_identifier, subscription.slot_name, begin, subscription.name)
    subid = subscription.subid

    def change(connection: sa.Connection, applied: LSN) -> None:
        _roll_back_prepared(target, connection, subid, notify)
        subscription.progress.restart(connection, applied, begin)
        # Without copies, too: a table that is not ready needs changes that are lost.
        unfinished = [(one.schema, one.name) for one in read_states(connection, subid).unfinished]
        replace_relations(connection, subid, None if copy_data else unfinished)
        if subscription.two_phase_state == "e":
            set_two_phase_state(connection, subid, "p")
        release_slot(connection, released)
        take_up_slot(connection, subid)

    while_progress_stands(target, subscription, change)


def _roll_back_prepared(target: Target, connection: sa.Connection, subid: int, notify: Notify) -> None:
    for transaction in still_prepared(target, connection, subid):
        assert target.prepared is not None
        target.prepared.finish(transaction.gid, commit=False)
        notice(notify, f'rolled back prepared transaction "{transaction.gid}" in the target')
    for transaction in list_prepared(connection, subid):
        forget_prepared(connection, subid, transaction.xid)


def _hinders(storage: Storage, begin: LSN, timeline: int) -> bool:
    """Whether a receiver that begins at ``begin`` of a timeline would refuse the journal that is
    here. After a failover its changes are from a timeline that the publisher has left before.
    """
    if not storage.names():
        return False
    try:
        return journal_positions(storage.url)[0] >= begin or _timeline(storage) not in (UNKNOWN_TIMELINE, timeline)
    except JournalCorrupt:
        return True


def _count(tables: list[tuple[str, str]]) -> str:
    return "1 table is" if len(tables) == 1 else f"{len(tables):,} tables are"
