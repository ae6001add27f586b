"""A publisher and a target of a cutover that exist in memory only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach
from subscriber.catalog.cutovers import Cutover
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.commands.refresh_sequences import UnsetSequence
from subscriber.migrate.cutover.cutover_servers import (
    CutoverServers,
    MissingObject,
    PublisherState,
    TargetState,
    VerifyResult,
)
from subscriber.migrate.cutover.run_cutover import new_cutover
from subscriber.migrate.cutover.work import CutoverOptions, Work
from subscriber.publisher.client import Slot
from subscriber.publisher.fence.read_only import Fence, UnfencedSession
from subscriber.publisher.fence.reverse_replication import SetForward
from tests.subscriptions import SUBSCRIPTION

READY = SubscriptionRelation("public", "t", RelationState.READY, None)
SLOT = Slot("s", "pgoutput", "shop", 1, LSN(50), False, None)


@dataclass
class FakeServers(CutoverServers):
    """Servers that fail on request. What was done is in ``log``.

    ``failing`` names a method that raises its error once.
    """

    name: str = "s"
    publisher_place: str = "host=db dbname=shop"
    target_place: str = "sqlite:///target.db"
    target_kind: str = "SQLite"
    subscription: Subscription = SUBSCRIPTION
    tables: Sequence[SubscriptionRelation] = (READY,)
    last_error: str | None = None
    prepared: Sequence[str] = ()
    runner: str | None = "`subscriber run` is process 7 on host h"
    slot: Slot | None = SLOT
    is_standby: bool = False
    flushed: int = 10_000
    received: int = 100
    last: int = 100
    lag: int = 0
    writers: list[list[str]] = field(default_factory=list)
    old_sessions: list[list[UnfencedSession]] = field(default_factory=list)
    writes_at_barriers: list[int] = field(default_factory=list)
    setting: str | None = None
    moment: str = "2026-11-25 10:00:00+00"
    fenced_since: str = "2026-11-25 10:00:00+00"
    obstacles: list[tuple[str, str]] = field(default_factory=list)
    messages: list[str] = field(default_factory=lambda: ['NOTICE:  sequence "t_id_seq": 1 → 9'])
    left_alone: list[UnsetSequence] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    missing: list[MissingObject] = field(default_factory=list)
    verified: VerifyResult = field(default_factory=lambda: VerifyResult(True, LSN(200), ()))
    rows: dict[str, int] = field(default_factory=lambda: {"public.t": 3})
    published: bool = False
    way_back: bool = False
    reverse_problems: list[tuple[str, str]] = field(default_factory=list)
    brought_back: bool = False
    stands: bool = True
    origin_changes: bool = True
    failing: dict[str, BaseException] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    stored: list[Cutover] = field(default_factory=list)
    barriers: int = 0

    def _do(self, what: str) -> None:
        error = self.failing.pop(what.partition(" ")[0], None)
        if error is not None:
            raise error
        self.log.append(what)

    def state(self) -> TargetState:
        return TargetState(self.subscription, self.tables, self.last_error, self.prepared, self.runner)

    def position(self) -> Reach:
        reached = LSN(self.received - self.lag)
        self.lag = max(0, self.lag - 1)
        if reached < self.received:
            return Reach(LSN(self.received), LSN(max(self.last, reached + 1)), reached)
        return Reach(LSN(self.received), LSN(self.last), LSN(self.last))

    def count_rows(self) -> dict[str, int]:
        return dict(self.rows)

    def refresh_sequences(self) -> list[str]:
        self._do("sequences")
        return self.messages

    def sequences_left_alone(self) -> list[UnsetSequence]:
        return self.left_alone

    def missing_objects(self) -> list[MissingObject]:
        return self.missing

    def tables_outside(self) -> list[str]:
        return self.outside

    def verify(self, seconds: float) -> VerifyResult:
        self._do("verify")
        return self.verified

    def verify_at_rest(self, seconds: float) -> VerifyResult:
        self._do("verify_at_rest")
        return self.verified

    def published_after(self, lsn: LSN) -> bool:
        return self.published

    def write(self, cutover: Cutover, *, enabled: bool | None = None) -> None:
        if enabled is not None:
            self._do("enable" if enabled else "disable")
            self.subscription = replace(self.subscription, enabled=enabled)
        self.stored.append(cutover)

    def wake(self) -> None:
        pass

    def drop_subscription(self) -> list[str]:
        self._do("drop_subscription")
        return ['NOTICE:  dropped replication slot "s" on publisher']

    def publisher_state(self) -> PublisherState:
        if "publisher_state" in self.failing:
            raise self.failing.pop("publisher_state")
        return PublisherState(LSN(self.flushed), self.slot, self.is_standby, "shop")

    def barrier(self) -> LSN:
        """The next barrier; before it, a transaction came if ``writes_at_barriers`` says so."""
        if "barrier" in self.failing:
            raise self.failing.pop("barrier")
        self.barriers += 1
        if self.barriers in self.writes_at_barriers:
            self.received += 5
            self.last = self.received
        self.received += 10
        return LSN(self.received)

    def open_writes(self) -> list[str]:
        if len(self.writers) > 1:
            return self.writers.pop(0)
        return self.writers[0] if self.writers else []

    def slot_is_released(self) -> bool:
        return True

    def fence_obstacles(self) -> list[tuple[str, str]]:
        return self.obstacles

    def own_setting(self) -> str | None:
        return self.setting

    def raise_fence(self, former: str | None) -> Fence:
        self._do("fence")
        self.setting = "on"
        return Fence("shop", former, self.moment)  # type: ignore[arg-type]

    def lift_fence(self, former: str | None) -> None:
        self._do(f"lift {former}")
        self.setting = former

    def unfenced_sessions(self, since: str) -> list[UnfencedSession]:
        assert since == self.fenced_since
        if len(self.old_sessions) > 1:
            return self.old_sessions.pop(0)
        return self.old_sessions[0] if self.old_sessions else []

    def end_sessions(self, sessions: Sequence[UnfencedSession]) -> None:
        self._do(f"end {[one.process for one in sessions]}")

    def has_way_back(self) -> bool:
        return self.way_back

    def reverse_obstacles(self, conninfo: str | None) -> list[tuple[str, str]]:
        return self.reverse_problems

    def prepare_reverse(self, name: str, conninfo: str | None) -> None:
        self._do(f"reverse {name} {conninfo}")

    def reverse_drained(self, name: str) -> bool:
        self._do(f"drained {name}")
        return True

    def way_back_stands(self, name: str) -> bool:
        return self.stands

    def came_back(self, name: str) -> bool:
        return self.brought_back

    def set_publisher_sequences(self) -> SetForward:
        self._do("set_publisher_sequences")
        return SetForward(["sequence a is set forward to 9"], ["sequence b was not set forward"])

    def drop_reverse(self, name: str) -> None:
        self._do(f"drop_reverse {name}")

    def leave_out_origins(self) -> bool:
        self._do("origin none")
        return self.origin_changes

    def reverse_name(self) -> str:
        return "subscriber_reverse_1"


class Clock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def a_work(
    servers: FakeServers | None = None, cutover: Cutover | None = None, **options: Any
) -> tuple[Work, FakeServers]:
    """A cutover with a clock of its own."""
    servers = servers or FakeServers()
    clock = Clock()
    work = Work(
        servers,
        CutoverOptions(**options),
        cutover or new_cutover(1),
        clock=clock,
        sleep=clock.sleep,
    )
    return work, servers
