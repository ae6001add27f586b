"""Carries out, rehearses, abandons and finishes a cutover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from subscriber import failpoints
from subscriber.catalog.cutovers import Cutover, now
from subscriber.errors import SubscriberError, UsageError
from subscriber.lsn import format_lsn
from subscriber.migration.cutover.steps import Barrier, Preconditions, Step, Switch, Writes, fence_left
from subscriber.migration.cutover.target_steps import Reverse, Schema, Sequences, Verify
from subscriber.migration.cutover.unwritten import check_unwritten
from subscriber.migration.cutover.work import CutoverOptions, Refusal, Work
from subscriber.migration.cutover.world import World
from subscriber.publisher.reverse_replication import dropping_statements

STEPS: Final[tuple[Step, ...]] = (
    Preconditions(),
    Writes(),
    Barrier(),
    Sequences(),
    Schema(),
    Verify(),
    Reverse(),
    Switch(),
)
_UNDONE: Final[tuple[Step, ...]] = (Reverse(), Switch(), Writes())
"""The steps that are undone, in this order: the way back brings everything back before the
subscription is enabled, and writers come in last.
"""

StepStatus = Literal["done", "skipped", "refused", "failed", "interrupted", "would do", "would refuse", "undone"]


@dataclass(slots=True)
class StepResult:
    """How a step has ended.

    Attributes:
        name: the step.
        title: its name for people.
        status: how it has ended.
        seconds: how long it took.
        text: what was done, or why not.
        details: further lines.
    """

    name: str
    title: str
    status: StepStatus
    seconds: float
    text: str
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class CutoverReport:
    """What a command has done; it holds no row values and no passwords.

    Attributes:
        command: cutover, dry run, abandon or finish.
        subscription: the subscription's name.
        publisher: the publisher, without its password.
        target: the target, without its password.
        options: the options of the command.
        begun_at: when the command began (UTC, ISO 8601).
        ended_at: when it ended.
        state: the state of the cutover at the end; ``not begun`` if nothing was changed.
        barrier: the barrier that the target has.
        steps: the steps in their order.
        error: the error that ended the command.
        notes: what to do next.
        findings: what the steps have found, by step.
    """

    command: Literal["cutover", "dry run", "abandon", "finish"]
    subscription: str
    publisher: str
    target: str
    options: dict[str, object] = field(default_factory=dict)
    begun_at: str = ""
    ended_at: str = ""
    state: str = ""
    barrier: str | None = None
    steps: list[StepResult] = field(default_factory=list)
    error: str | None = None
    notes: list[str] = field(default_factory=list)
    findings: dict[str, object] = field(default_factory=dict)


OnStep = Callable[[StepResult], None]


def new_report(world: World, command: Literal["cutover", "dry run", "abandon", "finish"]) -> CutoverReport:
    """A report of a command that begins now."""
    return CutoverReport(command, world.name, world.publisher_place, world.target_place, begun_at=now())


def run_cutover(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Carry out a cutover, or go on with one that was interrupted.

    Args:
        work: the cutover, which this command holds.
        report: is filled in, also if a step fails.
        on_step: called after each step.

    Raises:
        UsageError: 55000, it has switched over without a step that the options ask for.
        SubscriberError: a step refuses or fails. What was done stays done.
    """
    report.options = work.options.as_json()
    try:
        if work.cutover.state == "switched":
            _check_part_of_switch(work)
            report.notes += ["The subscription is switched over already.", *_ways_on(work)]
            return
        if work.cutover.has_effects:
            work.tell("the cutover that has stopped goes on; its steps are done again")
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
    """Say what each step would do and whether it would refuse; nothing is changed.

    Returns:
        Whether no step would refuse, as far as that shows beforehand.

    Raises:
        UsageError: 55000, the cutover has switched over without a step that the options ask for.
    """
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
            said = tuple(text for text in (error.detail, f"→ {error.hint}" if error.hint else None) if text)
            seconds = time.monotonic() - begun
            result = StepResult(step.name, step.title, "would refuse", seconds, error.message, said)
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
    """Restore the state before the cutover.

    Raises:
        UsageError: 55000, the application has written to the target.
        SubscriberError: a step cannot be undone; the command may be given again.
    """
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
        work.save(state="abandoned", abandoned_at=now(), barrier=None)
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
    """Drop the subscription with its slot. Nothing else is undone.

    Raises:
        UsageError: 55000, the cutover has not switched over.
        SubscriberError: the slot cannot be dropped; the subscription is as it was.
    """
    if work.cutover.state != "switched":
        raise UsageError(
            f'subscription "{work.world.name}" has not been switched over',
            sqlstate="55000",
            hint=f"Finish the steps first: {_command(work)}, or go back: {_command(work, '--abandon')}",
        )
    begun = time.monotonic()
    try:
        failpoints.hit("cutover.finish.before")
        said = work.world.drop_subscription()
        failpoints.hit("cutover.finish.after")
        text = f"subscription {work.world.name} and its slot are dropped"
        result = StepResult("finish", "finished", "done", time.monotonic() - begun, text, tuple(said))
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
    return Cutover(subid, "running", "", "", "", 0, now(), now())


