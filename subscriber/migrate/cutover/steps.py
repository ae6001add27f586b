"""The steps of a cutover. Each *checks* and *plans* without changing anything, *does* its work,
which may be repeated, and *undoes* what the catalog's row says that it has done.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from typing_extensions import override

from subscriber.base import clock
from subscriber.base.errors import COPY_FROM_SCRATCH, UsageError
from subscriber.base.lsn import INVALID_LSN, format_lsn, parse_lsn
from subscriber.base.suggestions import perhaps
from subscriber.catalog.table_states import RelationState
from subscriber.commands.check_publications import refresh_command
from subscriber.commands.refresh_sequences import STEP_BACK, UnsetSequence
from subscriber.migrate.cutover.cutover_servers import MissingObject, PublisherState, TargetState
from subscriber.migrate.cutover.work import (
    ACCEPT,
    FENCED_QUIET_SECONDS,
    QUIET_SECONDS,
    StepOutcome,
    StepRefusal,
    Work,
    names_of,
)
from subscriber.migrate.schema.schema_object import KINDS
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.fence.read_only import lifting_statements
from subscriber.publisher.fence.reverse_replication import SetForward

_AGAIN: Final = "then run the command again"
_NAMED: Final = 3
"""How many objects a hint names."""
_COPY_AGAIN: Final = f"To copy everything again: {COPY_FROM_SCRATCH}"


class Step:
    """A step of a cutover: ``name`` in the catalog and in its failpoints, ``title`` for people."""

    name: str
    title: str

    def is_wanted(self, work: Work) -> bool:
        del work
        return True

    def check(self, work: Work) -> Sequence[StepRefusal]:
        """Why the step refuses, as far as that shows before anything is changed."""
        del work
        return ()

    def plan(self, work: Work) -> str:
        raise NotImplementedError

    def do(self, work: Work) -> StepOutcome:
        """Do it. It may have been done before, in whole or in part."""
        raise NotImplementedError

    def undo(self, work: Work) -> StepOutcome | None:
        """Undo it; returns what was undone, or None if there was nothing."""
        raise NotImplementedError


class Preconditions(Step):
    """No failed or unready table, the run is running, no error."""

    name = "preconditions"
    title = "preconditions"

    @override
    def check(self, work: Work) -> Sequence[StepRefusal]:
        state = work.servers.state()
        found = [*_target_refusals(state)]
        if state.subscription.slot_name is not None:
            found += _publisher_refusals(work, work.servers.publisher_state(), state.subscription.slot_name)
        return found

    @override
    def plan(self, work: Work) -> str:
        return f"check that the tables of {work.servers.name} are ready and that `subscriber run` is running"

    @override
    def do(self, work: Work) -> StepOutcome:
        state = work.servers.state()
        work.record(self.name, {"tables": len(state.tables)})
        return StepOutcome(f"{_tables(len(state.tables))} ready; {state.runner}")


def _target_refusals(state: TargetState) -> Iterator[StepRefusal]:
    name = state.subscription.name
    if state.subscription.slot_name is None:
        yield StepRefusal(
            f'subscription "{name}" has no slot',
            f"ALTER SUBSCRIPTION {quote_identifier(name)} SET (slot_name = {quote_identifier(name)}); {_AGAIN}.",
        )
    if not state.subscription.enabled:
        yield StepRefusal(
            f'subscription "{name}" is disabled', f"ALTER SUBSCRIPTION {quote_identifier(name)} ENABLE; {_AGAIN}."
        )
    if not state.tables:
        yield StepRefusal(
            f'subscription "{name}" has no tables',
            f"{refresh_command(name)} {_AGAIN}.",
        )
    unready = [
        f'"{one.qualified_name}" (state {one.state.value}{", failed" if one.error else ""})'
        for one in state.tables
        if one.state is not RelationState.READY
    ]
    if unready:
        yield StepRefusal(
            f"{_tables(len(unready))} not ready",
            f"`subscriber status` shows their copies and errors. Wait, or put the errors right, {_AGAIN}.",
            tuple(unready),
        )
    if state.last_error is not None:
        yield StepRefusal(
            f'subscription "{name}" has an error that is not resolved',
            f"`subscriber status` shows it in full. Put it right, {_AGAIN}.",
            (state.last_error,),
        )
    if state.prepared:
        yield StepRefusal(
            "prepared transactions wait in the target",
            f"COMMIT PREPARED or ROLLBACK PREPARED at the publisher, {_AGAIN}.",
            tuple(state.prepared),
        )
    if state.runner is None:
        yield StepRefusal(
            "no `subscriber run` is running for the target", f"Start `subscriber run --target …`, {_AGAIN}."
        )


def _publisher_refusals(work: Work, state: PublisherState, slot: str) -> Iterator[StepRefusal]:
    if state.is_standby:
        yield StepRefusal(
            "the publisher is a standby, where no barrier can be written",
            f"Name the primary: ALTER SUBSCRIPTION {work.name_in_sql} CONNECTION '…'; {_AGAIN}.",
        )
    if state.slot is None or state.slot.lost is not None:
        why = "does not exist" if state.slot is None else f"is lost: {state.slot.lost}"
        yield StepRefusal(
            f'replication slot "{slot}" {why}',
            f"Changes are lost. {_COPY_AGAIN}",
        )
    position = work.servers.position()
    if position.last > state.flushed and not state.is_standby:
        # The publisher may have advanced since it was asked.
        newer = work.servers.publisher_state()
        if position.last > newer.flushed:
            yield StepRefusal(
                f"the target is ahead of the publisher: it has {format_lsn(position.last)}, and the publisher is at"
                f" {format_lsn(newer.flushed)}",
                "The publisher was restored to an older state, or CONNECTION leads to another server. If CONNECTION is"
                f" wrong: ALTER SUBSCRIPTION {work.name_in_sql} CONNECTION '…'; {_AGAIN}. {_COPY_AGAIN}",
            )
    if position.received == INVALID_LSN:
        yield StepRefusal(
            "the journal cannot be read from here, so what was received is not known",
            "Run the command on the machine of `subscriber run`, with the same SUBSCRIBER_JOURNAL.",
        )


class Writes(Step):
    """The publisher's writes have stopped: by a fence, or by the operator."""

    name = "writes"
    title = "writes stopped"

    @override
    def check(self, work: Work) -> Sequence[StepRefusal]:
        if not work.options.fence:
            return ()
        return [StepRefusal(message, f"Run at the publisher: {fix}") for message, fix in work.servers.fence_obstacles()]

    @override
    def plan(self, work: Work) -> str:
        writing = work.servers.open_writes()
        now_open = f" (now {len(writing)}: {names_of(writing)})" if writing else " (now none)"
        if work.options.fence:
            database = work.servers.publisher_state().database
            sessions = "end" if work.options.terminate else "wait for"
            return (
                f'fence database "{database}" (ALTER DATABASE … SET default_transaction_read_only = on), {sessions} the'
                f" sessions that began before, and wait for open transactions{now_open}"
            )
        return f"wait for open transactions{now_open} and until nothing of the publications is written for a while"

    @override
    def do(self, work: Work) -> StepOutcome:
        if work.options.fence or work.fence is not None:
            self._fence(work)
        work.wait("stopping the writes", lambda: _is_quiet(work), lambda: _writers(work))
        fence = work.fence
        if fence is None:
            return StepOutcome(
                "nothing of the publications was written between two barriers, and no transaction is open"
            )
        return StepOutcome(
            f'database "{fence["database"]}" is read-only since {fence["since"]}; no transaction is open, and nothing came'
            " between two barriers"
        )

    @staticmethod
    def _fence(work: Work) -> None:
        kept = work.fence
        if kept is None:
            # Stored before it is set, so that --abandon can undo it in any case.
            former = work.servers.own_setting()
            kept = {"database": work.servers.publisher_state().database, "former": former, "since": None}
            work.remember("fence", kept)
        since = kept["since"]
        if since is not None and work.servers.own_setting() != "on":
            since = None  # somebody has lifted it meanwhile, and sessions began without it
        raised = work.servers.raise_fence(kept["former"])
        since = since or raised.since
        work.remember("fence", {**kept, "since": since})

        def sessions_ended() -> bool:
            left = work.servers.unfenced_sessions(since)
            if left and work.options.terminate:
                work.servers.end_sessions(left)
            return not left

        def sessions() -> list[str]:
            left = [f"{one.text}, which began before the fence" for one in work.servers.unfenced_sessions(since)]
            return left if work.options.terminate else [*left, "--terminate would end them"] if left else []

        work.wait("closing the fence", sessions_ended, sessions)

    @override
    def undo(self, work: Work) -> StepOutcome | None:
        fence = work.fence
        if fence is None:
            return None
        work.servers.lift_fence(fence["former"])
        work.remember("fence", None)
        return StepOutcome(f'the fence around database "{fence["database"]}" is lifted')


