"""Carries out, rehearses, abandons and finishes a cutover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from subscriber.base import clock, failpoints
from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.lsn import format_lsn
from subscriber.base.progress_lines import progress
from subscriber.catalog.cutovers import Cutover
from subscriber.migrate.cutover import steps
from subscriber.migrate.cutover.cutover_report import CutoverReport, StepResult, StepStatus
from subscriber.migrate.cutover.cutover_servers import VerifyResult
from subscriber.migrate.cutover.work import StepOutcome, StepRefusal, Work
from subscriber.publisher.fence.reverse_replication import dropping_statements

STEPS: Final[tuple[steps.Step, ...]] = (
    steps.Preconditions(),
    steps.Schema(),  # takes long with many tables, so it is done before the writes stop
    steps.Writes(),
    steps.Barrier(),
    steps.SetSequences(),
    steps.Verify(),
    steps.Reverse(),
    steps.Switch(),
)
_UNDONE: Final[tuple[steps.Step, ...]] = (steps.Reverse(), steps.Switch(), steps.Writes())
"""The way back must bring everything back before the subscription is enabled; writers come last."""

OnStep = Callable[[StepResult], None]


def run_cutover(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Carry out or go on with a cutover; a failure undoes nothing. UsageError 55000: it has
    switched over without a step that the options ask for.
    """
    report.options = work.options.as_json()
    try:
        if work.cutover.state == "switched":
            _check_part_of_switch(work)
            report.notes += ["The subscription is switched over already.", *_ways_on(work)]
            return
        if work.cutover.has_effects:
            work.notify("the cutover that has stopped goes on; its steps are done again")
        _check_all(work, report, on_step)
        work.ask(work.options)
        for step in STEPS:
            _carry_out(step, work, report, on_step)
        report.notes += _ways_on(work)
    except BaseException:
        report.notes += _ways_on(work)
        raise
    finally:
        _end(work, report)


def rehearse(work: Work, report: CutoverReport, on_step: OnStep) -> bool:
    """Say what each step would do, and change nothing. Returns whether no step would refuse."""
    report.options = work.options.as_json()
    if work.cutover.is_held:
        report.notes.append(f"Another command carries out the cutover now, in step {_step(work)}.")
    if work.cutover.state == "switched":
        report.notes += ["The subscription is switched over already.", *_ways_on(work)]
        _end(work, report)
        _check_part_of_switch(work)
        return True
    for step in STEPS:
        begun = time.monotonic()
        if not step.is_wanted(work):
            continue
        try:
            refusals = step.check(work)
            text = step.plan(work) if not refusals else "; ".join(one.message for one in refusals)
        except SubscriberError as error:
            reasons = tuple(text for text in (error.detail, f"→ {error.hint}" if error.hint else None) if text)
            seconds = time.monotonic() - begun
            result = StepResult(step.name, step.title, "would refuse", seconds, error.message, reasons)
        else:
            details = tuple(f"{one.message}: {'; '.join(one.details)}" for one in refusals if one.details)
            hints = tuple(f"→ {one.hint}" for one in refusals)
            status: StepStatus = "would refuse" if refusals else "would do"
            result = StepResult(step.name, step.title, status, time.monotonic() - begun, text, details + hints)
        report.steps.append(result)
        on_step(result)
    _end(work, report)
    return all(one.status == "would do" for one in report.steps)


