"""Whether the application has written to the target since the switch, before that is abandoned.

::

    rows of each table counted ──differ──▶ refused at once
           │ the same
    publisher ══ target? ──equal──▶ nothing would be lost
           │ different
    published after the barrier? ──yes──▶ refused: either side may have changed
           │ no
    equal at the switch (--verify)? ──yes──▶ refused: the application has written
           └─────────────no──▶ refused: it has written, or the rows differed before

Equal rows are proof, whoever has written. A difference is proof of a write in the target only if
the publisher was at rest and both were equal before. In every other case the command refuses and
says what it cannot know; ``--discard-writes`` goes back nevertheless, without a comparison.

What this cannot know: writes to tables that the subscription does not have, values of sequences,
and columns that verify leaves out, which it names.

*Rejected:* statistics and change counters of the target's server. They are late, count rolled back
writes, and the catalog of this program is in the same database. *Rejected:* triggers on the
application's tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from subscriber.errors import UsageError
from subscriber.lsn import format_lsn
from subscriber.migration.cutover.work import Outcome, Work
from subscriber.migration.cutover.world import VerifyResult

_ANSWERED: Final = "The subscription is still disabled, and nothing was undone."


def check_unwritten(work: Work) -> Outcome | None:
    """Refuse to abandon a switch if what the application has written to the target would be lost.

    With a way back nothing is lost, so nothing is compared, unless somebody has dropped it.

    Returns:
        What was found; None if there was nothing to compare.

    Raises:
        UsageError: 55000, the target was written to, or that cannot be known.
        SubscriberError: publisher or target cannot be read.
    """
    if work.cutover.state != "switched":
        return None
    if work.options.discard_writes:
        return Outcome("not looked at; what the application has written to the target stays there", was_done=False)
    reverse = work.cutover.options.get("reverse")
    if reverse is not None:
        if work.world.way_back_stands(reverse["name"]):
            return None
        work.tell(f'the way back "{reverse["name"]}" was dropped, and what it did not bring back is not known')
    else:
        _check_counts(work)
    work.tell("all tables are compared, as `subscriber verify` does; with --discard-writes they are not")
    result = work.world.verify_at_rest(work.options.timeout)
    if not result.is_equal:
        raise _refusal(work, result)
    return Outcome(
        f"publisher and target are equal at {format_lsn(result.lsn)}; tables that the subscription does not have were"
        " not looked at",
        result.notes,
    )


def _check_counts(work: Work) -> None:
    """Refuse without a comparison if a table has more or fewer rows than at the switch."""
    before = work.cutover.findings.get("rows")
    if before is None:
        return
    counts = work.world.count_rows()
    changed = [
        f'"{name}" had {before[name]:,} rows and has {counts[name]:,}'
        for name in sorted(before)
        if name in counts and counts[name] != before[name]
    ]
    if changed:
        raise _written(work, changed)


def _refusal(work: Work, result: VerifyResult) -> UsageError:
    barrier = work.cutover.barrier
    assert barrier is not None  # the switch has stored it
    if work.world.published_after(barrier):
        return _unclear(
            work,
            result,
            "the publisher was written to since the switch, so it cannot be known which side has changed",
        )
    verified = work.cutover.findings.get("verify")
    if verified is None or not verified["is_equal"]:
        return _unclear(
            work,
            result,
            "the cutover was made without --verify, so it cannot be known whether they differed before the application"
            " wrote",
        )
    return _written(work, result.differing)


def _written(work: Work, details: Sequence[str]) -> UsageError:
    return UsageError(
        "the application has written to the target since the switch",
        sqlstate="55000",
        detail=_shortened(details),
        hint=f"Abandoning would leave these changes out of the old database. {_ways(work)}",
    )


def _unclear(work: Work, result: VerifyResult, why: str) -> UsageError:
    return UsageError(
        f"publisher and target differ, and {why}",
        sqlstate="55000",
        detail=_shortened(result.differing),
        hint=f"If it was the application in the target, abandoning would leave that out of the old database. {_ways(work)}",
    )


def _ways(work: Work) -> str:
    command = f"subscriber cutover {work.name_in_shell}"
    return (
        f"{_ANSWERED} Carry the changes over and undo them in the target, then run the command again; or give them up:"
        f" {command} --abandon --discard-writes; or stay: {command} --finish."
    )


def _shortened(details: Sequence[str]) -> str:
    more = f"; and {len(details) - 5} more" if len(details) > 5 else ""
    return "; ".join(details[:5]) + more