def _check_part_of_switch(work: Work) -> None:
    """Refuse a command that asks a cutover that has switched over for a step that it was made
    without: the command would end as if that were done.
    """
    verified = work.cutover.findings.get("verify")
    done = {
        "--fence": work.fence is not None,
        "--verify": verified is not None and verified["is_equal"],
        "--reverse": "reverse" in work.cutover.options or not work.world.has_way_back(),
    }
    missing = [word for word in work.options.words if not done.get(word, True)]
    if missing:
        raise UsageError(
            f'subscription "{work.world.name}" was switched over without {", ".join(missing)}',
            sqlstate="55000",
            hint=f"Stay: {_command(work, '--finish')}, or go back and begin again: {_command(work, '--abandon')}",
        )


def _check_all(work: Work, report: CutoverReport, on_step: OnStep) -> None:
    """Check every step before the first one changes anything, because from then on the application
    stands still.
    """
    work.save(step=STEPS[0].name)
    refused: list[Refusal] = []
    for step in STEPS:
        begun = time.monotonic()
        try:
            refusals = step.check(work) if step.is_wanted(work) else ()
        except BaseException as error:
            message = error.message if isinstance(error, SubscriberError) else "the command was interrupted"
            _note(
                step, begun, "failed" if isinstance(error, SubscriberError) else "interrupted", message, report, on_step
            )
            raise
        for refusal in refusals:
            _note(step, begun, "refused", refusal.message, report, on_step, (*refusal.details, f"→ {refusal.hint}"))
        refused += refusals
    if refused:
        raise refused[0].error()


def _note(
    step: Step,
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


def _carry_out(step: Step, work: Work, report: CutoverReport, on_step: OnStep) -> None:
    if not step.is_wanted(work):
        return
    begun = time.monotonic()

    def ended(status: StepStatus, text: str, details: Sequence[str] = ()) -> None:
        _note(step, begun, status, text, report, on_step, details)

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
    fence = fence_left(work)
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
    fence = fence_left(work)
    if fence is not None:
        yield fence
    reverse = work.cutover.options.get("reverse")
    if reverse is not None:
        old, new = dropping_statements(reverse["name"])
        yield f"The way back stays. To end it, run at the old publisher: {old} and then at the target: {new}"


def _end(work: Work, report: CutoverReport) -> None:
    report.ended_at = now()
    report.state = work.cutover.state
    if report.state == "running" and not work.cutover.has_effects:
        report.state = "not begun"
    report.barrier = None if work.cutover.barrier is None else format_lsn(work.cutover.barrier)
    report.findings = dict(work.cutover.findings)


def _step(work: Work) -> str:
    return work.cutover.step or STEPS[0].name


def _command(work: Work, option: str = "") -> str:
    return f"subscriber cutover {work.name_in_shell} {option}".rstrip()


__all__ = [
    "STEPS",
    "CutoverOptions",
    "CutoverReport",
    "StepResult",
    "abandon",
    "finish",
    "new_cutover",
    "new_report",
    "rehearse",
    "run_cutover",
]
