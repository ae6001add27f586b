"""Publisher and target of a cutover: what its steps ask of them, and do there.

Each method opens its own connection for a short time. A connection that stayed open would be one
more session to wait for, and on DuckDB it would keep `subscriber run` out of the file.

After a switch the subscription is disabled, and publisher and target are compared at rest::

    switch: target is at the barrier ──▶ nothing is applied any more
                                          publisher: snapshot ──▶ verify ◀── target as it is
                                          then: was anything published after the barrier?  (slot, journal)

If nothing was published after the barrier, the publisher's tables in the snapshot are those of the
barrier, and every difference was made in the target, or was there at the switch. The slot is
checked after the snapshot, so it covers everything in the snapshot.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from subscriber.apply.prepared import still_prepared
from subscriber.base.errors import ApplyNotHeld, PublisherError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.reach import Reach
from subscriber.base.retry import repeat_if_busy
from subscriber.base.settings import Settings, redact_conninfo
from subscriber.catalog.catalog_upgrade import target_identifier
from subscriber.catalog.cutovers import Cutover, write_cutover
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.catalog.leases import find_run, is_running
from subscriber.catalog.statistics import statistics_of
from subscriber.catalog.subscriptions import Subscription, get_subscription, set_enabled
from subscriber.catalog.table_states import SubscriptionRelation, relations_of
from subscriber.commands import subscription_slots
from subscriber.commands.check_publications import read_unknown
from subscriber.commands.dispatch import run_command
from subscriber.commands.reached_position import count_rows, reached_position
from subscriber.commands.refresh_sequences import UnsetSequence, refresh_sequences, sequences_left_alone
from subscriber.commands.subscription_grammar import DropSubscription, SubscriptionCommand, parse
from subscriber.commands.subscription_slots import connected
from subscriber.commands.wake import wake_run
from subscriber.migrate.schema.schema_difference import schema_difference
from subscriber.migrate.schema.schema_object import WITHOUT_ROWS
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.client import PublisherClient, Slot
from subscriber.publisher.connection import Connection, connect_publisher
from subscriber.publisher.fence import read_only as fence
from subscriber.publisher.fence import reverse_replication
from subscriber.publisher.fence.open_transactions import open_writes
from subscriber.publisher.fence.reverse_replication import SetForward, set_forward
from subscriber.publisher.slots import is_changed_after
from subscriber.publisher.snapshot import Snapshot, exported_snapshot
from subscriber.targets import Target
from subscriber.verify.report import VerifyOptions, VerifyReport
from subscriber.verify.verify_subscription import verify_subscription

Way = Literal["schema apply", "schema diff", "refresh", "by hand"]
"""What brings a missing object: ``subscriber schema apply``, the statements that ``subscriber
schema diff`` lists with it, REFRESH PUBLICATION, or a statement that the user writes.
"""


@dataclass(frozen=True, slots=True)
class MissingObject:
    """An object of the publisher that the target lacks; it can be accepted by ``name``."""

    kind: str
    name: str
    way: Way = "schema apply"
    reason: str = ""

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}" + (f" ({self.reason})" if self.reason else "")


@dataclass(frozen=True, slots=True)
class TargetState:
    """From the target's catalog: the unresolved error's first line, prepared transactions, and
    `subscriber run` in words if it is running.
    """

    subscription: Subscription
    tables: Sequence[SubscriptionRelation]
    last_error: str | None
    prepared: Sequence[str]
    runner: str | None


@dataclass(frozen=True, slots=True)
class PublisherState:
    """What the publisher says; ``flushed`` is the end of its durable WAL."""

    flushed: LSN
    slot: Slot | None
    is_standby: bool
    database: str


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """A comparison without keys of rows; ``differing`` has a line for each table that differs."""

    is_equal: bool
    lsn: LSN
    differing: Sequence[str]
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was compared in another way, or not at all, with the table."""
        return tuple(f"{table['table']}: {note}" for table in self.report.get("tables", ()) for note in table["notes"])


