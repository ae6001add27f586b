"""The steps of a cutover that concern the publisher: preconditions, writes, barrier, switch.

A step *checks* without changing anything, and says why it refuses. It *plans*: one line about what
it would do. It *does* its work, which may be repeated. It *undoes* what the catalog's row says that
it has done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.catalog import RelationState
from subscriber.catalog.cutovers import now
from subscriber.commands.unknown_tables import refresh_command
from subscriber.errors import COPY_FROM_SCRATCH, UsageError
from subscriber.lsn import INVALID_LSN, format_lsn, parse_lsn
from subscriber.migration.cutover.work import (
    FENCED_QUIET_SECONDS,
    QUIET_SECONDS,
    Outcome,
    Refusal,
    Work,
    names_of,
)
from subscriber.migration.cutover.world import PublisherState, TargetState
from subscriber.publisher.fence import lifting_statements
from subscriber.sql.keywords import quote_identifier

_AGAIN: Final = "then run the command again"
_COPY_AGAIN: Final = f"To copy everything again: {COPY_FROM_SCRATCH}"


class Step:
    """A step of a cutover.

    Attributes:
        name: its name in the catalog and in the names of its failpoints.
        title: its name for people.
    """

    name: str
    title: str

    def is_wanted(self, work: Work) -> bool:
        """Whether the options ask for the step."""
        del work
        return True

    def check(self, work: Work) -> Sequence[Refusal]:
        """Why the step refuses, as far as that shows before anything is changed."""
        del work
        return ()

    def plan(self, work: Work) -> str:
        """One line about what the step would do."""
        raise NotImplementedError

    def do(self, work: Work) -> Outcome:
        """Do it. It may have been done before, in whole or in part.

        Raises:
            SubscriberError: it is not clean, or cannot be done.
        """
        raise NotImplementedError

    def undo(self, work: Work) -> Outcome | None:
        """Undo it; returns what was undone, or None if there was nothing.

        Raises:
            SubscriberError: it cannot be undone.
        """
        del work
        return None


class Preconditions(Step):
    """No failed or unready table, the run is running, no error."""

    name = "preconditions"
    title = "preconditions"

    def check(self, work: Work) -> Sequence[Refusal]:
        """See :meth:`Step.check`."""
        state = work.world.state()
        found = [*_target_refusals(state)]
        if state.subscription.slot_name is not None:
            found += _publisher_refusals(work, work.world.publisher_state(), state.subscription.slot_name)
        return found

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        return f"check that the tables of {work.world.name} are ready and that `subscriber run` is running"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        state = work.world.state()
        work.note(self.name, {"tables": len(state.tables)})
        return Outcome(f"{_tables(len(state.tables))} ready; {state.runner}")


def _target_refusals(state: TargetState) -> Iterator[Refusal]:
    name = state.subscription.name
    if state.subscription.slot_name is None:
        yield Refusal(
            f'subscription "{name}" has no slot',
            f"ALTER SUBSCRIPTION {quote_identifier(name)} SET (slot_name = …); {_AGAIN}.",
        )
    if not state.subscription.enabled:
        yield Refusal(
            f'subscription "{name}" is disabled', f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE; {_AGAIN}."
        )
    if not state.tables:
        yield Refusal(
            f'subscription "{name}" has no tables',
            f"{refresh_command(name)} {_AGAIN}.",
        )
    unready = [
        f'"{one.qualified_name}" (state {one.state.value}{", failed" if one.error else ""})'
        for one in state.tables
        if one.state is not RelationState.READY
    ]
    if unready:
        yield Refusal(
            f"{_tables(len(unready))} not ready",
            f"`subscriber status` shows their copies and errors. Wait, or put the errors right, {_AGAIN}.",
            tuple(unready),
        )
    if state.last_error is not None:
        yield Refusal(
            f'subscription "{name}" has an error that is not resolved',
            f"`subscriber status` shows it in full. Put it right, {_AGAIN}.",
            (state.last_error,),
        )
    if state.prepared:
        yield Refusal(
            "prepared transactions wait in the target",
            f"COMMIT PREPARED or ROLLBACK PREPARED at the publisher, {_AGAIN}.",
            tuple(state.prepared),
        )
    if state.runner is None:
        yield Refusal("no `subscriber run` is running for the target", f"Start `subscriber run --target …`, {_AGAIN}.")


def _publisher_refusals(work: Work, state: PublisherState, slot: str) -> Iterator[Refusal]:
    if state.is_standby:
        yield Refusal(
            "the publisher is a standby, where no barrier can be written",
            f"Name the primary: ALTER SUBSCRIPTION {work.name_in_sql} CONNECTION '…'; {_AGAIN}.",
        )
    if state.slot is None or state.slot.lost is not None:
        why = "does not exist" if state.slot is None else f"is lost: {state.slot.lost}"
        yield Refusal(
            f'replication slot "{slot}" {why}',
            f"Changes are lost. {_COPY_AGAIN}",
        )
    position = work.world.position()
    if position.last > state.flushed and not state.is_standby:
        # The publisher may have advanced since it was asked.
        newer = work.world.publisher_state()
        if position.last > newer.flushed:
            yield Refusal(
                f"the target is ahead of the publisher: it has {format_lsn(position.last)}, and the publisher is at"
                f" {format_lsn(newer.flushed)}",
                "The publisher was restored to an older state, or CONNECTION leads to another server. If CONNECTION is"
                f" wrong: ALTER SUBSCRIPTION {work.name_in_sql} CONNECTION '…'; {_AGAIN}. {_COPY_AGAIN}",
            )
    if position.received == INVALID_LSN:
        yield Refusal(
            "the journal cannot be read from here, so what was received is not known",
            "Run the command on the machine of `subscriber run`, with the same SUBSCRIBER_JOURNAL.",
        )


class Writes(Step):
    """The publisher's writes have stopped: by a fence, or by the operator."""

    name = "writes"
    title = "writes stopped"

    def check(self, work: Work) -> Sequence[Refusal]:
        """See :meth:`Step.check`."""
        if not work.options.fence:
            return ()
        return [Refusal(message, f"Run at the publisher: {fix}") for message, fix in work.world.fence_obstacles()]

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        writing = work.world.open_writes()
        now_open = f" (now {len(writing)}: {names_of(writing)})" if writing else " (now none)"
        if work.options.fence:
            database = work.world.publisher_state().database
            sessions = "end" if work.options.terminate else "wait for"
            return (
                f'fence database "{database}" (ALTER DATABASE … SET default_transaction_read_only = on), {sessions} the'
                f" sessions that began before, and wait for open transactions{now_open}"
            )
        return f"wait for open transactions{now_open} and until nothing of the publications is written for a while"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        if work.options.fence or work.fence is not None:
            self._fence(work)
        work.wait("stopping the writes", lambda: _is_quiet(work), lambda: _writers(work))
        fence = work.fence
        if fence is None:
            return Outcome("nothing of the publications was written between two barriers, and no transaction is open")
        return Outcome(
            f'database "{fence["database"]}" is read-only since {fence["since"]}; no transaction is open, and nothing came'
            " between two barriers"
        )

    @staticmethod
    def _fence(work: Work) -> None:
        kept = work.fence
        if kept is None:
            # Stored before it is set, so that --abandon can undo it in any case.
            former = work.world.own_setting()
            kept = {"database": work.world.publisher_state().database, "former": former, "since": None}
            work.remember("fence", kept)
        since = kept["since"]
        if since is not None and work.world.own_setting() != "on":
            since = None  # somebody has lifted it meanwhile, and sessions began without it
        raised = work.world.raise_fence(kept["former"])
        since = since or raised.since
        work.remember("fence", {**kept, "since": since})

        def sessions_ended() -> bool:
            left = work.world.unfenced_sessions(since)
            if left and work.options.terminate:
                work.world.end_sessions(left)
            return not left

        def sessions() -> list[str]:
            left = [f"{one.text}, which began before the fence" for one in work.world.unfenced_sessions(since)]
            return left if work.options.terminate else [*left, "--terminate would end them"] if left else []

        work.wait("closing the fence", sessions_ended, sessions)

    def undo(self, work: Work) -> Outcome | None:
        """See :meth:`Step.undo`."""
        fence = work.fence
        if fence is None:
            return None
        work.world.lift_fence(fence["former"])
        work.remember("fence", None)
        return Outcome(f'the fence around database "{fence["database"]}" is lifted')


