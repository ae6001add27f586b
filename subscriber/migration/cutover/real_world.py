"""Publisher and target of a cutover, asked for real; see
:class:`~subscriber.migration.cutover.world.World`.

Each method opens its own connection for a short time. A connection that stayed open would be one
more session to wait for, and on DuckDB it would keep `subscriber run` out of the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import cast

from subscriber import catalog
from subscriber.apply.prepared import still_prepared
from subscriber.catalog import Subscription
from subscriber.catalog.cutovers import Cutover, write_cutover
from subscriber.catalog.runner import Runner, is_alive
from subscriber.commands import publisher_slots
from subscriber.commands.count_rows import count_rows
from subscriber.commands.dispatch import run_command
from subscriber.commands.hold_heartbeat import trying
from subscriber.commands.publisher_connection import connected
from subscriber.commands.reached_position import ReachedPosition, reached_position
from subscriber.commands.refresh_sequences import UnsetSequence, refresh_sequences, sequences_left_alone
from subscriber.commands.subscription_grammar import parse
from subscriber.commands.subscription_statements import DropSubscription, SubscriptionCommand
from subscriber.commands.unknown_tables import read_unknown
from subscriber.commands.wake import wake_run
from subscriber.lsn import LSN
from subscriber.migration.cutover.world import MissingObject, PublisherState, TargetState, VerifyResult
from subscriber.publisher import fence, reverse_obstacles, reverse_replication
from subscriber.publisher.change_watch import open_writes
from subscriber.publisher.publisher import Publisher, connect_publisher
from subscriber.publisher.reverse_sequences import SetForward, set_forward
from subscriber.publisher.slot_changes import is_changed_after
from subscriber.publisher.sql_connection import Connection
from subscriber.settings import Settings, redact_conninfo
from subscriber.targets import Target


class RealWorld:
    """See :class:`~subscriber.migration.cutover.world.World`.

    Args:
        target: the target.
        name: the subscription's name.
        settings: the settings; they contain the place of the journals.

    Raises:
        UsageError: 42704, there is no such subscription.
    """

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

    @property
    def subid(self) -> int:
        """The subscription's number."""
        return self._subid

    # The target ----------------------------------------------------------------------------------

    def state(self) -> TargetState:
        """See :meth:`World.state`."""
        with self._target.reporting(), self._target.engine.connect() as connection:
            subscription = catalog.get_subscription(connection, self.name)
            statistics = catalog.statistics_of(connection, subscription.subid)
            error = statistics.get("last_error")
            if statistics.get("last_error_resolved_at") is not None:
                error = None
            runner = catalog.read_runner(connection)
            lock = self._target.run_lock
            held = None if lock is None else lock.is_held(connection)
            return TargetState(
                subscription=subscription,
                tables=catalog.relations_of(connection, subscription.subid),
                last_error=None if error is None else str(error).partition("\n")[0],
                prepared=[one.gid for one in still_prepared(self._target, connection, subscription.subid)],
                runner=None if runner is None or not is_alive(runner, held) else _described(runner),
            )

    def position(self) -> ReachedPosition:
        """See :meth:`World.position`."""
        return reached_position(self._target, self._subscription(), self._settings)

    def count_rows(self) -> dict[str, int]:
        """See :meth:`World.count_rows`."""
        return count_rows(self._target, self._subscription())

    def refresh_sequences(self) -> list[str]:
        """See :meth:`World.refresh_sequences`."""
        said: list[str] = []
        refresh_sequences(self._target, self._subscription(), self._settings, said.append)
        return said

    def sequences_left_alone(self) -> list[UnsetSequence]:
        """See :meth:`World.sequences_left_alone`."""
        return sequences_left_alone(self._target, self._subscription())

    def missing_objects(self) -> list[MissingObject]:
        """See :meth:`World.missing_objects`."""
        from subscriber.migration.schema.schema_difference import schema_difference
        from subscriber.migration.schema.schema_object import WITHOUT_ROWS

        difference = schema_difference(self._target, self.name, self._settings)
        known = [(one.schema, one.name) for one in self.state().tables]
        unknown = read_unknown(self._target, self._subscription(), known).tables
        lacking = [one for one in difference.lacking() if one.kind != "table" or one.name not in unknown]
        found = [MissingObject(f"table outside the subscription {name}", "refresh") for name in unknown]
        for one in lacking:
            text = f"{one.kind} {one.name}{f' ({one.reason})' if one.needs_stop else ''}"
            found.append(MissingObject(text, "schema diff" if one.kind in WITHOUT_ROWS else "schema apply"))
        return found

    def verify(self, seconds: float) -> VerifyResult:
        """See :meth:`World.verify`."""
        from subscriber.migration.cutover.compare_at_rest import verify_result
        from subscriber.verify.report import VerifyOptions
        from subscriber.verify.verify_subscription import verify_subscription

        options = VerifyOptions(seconds=seconds)
        return verify_result(verify_subscription(self._target, self.name, self._settings, options))

    def verify_at_rest(self, seconds: float) -> VerifyResult:
        """See :meth:`World.verify_at_rest`."""
        from subscriber.migration.cutover.compare_at_rest import compare_at_rest

        return compare_at_rest(self._target, self.name, self._settings, seconds)

    def published_after(self, lsn: LSN) -> bool:
        """See :meth:`World.published_after`."""
        subscription = self._subscription()
        if self.position().last > lsn:
            return True
        assert subscription.slot_name is not None  # a switch keeps it
        with self._publisher() as publisher:
            publisher_slots.is_released(publisher, subscription.slot_name)
            return is_changed_after(
                publisher.connection, subscription.slot_name, subscription.streamed_publications, lsn
            )

    def write(self, cutover: Cutover, *, enabled: bool | None = None) -> None:
        """See :meth:`World.write`."""

        def written() -> None:
            with self._target.begin() as connection:
                write_cutover(connection, cutover, self.name)
                if enabled is not None:
                    catalog.set_enabled(connection, self.name, enabled=enabled)

        trying(written)  # the heartbeat writes the same row

    def wake(self) -> None:
        """See :meth:`World.wake`."""
        wake_run(self._settings)

    def drop_subscription(self) -> list[str]:
        """See :meth:`World.drop_subscription`."""
        said: list[str] = []
        command = DropSubscription(self.name, if_exists=False, cascade=False)
        run_command(self._target, command, self._settings, said.append)
        return said

    # The publisher -------------------------------------------------------------------------------

    def publisher_state(self) -> PublisherState:
        """See :meth:`World.publisher_state`."""
        slot = self._subscription().slot_name
        with self._publisher() as publisher:
            return PublisherState(
                flushed=publisher.flushed_lsn(),
                slot=None if slot is None else publisher.slot(slot),
                is_standby=publisher.is_standby(),
                database=publisher.database,
            )

    def barrier(self) -> LSN:
        """See :meth:`World.barrier`."""
        with self._publisher() as publisher:
            return publisher.write_barrier()

    def open_writes(self) -> list[str]:
        """See :meth:`World.open_writes`."""
        with self._publisher() as publisher:
            return open_writes(publisher.connection)

    def slot_is_released(self) -> bool:
        """See :meth:`World.slot_is_released`."""
        slot = self._subscription().slot_name
        if slot is None:
            return True
        with self._publisher() as publisher:
            return publisher_slots.is_released(publisher, slot)

    def fence_obstacles(self) -> list[tuple[str, str]]:
        """See :meth:`World.fence_obstacles`."""
        with self._publisher() as publisher:
            return fence.fence_obstacles(publisher.connection)

    def own_setting(self) -> str | None:
        """See :meth:`World.own_setting`."""
        with self._publisher() as publisher:
            return fence.own_setting(publisher.connection)

    def raise_fence(self, former: str | None) -> fence.Fence:
        """See :meth:`World.raise_fence`."""
        with self._publisher() as publisher:
            return fence.raise_fence(publisher.connection, cast("fence.Setting | None", former))

    def lift_fence(self, former: str | None) -> None:
        """See :meth:`World.lift_fence`."""
        with self._publisher() as publisher:
            fence.lift_fence(publisher.connection, cast("fence.Setting | None", former))

    def unfenced_sessions(self, since: str) -> list[fence.Session]:
        """See :meth:`World.unfenced_sessions`."""
        with self._publisher() as publisher:
            return fence.unfenced_sessions(publisher.connection, since)

    def end_sessions(self, sessions: Sequence[fence.Session]) -> None:
        """See :meth:`World.end_sessions`."""
        with self._publisher() as publisher:
            fence.end_sessions(publisher.connection, sessions)

    # The way back --------------------------------------------------------------------------------

    def has_way_back(self) -> bool:
        """See :meth:`World.has_way_back`."""
        return self._target.cluster is not None

    def reverse_obstacles(self, conninfo: str | None) -> list[tuple[str, str]]:
        """See :meth:`World.reverse_obstacles`."""
        names, tables = self._subscription().options.map, self._tables()
        renamed = [".".join(one) for one in tables if names.local(*one) != one]
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
                *reverse_obstacles.publisher_obstacles(old, tables),
                *reverse_obstacles.target_obstacles(target, tables),
            ]
            # What follows needs servers and roles that are able to.
            found = found or reverse_obstacles.column_obstacles(old, target, tables)
            if not found:
                found = reverse_obstacles.connection_obstacles(old, self.reverse_name(), conninfo or self._conninfo())
        return [(one.message, one.hint) for one in found]

    def prepare_reverse(self, name: str, conninfo: str | None) -> None:
        """See :meth:`World.prepare_reverse`."""
        with self._as_publisher() as target:
            reverse_replication.prepare_target(target, name, self._tables())
        with self._publisher() as publisher:
            reverse_replication.subscribe_back(publisher.connection, name, conninfo or self._conninfo())

    def reverse_drained(self, name: str) -> bool:
        """See :meth:`World.reverse_drained`."""
        with self._as_publisher() as target:
            if self._drained_at is None:
                self._drained_at = Publisher(target).write_barrier()
            confirmed = reverse_replication.confirmed_by_publisher(target, name)
        return confirmed is None or confirmed >= self._drained_at

    def way_back_stands(self, name: str) -> bool:
        """See :meth:`World.way_back_stands`."""
        with self._publisher() as publisher, self._as_publisher() as target:
            return reverse_replication.stands(publisher.connection, target, name)

    def came_back(self, name: str) -> bool:
        """See :meth:`World.came_back`."""
        with self._publisher() as publisher:
            return reverse_replication.came_back(publisher.connection, name)

    def set_publisher_sequences(self) -> SetForward:
        """See :meth:`World.set_publisher_sequences`."""
        with self._publisher() as publisher, self._as_publisher() as target:
            return set_forward(publisher.connection, target, self._tables())

    def drop_reverse(self, name: str) -> None:
        """See :meth:`World.drop_reverse`."""
        with self._publisher() as publisher:
            reverse_replication.drop_subscription_back(publisher.connection, name)
        with self._as_publisher() as target:
            reverse_replication.drop_on_target(target, name)

    def leave_out_origins(self) -> bool:
        """See :meth:`World.leave_out_origins`."""
        if self._subscription().options.origin == "none":
            return False
        quoted = self.name.replace('"', '""')
        command = parse(f'ALTER SUBSCRIPTION "{quoted}" SET (origin = none)')
        run_command(self._target, cast("SubscriptionCommand", command), self._settings, lambda _: None)
        return True

    def reverse_name(self) -> str:
        """See :meth:`World.reverse_name`."""
        with self._target.reporting(), self._target.engine.connect() as connection:
            return f"subscriber_reverse_{catalog.target_identifier(connection)[:12]}_{self._subid}"

    # ---------------------------------------------------------------------------------------------

    def _subscription(self) -> Subscription:
        return catalog.existing_subscription(self._target, self.name)

    def _tables(self) -> list[tuple[str, str]]:
        with self._target.reporting(), self._target.engine.connect() as connection:
            return [(one.schema, one.name) for one in catalog.relations_of(connection, self._subid)]

    @contextlib.contextmanager
    def _publisher(self) -> Iterator[Publisher]:
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


def _described(runner: Runner) -> str:
    return f"`subscriber run` is process {runner.process_id} on host {runner.host}"