def _is_quiet(work: Work) -> bool:
    if work.servers.open_writes():
        return False
    first = work.servers.barrier()
    work.sleep(QUIET_SECONDS if work.fence is None else FENCED_QUIET_SECONDS)
    second = work.servers.barrier()
    work.drain(second)
    if work.came_after(first):
        return False
    work.quiet_from = first
    return True


def _writers(work: Work) -> list[str]:
    return work.servers.open_writes() or [
        "transactions of the publications, which still come (with `subscriber run --on-message`, barriers count, too)"
    ]


class Barrier(Step):
    name = "barrier"
    title = "barrier drained"

    @override
    def plan(self, work: Work) -> str:
        position = work.servers.position()
        return f"write a barrier and wait until the target has it; the target has {format_lsn(position.position)}"

    @override
    def do(self, work: Work) -> StepOutcome:
        barrier = work.servers.barrier()
        work.drain(barrier)
        if work.quiet_from is None or work.came_after(work.quiet_from):
            raise written_again(work)
        # The schema was compared before the writes stopped.
        new = work.servers.tables_outside()
        outside = [name for name in new if not work.options.accepts("table outside the subscription", name)]
        if outside:
            raise StepRefusal(
                "a published table is not part of the subscription",
                f"{refresh_command(work.servers.name)} Wait until it is ready, {_AGAIN}.",
                tuple(outside),
            ).error()
        work.save(barrier=barrier)
        return StepOutcome(f"the target has everything up to {format_lsn(barrier)}")