def abandon(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Restore the state before the cutover. UsageError 55000: the target was written to."""
    work.goes_back = True
    undoing = False
    try:
        begun = time.monotonic()
        unwritten = check_unwritten(work)
        if unwritten is not None:
            status: StepStatus = "done" if unwritten.was_done else "skipped"
            seconds = time.monotonic() - begun
            result = StepResult("unwritten", "target unwritten", status, seconds, unwritten.text, unwritten.details)
            report.steps.append(result)
            on_step(result)
        undoing = True
        for step in _UNDONE:
            begun = time.monotonic()
            failpoints.hit("cutover.undo.before")
            undone = step.undo(work)
            failpoints.hit("cutover.undo.after")
            if undone is not None:
                seconds = time.monotonic() - begun
                result = StepResult(step.name, step.title, "undone", seconds, undone.text, undone.details)
                report.steps.append(result)
                on_step(result)
        work.save(state="abandoned", abandoned_at=clock.now(), barrier=None)
        report.notes.append(
            "The state before the cutover is restored. Sequences of the target keep their values, which does no harm."
        )
        if unwritten is not None and not unwritten.was_done:
            report.notes.append(
                "Rows that the application has written to the target are still there. `subscriber verify"
                f" {work.name_in_shell} --repair` makes them those of the publisher."
            )
    except BaseException:
        if undoing:
            report.notes.append(f"What is left is undone by the same command: {_command(work, '--abandon')}")
        else:
            report.notes.append("Nothing was undone. The application may write to the target as before.")
        raise
    finally:
        _end(work, report)


def finish(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Drop the subscription with its slot. UsageError 55000: it has not switched over."""
    if work.cutover.state != "switched":
        raise UsageError(
            f'subscription "{work.servers.name}" has not been switched over',
            sqlstate="55000",
            hint=f"Finish the steps first: {_command(work)}, or go back: {_command(work, '--abandon')}",
        )
    begun = time.monotonic()
    try:
        failpoints.hit("cutover.finish.before")
        notices = work.servers.drop_subscription()
        failpoints.hit("cutover.finish.after")
        text = f"subscription {work.servers.name} and its slot are dropped"
        result = StepResult("finish", "finished", "done", time.monotonic() - begun, text, tuple(notices))
        report.steps.append(result)
        on_step(result)
        report.notes += _left_after_finish(work)
        report.state = "finished"
    except BaseException:
        report.notes.append(f"The cutover is not finished. Run it again: {_command(work, '--finish')}")
        raise
    finally:
        state = report.state
        _end(work, report)
        report.state = state or report.state


def new_cutover(subid: int) -> Cutover:
    """The cutover that a dry run works with; it is stored nowhere."""
    return Cutover(subid, "running", "", clock.now())


def _check_part_of_switch(work: Work) -> None:
    """Refuse a command for a step that a finished switch was made without: it would seem done."""
    verified = work.cutover.findings.get("verify")
    done = {
        "--fence": work.fence is not None,
        "--verify": verified is not None and verified["is_equal"],
        "--reverse": "reverse" in work.cutover.options or not work.servers.has_way_back(),
    }
    missing = [word for word in work.options.words if not done.get(word, True)]
    if missing:
        raise UsageError(
            f'subscription "{work.servers.name}" was switched over without {", ".join(missing)}',
            sqlstate="55000",
            hint=f"Stay: {_command(work, '--finish')}, or go back and begin again: {_command(work, '--abandon')}",
        )


def _check_all(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Check every step before one changes anything: from then on the application stands still."""
    work.save(step=STEPS[0].name)
    refused: list[StepRefusal] = []
    for step in STEPS:
        begun = time.monotonic()
        progress(f"checking beforehand: {step.title}")
        try:
            refusals = step.check(work) if step.is_wanted(work) else ()
        except BaseException as error:
            message = error.message if isinstance(error, SubscriberError) else "the command was interrupted"
            _record(
                step, begun, "failed" if isinstance(error, SubscriberError) else "interrupted", message, report, on_step
            )
            raise
        for refusal in refusals:
            _record(step, begun, "refused", refusal.message, report, on_step, (*refusal.details, f"→ {refusal.hint}"))
        refused += refusals
    if refused:
        raise refused[0].error()


def _record(
    step: steps.Step,
    begun: float,
    status: StepStatus,
    text: str,
    report: CutoverReport,
    on_step: OnStep,
    details: Sequence[str] = (),
) -> None:
    result = StepResult(step.name, step.title, status, time.monotonic() - begun, text, tuple(details))
    report.steps.append(result)
    on_step(result)


def _carry_out(step: steps.Step, work: Work, report: CutoverReport, on_step: OnStep) -> None:
    if not step.is_wanted(work):
        return
    begun = time.monotonic()
    progress(f"step: {step.title}")

    def ended(status: StepStatus, text: str, details: Sequence[str] = ()) -> None:
        _record(step, begun, status, text, report, on_step, details)

    try:
        work.save(step=step.name)
        refusals = step.check(work)
        if refusals:
            raise refusals[0].error()
        failpoints.hit(f"cutover.{step.name}.before")
        outcome = step.do(work)
        failpoints.hit(f"cutover.{step.name}.after")
    except SubscriberError as error:
        status: StepStatus = "refused" if error.sqlstate == "55000" else "failed"
        ended(status, error.message, [text for text in (error.detail,) if text])
        raise
    except BaseException:
        ended("interrupted", "the command was interrupted")
        raise
    ended("done" if outcome.was_done else "skipped", outcome.text, outcome.details)


def _ways_on(work: Work) -> Iterator[str]:
    fence = steps.fence_left(work)
    if work.cutover.state == "switched":
        yield (
            "The application may write to the target now. When it does and all is well, drop the subscription and its"
            f" slot: {_command(work, '--finish')}"
        )
        yield f"Until then the publisher keeps its WAL, and this goes back: {_command(work, '--abandon')}"
    elif not work.cutover.has_effects:
        yield f"Nothing was changed. To begin again: {work.command}"
    else:
        yield f"The cutover has stopped in step {_step(work)}. The same command goes on: {work.command}"
        yield f"To restore the state before: {_command(work, '--abandon')}"
    if fence is not None:
        yield fence


def _left_after_finish(work: Work) -> Iterator[str]:
    fence = steps.fence_left(work)
    if fence is not None:
        yield fence
    reverse = work.cutover.options.get("reverse")
    if reverse is not None:
        old, new = dropping_statements(reverse["name"])
        yield f"The way back stays. To end it, run at the old publisher: {old} and then at the target: {new}"


def _end(work: Work, report: CutoverReport) -> None:
    report.ended_at = clock.now()
    report.state = work.cutover.state
    if report.state == "running" and not work.cutover.has_effects:
        report.state = "not begun"
    report.barrier = None if work.cutover.barrier is None else format_lsn(work.cutover.barrier)
    report.findings = dict(work.cutover.findings)


def _step(work: Work) -> str:
    return work.cutover.step or STEPS[0].name


def _command(work: Work, option: str = "") -> str:
    return f"subscriber cutover {work.name_in_shell} {option}".rstrip()


_ANSWERED: Final = "The subscription is still disabled, and nothing was undone."


def check_unwritten(work: Work) -> StepOutcome | None:
    """Refuse to abandon a switch (55000) if what the application has written to the target would be
    lost, or that cannot be known. Nothing is compared while a way back stands.
    """
    if work.cutover.state != "switched":
        return None
    if work.options.discard_writes:
        return StepOutcome("not looked at; what the application has written to the target stays there", was_done=False)
    reverse = work.cutover.options.get("reverse")
    if reverse is not None:
        if work.servers.way_back_stands(reverse["name"]):
            return None
        work.notify(f'the way back "{reverse["name"]}" was dropped, and what it did not bring back is not known')
    else:
        _check_counts(work)
    work.notify("all tables are compared, as `subscriber verify` does; with --discard-writes they are not")
    result = work.servers.verify_at_rest(work.options.timeout)
    if not result.is_equal:
        raise _refusal(work, result)
    return StepOutcome(
        f"publisher and target are equal at {format_lsn(result.lsn)}; tables that the subscription does not have were"
        " not looked at",
        result.notes,
    )


def _check_counts(work: Work) -> None:
    """Refuse without a comparison if a table has more or fewer rows than at the switch."""
    before = work.cutover.findings.get("rows")
    if before is None:
        return
    counts = work.servers.count_rows()
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
    if work.servers.published_after(barrier):
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