class CutoverServers:
    """UsageError 42704: no such subscription. Methods raise a server's SubscriberError."""

    def __init__(self, target: Target, name: str, settings: Settings) -> None:
        self.name = name
        self._target = target
        self._settings = settings
        subscription = self._subscription()
        self._subid = subscription.subid
        self.publisher_place = redact_conninfo(subscription.conninfo)
        self.target_place = target.url.set(query={}).render_as_string()
        self.target_kind = target.capabilities.database
        self._drained_at: LSN | None = None
        self._missing: list[MissingObject] | None = None

    @property
    def subid(self) -> int:
        return self._subid

    # The target ----------------------------------------------------------------------------------

    def state(self) -> TargetState:
        with self._target.reporting(), self._target.engine.connect() as connection:
            subscription = get_subscription(connection, self.name)
            statistics = statistics_of(connection, subscription.subid)
            error = statistics.get("last_error")
            if statistics.get("last_error_resolved_at") is not None:
                error = None
            run = find_run(connection)
            return TargetState(
                subscription=subscription,
                tables=relations_of(connection, subscription.subid),
                last_error=None if error is None else str(error).partition("\n")[0],
                prepared=[one.gid for one in still_prepared(self._target, connection, subscription.subid)],
                runner=f"`subscriber run` is {run.holder_in_words}"
                if run is not None and is_running(self._target, connection, run)
                else None,
            )

    def position(self) -> Reach:
        return reached_position(self._target, self._subscription(), self._settings)

    def count_rows(self) -> dict[str, int]:
        return count_rows(self._target, self._subscription())

    def refresh_sequences(self) -> list[str]:
        """Set the target's sequences and counters; returns the notices and warnings."""
        notices: list[str] = []
        refresh_sequences(self._target, self._subscription(), self._settings, notices.append)
        return notices

    def sequences_left_alone(self) -> list[UnsetSequence]:
        """The sequences of columns that :meth:`refresh_sequences` would not set."""
        return sequences_left_alone(self._target, self._subscription())

    def missing_objects(self) -> list[MissingObject]:
        """What the schema step can build, and what an application would miss, such as views."""
        if self._missing is not None:
            return self._missing
        difference = schema_difference(self._target, self.name)
        unknown = self.tables_outside()
        lacking = [one for one in difference.lacking() if one.kind != "table" or one.name not in unknown]
        found = [MissingObject("table outside the subscription", name, "refresh") for name in unknown]
        for one in lacking:
            by_hand = one.phase == "manual" and not one.needs_stop
            way: Way = "schema diff" if one.kind in WITHOUT_ROWS else "by hand" if by_hand else "schema apply"
            is_explained = one.needs_stop or way == "by hand"
            found.append(MissingObject(one.kind, one.name, way, one.reason if is_explained else ""))
        self._missing = found
        return found

    def tables_outside(self) -> list[str]:
        known = [(one.schema, one.name) for one in self.state().tables]
        return list(read_unknown(self._target, self._subscription(), known).tables)

    def verify(self, seconds: float) -> VerifyResult:
        """Compare all tables at one LSN, which is to be reached within some seconds."""
        options = VerifyOptions(seconds=seconds)
        return verify_result(verify_subscription(self._target, self.name, self._settings, options))

    def verify_at_rest(self, seconds: float) -> VerifyResult:
        """Compare all tables while the subscription is disabled, without `subscriber run`."""
        options = VerifyOptions(seconds=seconds)
        return verify_result(verify_subscription(self._target, self.name, self._settings, options, hold=at_rest))

    def published_after(self, lsn: LSN) -> bool:
        """Whether a change was published after a position, with the subscription disabled."""
        subscription = self._subscription()
        if self.position().last > lsn:
            return True
        assert subscription.slot_name is not None  # a switch keeps it
        with self._publisher() as publisher:
            subscription_slots.is_released(publisher, subscription.slot_name)
            return is_changed_after(
                publisher.connection, subscription.slot_name, subscription.streamed_publications, lsn
            )

    def write(self, cutover: Cutover, *, enabled: bool | None = None) -> None:
        """Store a cutover and, in the same transaction, enable or disable the subscription."""

        def written() -> None:
            with self._target.begin() as connection:
                write_cutover(connection, cutover, self.name)
                if enabled is not None:
                    set_enabled(connection, self.name, enabled=enabled)

        repeat_if_busy(written)  # the heartbeat writes the same row

    def wake(self) -> None:
        wake_run(self._settings)

    def drop_subscription(self) -> list[str]:
        notices: list[str] = []
        command = DropSubscription(self.name, if_exists=False, cascade=False)
        run_command(self._target, command, self._settings, notices.append)
        return notices

    # The publisher -------------------------------------------------------------------------------

    def publisher_state(self) -> PublisherState:
        slot = self._subscription().slot_name
        with self._publisher() as publisher:
            return PublisherState(
                flushed=publisher.flushed_lsn(),
                slot=None if slot is None else publisher.slot(slot),
                is_standby=publisher.is_standby(),
                database=publisher.database,
            )

    def barrier(self) -> LSN:
        with self._publisher() as publisher:
            return publisher.write_barrier()

    def open_writes(self) -> list[str]:
        with self._publisher() as publisher:
            return open_writes(publisher.connection)

    def slot_is_released(self) -> bool:
        slot = self._subscription().slot_name
        if slot is None:
            return True
        with self._publisher() as publisher:
            return subscription_slots.is_released(publisher, slot)

    def fence_obstacles(self) -> list[tuple[str, str]]:
        with self._publisher() as publisher:
            return fence.fence_obstacles(publisher.connection)

    def own_setting(self) -> str | None:
        """The database's own default_transaction_read_only."""
        with self._publisher() as publisher:
            return fence.own_setting(publisher.connection)

    def raise_fence(self, former: str | None) -> fence.Fence:
        with self._publisher() as publisher:
            return fence.raise_fence(publisher.connection, cast("fence.Setting | None", former))

    def lift_fence(self, former: str | None) -> None:
        with self._publisher() as publisher:
            fence.lift_fence(publisher.connection, cast("fence.Setting | None", former))

    def unfenced_sessions(self, since: str) -> list[fence.UnfencedSession]:
        with self._publisher() as publisher:
            return fence.unfenced_sessions(publisher.connection, since)

    def end_sessions(self, sessions: Sequence[fence.UnfencedSession]) -> None:
        with self._publisher() as publisher:
            fence.end_sessions(publisher.connection, sessions)

    # The way back --------------------------------------------------------------------------------

    def has_way_back(self) -> bool:
        return self._target.cluster is not None

    def reverse_obstacles(self, conninfo: str | None) -> list[tuple[str, str]]:
        """Why there can be no way back; ``conninfo`` is for the old publisher's server."""
        names, tables = self._subscription().options.map, self._tables()
        renamed = [".".join(one) for one in tables if names.in_target(*one) != one]
        if renamed:
            count = f'table "{renamed[0]}"' + (f" and {len(renamed) - 1} more" if len(renamed) > 1 else "")
            return [
                (
                    f"the subscription renames {count} (map), and PostgreSQL's subscriptions have no such option",
                    "Run the command without --reverse.",
                )
            ]
        with self._publisher() as publisher, self._as_publisher() as target:
            old = publisher.connection
            found = [
                *reverse_replication.publisher_obstacles(old, tables),
                *reverse_replication.target_obstacles(target, tables),
            ]
            # What follows needs servers and roles that are able to.
            found = found or reverse_replication.column_obstacles(old, target, tables)
            if not found:
                found = reverse_replication.connection_obstacles(old, self.reverse_name(), conninfo or self._conninfo())
        return [(one.message, one.hint) for one in found]

    def prepare_reverse(self, name: str, conninfo: str | None) -> None:
        with self._as_publisher() as target:
            reverse_replication.prepare_target(target, name, self._tables())
        with self._publisher() as publisher:
            reverse_replication.subscribe_back(publisher.connection, name, conninfo or self._conninfo())

    def reverse_drained(self, name: str) -> bool:
        """Whether the old publisher has all that the target had when this was first asked."""
        with self._as_publisher() as target:
            if self._drained_at is None:
                self._drained_at = PublisherClient(target).write_barrier()
            confirmed = reverse_replication.confirmed_by_publisher(target, name)
        return confirmed is None or confirmed >= self._drained_at

    def way_back_stands(self, name: str) -> bool:
        with self._publisher() as publisher, self._as_publisher() as target:
            return reverse_replication.stands(publisher.connection, target, name)

    def came_back(self, name: str) -> bool:
        """Whether a transaction of the target has been applied at the old publisher."""
        with self._publisher() as publisher:
            return reverse_replication.came_back(publisher.connection, name)

    def set_publisher_sequences(self) -> SetForward:
        with self._publisher() as publisher, self._as_publisher() as target:
            return set_forward(publisher.connection, target, self._tables())

    def drop_reverse(self, name: str) -> None:
        with self._publisher() as publisher:
            reverse_replication.drop_subscription_back(publisher.connection, name)
        with self._as_publisher() as target:
            reverse_replication.drop_on_target(target, name)

    def leave_out_origins(self) -> bool:
        """Set ``origin = none``, so that what came back is not sent again; False if it was set."""
        if self._subscription().options.origin == "none":
            return False
        command = parse(f"ALTER SUBSCRIPTION {delimited_identifier(self.name)} SET (origin = none)")
        run_command(self._target, cast("SubscriptionCommand", command), self._settings, lambda _: None)
        return True

    def reverse_name(self) -> str:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return f"subscriber_reverse_{target_identifier(connection)[:12]}_{self._subid}"

    # ---------------------------------------------------------------------------------------------

    def _subscription(self) -> Subscription:
        return existing_subscription(self._target, self.name)

    def _tables(self) -> list[tuple[str, str]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return [(one.schema, one.name) for one in relations_of(connection, self._subid)]

    @contextlib.contextmanager
    def _publisher(self) -> Iterator[PublisherClient]:
        with connected(self._subscription().conninfo, self.name) as publisher:
            yield publisher

    @contextlib.contextmanager
    def _as_publisher(self) -> Iterator[Connection]:
        """A connection to the target, which is to be a publisher itself."""
        with connect_publisher(self._conninfo(), f"cutover of {self.name}") as connection:
            yield connection

    def _conninfo(self) -> str:
        assert self._target.cluster is not None
        return self._target.cluster.conninfo()


@dataclass(frozen=True, slots=True)
class _AtRest:
    """A disabled subscription; see :class:`~subscriber.verify.verify_subscription.PausedApply`."""

    lsn: LSN
    snapshot: Snapshot
    _target: Target = field(repr=False)
    _name: str

    def check(self) -> None:
        """Return if the subscription is still disabled; else ApplyNotHeld (55000)."""
        if existing_subscription(self._target, self._name).enabled:
            raise ApplyNotHeld(
                f'subscription "{self._name}" was enabled while publisher and target were compared',
                hint="Run the command again.",
            )


@contextlib.contextmanager
def at_rest(
    target: Target, subscription: Subscription, settings: Settings, *, seconds: float | None = None
) -> Iterator[_AtRest]:
    """The publisher's snapshot while nothing is applied. ApplyNotHeld (57014): the time is over."""
    del settings  # no run is asked for anything
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(threading.TIMEOUT_MAX if seconds is None else seconds, stop.set)
        timer.daemon = True
        timer.start()
        try:
            snapshot = stack.enter_context(exported_snapshot(subscription.conninfo, subscription.name, stop))
        except PublisherError:
            if not stop.is_set():
                raise
            raise ApplyNotHeld(
                f"the snapshot of the publisher was not there within {seconds:g} s",
                sqlstate="57014",
                detail="It waits for the end of every transaction in progress at the publisher's server.",
                hint="Wait for them or end them, and run the same command again, or with a longer --timeout.",
            ) from None
        finally:
            timer.cancel()
        yield _AtRest(snapshot.lsn, snapshot, target, subscription.name)


def verify_result(report: VerifyReport) -> VerifyResult:
    differing = []
    lines = []
    for one in report.tables:
        counts = {
            "publisher_rows": one.publisher_rows,
            "target_rows": one.target_rows,
            "differing": one.differing,
            "only_publisher": one.only_publisher,
            "only_target": one.only_target,
        }
        lines.append({"table": one.table, **counts, "notes": list(one.notes), "error": one.error})
        if one.error:
            # Its HINT and DETAIL would be taken for those of the whole command.
            differing.append(f"{one.table}: {one.error.splitlines()[0].removeprefix('ERROR:  ')}")
        elif one.differences:
            differing.append(
                f"{one.table}: {one.differing} differing, {one.only_publisher} only at the publisher,"
                f" {one.only_target} only in the target"
            )
    return VerifyResult(report.is_equal, report.lsn or INVALID_LSN, differing, {"tables": lines})