def written_again(work: Work) -> UsageError:
    hint = "Stop the application" + ("" if work.fence else ", or give --fence")
    return UsageError(
        "the publisher received new writes after the application was stopped",
        sqlstate="55000",
        hint=f"{hint}, {_AGAIN}: it does the steps again.",
    )


class SetSequences(Step):
    name = "sequences"
    title = "sequences set"

    @override
    def check(self, work: Work) -> Sequence[StepRefusal]:
        refused = _refused(work, work.servers.sequences_left_alone())
        return [_unset(refused)] if refused else []

    @override
    def plan(self, work: Work) -> str:
        return f"set the target's sequences and counters: ALTER SUBSCRIPTION {work.name_in_sql} REFRESH SEQUENCES"

    @override
    def do(self, work: Work) -> StepOutcome:
        left = tuple(work.servers.sequences_left_alone())
        notices = work.servers.refresh_sequences()
        lines = tuple(text.splitlines()[0] for text in notices)
        set_ones = sum(1 for line in lines if line.startswith("NOTICE:  sequence ") or line.endswith(STEP_BACK))
        work.record(self.name, {"messages": list(lines)})
        refused = _refused(work, left)
        if refused:
            raise _unset(refused).error()
        more = f"; accepted: {len(left)} not set" if left else ""
        return StepOutcome(f"{set_ones} set{more}", lines)


def _refused(work: Work, left: Sequence[UnsetSequence]) -> list[UnsetSequence]:
    return [one for one in left if not work.options.accepts("sequence", one.name)]


def _unset(left: Sequence[UnsetSequence]) -> StepRefusal:
    hints = dict.fromkeys(one.hint for one in left if one.hint is not None)
    put_right = " ".join(hints) if hints else "Put that right."
    return StepRefusal(
        "not every sequence can be set",
        f"{put_right} Then run the command again, {_or_accept([one.name for one in left])}.",
        tuple(one.text for one in left),
    )