def _is_quiet(work: Work) -> bool:
    if work.world.open_writes():
        return False
    first = work.world.barrier()
    work.sleep(QUIET_SECONDS if work.fence is None else FENCED_QUIET_SECONDS)
    second = work.world.barrier()
    work.drain(second)
    if work.came_after(first):
        return False
    work.quiet_from = first
    return True


def _writers(work: Work) -> list[str]:
    return work.world.open_writes() or [
        "transactions of the publications, which still come (with `subscriber run --on-message`, barriers count, too)"
    ]


class Barrier(Step):
    """A barrier is written and drained in the target."""

    name = "barrier"
    title = "barrier drained"

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        position = work.world.position()
        return f"write a barrier and wait until the target has it; the target has {format_lsn(position.reached)}"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        barrier = work.world.barrier()
        work.drain(barrier)
        if work.quiet_from is None or work.came_after(work.quiet_from):
            raise written_again(work)
        work.save(barrier=barrier)
        return Outcome(f"the target has everything up to {format_lsn(barrier)}")


def written_again(work: Work) -> UsageError:
    """The error if a transaction came although the writes had stopped."""
    hint = "Stop the application" + ("" if work.fence else ", or give --fence")
    return UsageError(
        "the publisher was written to after the writes had stopped",
        sqlstate="55000",
        hint=f"{hint}, {_AGAIN}: it does the steps again.",
    )


