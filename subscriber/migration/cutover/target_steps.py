"""The steps of a cutover that concern the target: sequences, schema, verify, and the way back."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.commands.refresh_sequences import STEP_BACK, UnsetSequence
from subscriber.commands.unknown_tables import refresh_command
from subscriber.lsn import format_lsn, parse_lsn
from subscriber.migration.cutover.steps import Step
from subscriber.migration.cutover.work import Outcome, Refusal, Work, names_of
from subscriber.migration.cutover.world import MissingObject
from subscriber.publisher.reverse_sequences import SetForward

_ACCEPT: Final = "or accept that with --accept-missing"


class Sequences(Step):
    """Sequences and auto-increments are set."""

    name = "sequences"
    title = "sequences set"

    def check(self, work: Work) -> Sequence[Refusal]:
        """See :meth:`Step.check`."""
        left = work.world.sequences_left_alone()
        return [_unset(left)] if left and not work.options.accept_missing else []

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        return f"set the target's sequences and counters: ALTER SUBSCRIPTION {work.name_in_sql} REFRESH SEQUENCES"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        left = tuple(work.world.sequences_left_alone())
        said = work.world.refresh_sequences()
        lines = tuple(text.splitlines()[0] for text in said)
        set_ones = sum(1 for line in lines if line.startswith("NOTICE:  sequence ") or line.endswith(STEP_BACK))
        work.note(self.name, {"messages": list(lines)})
        if left and not work.options.accept_missing:
            raise _unset(left).error()
        more = f"; accepted: {len(left)} not set" if left else ""
        return Outcome(f"{set_ones} set{more}", lines)


def _unset(left: Sequence[UnsetSequence]) -> Refusal:
    hints = dict.fromkeys(one.hint for one in left if one.hint is not None)
    put_right = " ".join(hints) if hints else "Put that right."
    return Refusal(
        "not every sequence can be set",
        f"{put_right} Then run the command again, {_ACCEPT}.",
        tuple(one.text for one in left),
    )


class Schema(Step):
    """The constraints and indexes of the schema step are there."""

    name = "schema"
    title = "schema complete"

    def check(self, work: Work) -> Sequence[Refusal]:
        """See :meth:`Step.check`."""
        missing = work.world.missing_objects()
        if not missing or work.options.accept_missing:
            return ()
        count = "1 object" if len(missing) == 1 else f"{len(missing)} objects"
        return [
            Refusal(
                f"the target lacks {count} of the publisher's schema",
                f"{' '.join(_what_builds(work, missing))} Then run the command again, {_ACCEPT}.",
                _texts(missing),
            )
        ]

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        missing = work.world.missing_objects()
        return "find that nothing is missing" if not missing else f"accept what is missing: {names_of(_texts(missing))}"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        missing = work.world.missing_objects()
        work.note(self.name, {"missing": list(_texts(missing))})
        if missing:  # accepted, or check would have refused
            return Outcome(f"accepted: {len(missing)} missing", _texts(missing))
        return Outcome("the target has all that `subscriber schema apply` can build")


def _texts(missing: Sequence[MissingObject]) -> tuple[str, ...]:
    return tuple(one.text for one in missing)


def _what_builds(work: Work, missing: Sequence[MissingObject]) -> Iterator[str]:
    """What to run for the missing objects, in this order."""
    ways = {one.way for one in missing}
    name = work.name_in_shell
    if "refresh" in ways:
        command = f"subscriber sql -c {shlex.quote(refresh_command(work.world.name))}"
        yield f"Run `{command}` and wait until the tables are ready, or drop them from the publications."
    if "schema apply" in ways:
        yield f"Run `subscriber schema apply --before {name}` and `subscriber schema apply --after {name}`."
    if "schema diff" in ways:
        yield f"For a missing table or column, run the statements that `subscriber schema diff {name}` lists with it."


class Verify(Step):
    """Publisher and target are compared while nothing is written."""

    name = "verify"
    title = "verified"

    def is_wanted(self, work: Work) -> bool:
        """See :meth:`Step.is_wanted`."""
        return work.options.verify

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        return f"compare all tables: subscriber verify {work.name_in_shell}"

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        kept = work.cutover.findings.get(self.name)
        if kept is not None and kept["is_equal"] and not work.came_after(parse_lsn(kept["lsn"])):
            return Outcome(f"equal at {kept['lsn']}, as found before; nothing came since", was_done=False)
        result = work.world.verify(work.options.timeout)
        text = format_lsn(result.lsn)
        work.note(self.name, {"is_equal": result.is_equal, "lsn": text, "report": dict(result.report)})
        if not result.is_equal:
            raise Refusal(
                f"publisher and target differ at {text}",
                f"`subscriber verify {work.name_in_shell} --repair` puts that right; then run the command again.",
                tuple(result.differing),
            ).error()
        return Outcome(f"equal at {text}", result.notes)


class Reverse(Step):
    """The way back is prepared: publication and slot before the target's first write."""

    name = "reverse"
    title = "way back prepared"

    def is_wanted(self, work: Work) -> bool:
        """See :meth:`Step.is_wanted`."""
        return work.options.reverse

    def check(self, work: Work) -> Sequence[Refusal]:
        """See :meth:`Step.check`."""
        if not work.world.has_way_back() or "reverse" in work.cutover.options:
            return ()  # what was made already takes the slot that it needs
        conninfo = work.options.reverse_connection
        return [Refusal(message, hint) for message, hint in work.world.reverse_obstacles(conninfo)]

    def plan(self, work: Work) -> str:
        """See :meth:`Step.plan`."""
        if not work.world.has_way_back():
            return no_way_back(work)
        return (
            f'make publication and slot "{work.world.reverse_name()}" on the target, and a subscription of that name at'
            " the old publisher"
        )

    def do(self, work: Work) -> Outcome:
        """See :meth:`Step.do`."""
        if not work.world.has_way_back():
            return Outcome(no_way_back(work), was_done=False)
        name = work.world.reverse_name()
        work.remember("reverse", {"name": name})  # before anything is made, so that it is dropped
        work.world.prepare_reverse(name, work.options.reverse_connection)
        return Outcome(f'subscription "{name}" at the old publisher gets what is written to the target from now on')

    def undo(self, work: Work) -> Outcome | None:
        """See :meth:`Step.undo`.

        What the application has written to the target is at the old publisher before the way back
        is dropped. There it is WAL, which the subscription would get: so that it is not applied a
        second time, the subscription leaves out what has an origin. The old publisher's sequences
        are set forward, so that they do not make keys again that the application got in the target.
        """
        kept = work.cutover.options.get("reverse")
        if kept is None:
            return None
        name = kept["name"]
        sequences, back = self._bring_back(work, name)
        changed = back and work.world.leave_out_origins()
        work.world.drop_reverse(name)
        work.remember(self.name, None)
        text = f'publication, slot and subscription "{name}" are dropped'
        if back and not work.options.discard_writes:
            text += "; what was written to the target is at the old publisher"
        if changed:
            text += (
                f". The subscription now has origin = none, so that this is not sent again. When its slot is past"
                f" it, you may run: ALTER SUBSCRIPTION {work.name_in_sql} SET (origin = any);"
            )
        return Outcome(text, (*sequences.done, *(f"WARNING:  {line}" for line in sequences.left)))

    @staticmethod
    def _bring_back(work: Work, name: str) -> tuple[SetForward, bool]:
        """Wait until the old publisher has everything; returns what was done to its sequences, and
        whether anything may have come back.
        """
        if work.cutover.state != "switched":
            return SetForward(), work.world.came_back(name)
        stands = work.world.way_back_stands(name)
        if stands and not work.options.discard_writes:
            work.wait(
                "bringing back what was written to the target",
                lambda: work.world.reverse_drained(name),
                lambda: [f'subscription "{name}" at the old publisher, whose server\'s log tells its errors'],
            )
        return work.world.set_publisher_sequences(), not stands or work.world.came_back(name)


def no_way_back(work: Work) -> str:
    """The sentence for a target that has none."""
    return f"there is no way back from {work.world.target_kind}: only a PostgreSQL target can publish what is written to it"