class Schema(Step):
    """The constraints and indexes of the schema step are there."""

    name = "schema"
    title = "schema complete"

    @override
    def check(self, work: Work) -> Sequence[StepRefusal]:
        found = work.servers.missing_objects()
        missing = [one for one in found if not work.options.accepts(one.kind, one.name)]
        if not missing:
            return ()
        count = "1 object" if len(missing) == 1 else f"{len(missing)} objects"
        names = _or_accept([one.name for one in missing])
        hints = [*_what_builds(work, missing), f"Then run the command again, {names}."]
        hints += _misspelt(work, found)
        return [StepRefusal(f"the target lacks {count} of the publisher's schema", " ".join(hints), _texts(missing))]

    @override
    def plan(self, work: Work) -> str:
        missing = work.servers.missing_objects()
        return "find that nothing is missing" if not missing else f"accept what is missing: {names_of(_texts(missing))}"

    @override
    def do(self, work: Work) -> StepOutcome:
        missing = work.servers.missing_objects()
        work.record(self.name, {"missing": list(_texts(missing))})
        if missing:  # accepted, or check would have refused
            return StepOutcome(f"accepted: {len(missing)} missing", _texts(missing))
        return StepOutcome("the target has all that an application needs of the publisher's schema")


def _or_accept(names: Sequence[str]) -> str:
    """How the first of some objects are accepted, and that there are others."""
    written = " ".join(f"{ACCEPT} {shlex.quote(name)}" for name in names[:_NAMED])
    more = " … (a kind, such as `view`, accepts all of it)" if len(names) > _NAMED else ""
    return f"or accept that the target lacks this: {written}{more}"


def _misspelt(work: Work, missing: Sequence[MissingObject]) -> Iterator[str]:
    known = {*KINDS, *(one.name for one in work.servers.sequences_left_alone())}
    for one in missing:
        known |= {one.kind, one.name, f"{one.kind} {one.name}"}
    for name in work.options.accept_missing:
        if name not in known:
            meant = perhaps("name", name, sorted(known))
            yield f'Nothing that is missing has the name "{name}".' + (f" {meant}" if meant else "")


def _texts(missing: Sequence[MissingObject]) -> tuple[str, ...]:
    return tuple(one.text for one in missing)


def _what_builds(work: Work, missing: Sequence[MissingObject]) -> Iterator[str]:
    ways = {one.way for one in missing}
    name = work.name_in_shell
    if "refresh" in ways:
        command = f"subscriber sql -c {shlex.quote(refresh_command(work.servers.name))}"
        yield f"Run `{command}` and wait until the tables are ready, or drop them from the publications."
    if "schema apply" in ways:
        yield f"Run `subscriber schema apply --before {name}` and `subscriber schema apply --after {name}`."
    if "by hand" in ways:
        yield (
            f"`subscriber schema diff --ddl {name}` shows the publisher's definitions of what an application would miss:"
            " create it in the target, in the target's SQL."
        )
    if "schema diff" in ways:
        yield f"For a missing table or column, run the statements that `subscriber schema diff {name}` lists with it."


class Verify(Step):
    """Publisher and target are compared while nothing is written."""

    name = "verify"
    title = "verified"

    @override
    def is_wanted(self, work: Work) -> bool:
        return work.options.verify

    @override
    def plan(self, work: Work) -> str:
        return f"compare all tables: subscriber verify {work.name_in_shell}"

    @override
    def do(self, work: Work) -> StepOutcome:
        kept = work.cutover.findings.get(self.name)
        if kept is not None and kept["is_equal"] and not work.came_after(parse_lsn(kept["lsn"])):
            return StepOutcome(f"equal at {kept['lsn']}, as found before; nothing came since", was_done=False)
        result = work.servers.verify(work.options.timeout)
        text = format_lsn(result.lsn)
        work.record(self.name, {"is_equal": result.is_equal, "lsn": text, "report": dict(result.report)})
        if not result.is_equal:
            raise StepRefusal(
                f"publisher and target differ at {text}",
                f"`subscriber verify {work.name_in_shell} --repair` puts that right; then run the command again.",
                tuple(result.differing),
            ).error()
        return StepOutcome(f"equal at {text}", result.notes)