class Switch(Step):
    """The subscription is disabled; its slot is kept."""

    name = "switch"
    title = "switched over"

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        return f"disable subscription {work.world.name}; its slot is kept until --finish or --abandon"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        agreed = work.cutover.barrier
        assert agreed is not None  # the step before has stored it
        last = work.world.barrier()
        work.drain(last)
        if work.came_after(agreed):
            raise written_again(work)
        if work.cutover.options.get("reverse") is None:
            work.note("rows", work.world.count_rows())
        verified = work.cutover.findings.get("verify")
        if verified is not None and work.came_after(parse_lsn(verified["lsn"])):
            work.note("verify", None)  # of an earlier attempt: no proof for the switch
        work.save(enabled=False, state="switched", switched_at=now(), barrier=last)
        work.world.wake()
        released = work.world.slot_is_released()
        left = "" if released else "; its receiver has not ended yet, and ends when `subscriber run` reads the catalog"
        slot = work.world.state().subscription.slot_name
        return Outcome(f'the subscription is disabled at {format_lsn(last)}, its slot "{slot}" is kept{left}')

    def undo(self, work: Work) -> Outcome | None:
        """See :meth:`Step.undo`."""
        if work.cutover.state != "switched":
            return None
        work.save(enabled=True, state="running", switched_at=None)
        work.world.wake()
        return Outcome("the subscription is enabled again")


def _tables(number: int) -> str:
    return "1 table is" if number == 1 else f"{number:,} tables are"


def fence_left(work: Work) -> str | None:
    """What to say about a fence that stays; None if there is none."""
    fence = work.fence
    if fence is None:
        return None
    return (
        f"The fence stays. To lift it, run at the publisher: {lifting_statements(fence['database'], fence['former'])}"
    )