class Reverse(Step):
    """The way back is prepared: publication and slot before the target's first write."""

    name = "reverse"
    title = "way back prepared"

    @override
    def is_wanted(self, work: Work) -> bool:
        return work.options.reverse

    @override
    def check(self, work: Work) -> Sequence[StepRefusal]:
        if not work.servers.has_way_back() or "reverse" in work.cutover.options:
            return ()  # what was made already takes the slot that it needs
        conninfo = work.options.reverse_connection
        return [StepRefusal(message, hint) for message, hint in work.servers.reverse_obstacles(conninfo)]

    @override
    def plan(self, work: Work) -> str:
        if not work.servers.has_way_back():
            return no_way_back(work)
        return (
            f'make publication and slot "{work.servers.reverse_name()}" on the target, and a subscription of that name at'
            " the old publisher"
        )

    @override
    def do(self, work: Work) -> StepOutcome:
        if not work.servers.has_way_back():
            return StepOutcome(no_way_back(work), was_done=False)
        name = work.servers.reverse_name()
        work.remember("reverse", {"name": name})  # before anything is made, so that it is dropped
        work.servers.prepare_reverse(name, work.options.reverse_connection)
        return StepOutcome(f'subscription "{name}" at the old publisher gets what is written to the target from now on')

    @override
    def undo(self, work: Work) -> StepOutcome | None:
        """First the old publisher gets what the application has written. There it is WAL, which the
        subscription would apply again, so it leaves out what has an origin.
        """
        kept = work.cutover.options.get("reverse")
        if kept is None:
            return None
        name = kept["name"]
        sequences, back = self._bring_back(work, name)
        changed = back and work.servers.leave_out_origins()
        work.servers.drop_reverse(name)
        work.remember(self.name, None)
        text = f'publication, slot and subscription "{name}" are dropped'
        if back and not work.options.discard_writes:
            text += "; what was written to the target is at the old publisher"
        if changed:
            text += (
                f". The subscription now has origin = none, so that this is not sent again. When its slot is past"
                f" it, you may run: ALTER SUBSCRIPTION {work.name_in_sql} SET (origin = any);"
            )
        return StepOutcome(text, (*sequences.done, *(f"WARNING:  {line}" for line in sequences.left)))

    @staticmethod
    def _bring_back(work: Work, name: str) -> tuple[SetForward, bool]:
        """What was done to the old publisher's sequences; whether anything may have come back."""
        if work.cutover.state != "switched":
            return SetForward(), work.servers.came_back(name)
        stands = work.servers.way_back_stands(name)
        if stands and not work.options.discard_writes:
            work.wait(
                "bringing back what was written to the target",
                lambda: work.servers.reverse_drained(name),
                lambda: [f'subscription "{name}" at the old publisher, whose server\'s log tells its errors'],
            )
        return work.servers.set_publisher_sequences(), not stands or work.servers.came_back(name)


def no_way_back(work: Work) -> str:
    return f"there is no way back from {work.servers.target_kind}: only a PostgreSQL target can publish what is written to it"


class Switch(Step):
    name = "switch"
    title = "switched over"

    @override
    def plan(self, work: Work) -> str:
        return f"disable subscription {work.servers.name}; its slot is kept until --finish or --abandon"

    @override
    def do(self, work: Work) -> StepOutcome:
        agreed = work.cutover.barrier
        assert agreed is not None  # the step before has stored it
        last = work.servers.barrier()
        work.drain(last)
        if work.came_after(agreed):
            raise written_again(work)
        if work.cutover.options.get("reverse") is None:
            work.record("rows", work.servers.count_rows())
        verified = work.cutover.findings.get("verify")
        if verified is not None and work.came_after(parse_lsn(verified["lsn"])):
            work.record("verify", None)  # of an earlier attempt: no proof for the switch
        work.save(enabled=False, state="switched", switched_at=clock.now(), barrier=last)
        work.servers.wake()
        released = work.servers.slot_is_released()
        left = "" if released else "; its receiver has not ended yet, and ends when `subscriber run` reads the catalog"
        slot = work.servers.state().subscription.slot_name
        return StepOutcome(f'the subscription is disabled at {format_lsn(last)}, its slot "{slot}" is kept{left}')

    @override
    def undo(self, work: Work) -> StepOutcome | None:
        if work.cutover.state != "switched":
            return None
        work.save(enabled=True, state="running", switched_at=None)
        work.servers.wake()
        return StepOutcome("the subscription is enabled again")


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
