"""The cutover of a subscription and what is known of comparisons, as far as the catalog has them.

``subscriber cutover`` stores each step before it begins. ``subscriber verify`` stores nothing: its
hold of the apply shows while it lasts, and so do the tables that may differ until it finds them
equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from subscriber.base.lsn import format_lsn
from subscriber.catalog.cutovers import ASKED, Cutover, read_cutover
from subscriber.catalog.schema_changes import SchemaChange, schema_changes_of
from subscriber.migrate.cutover.run_cutover import STEPS
from subscriber.operate.observation import Observation
from subscriber.targets import Connection
from subscriber.worker.read_status import cutover_status

_LISTED: Final = 10
_COUNTS: Final = ("publisher_rows", "target_rows", "differing", "only_publisher", "only_target")
_OPTIONAL: Final = {"verify": "--verify", "reverse": "--reverse"}
"""Steps that a cutover has only if it was asked for them."""


@dataclass(frozen=True, slots=True)
class CutoverFacts:
    """What the catalog has: the last cutover, and the tables that may differ."""

    cutover: Cutover | None
    differing: Sequence[SchemaChange]


def read_cutover_facts(connection: Connection, subid: int) -> CutoverFacts:
    differing = [change for change in schema_changes_of(connection, subid) if change.differs]
    return CutoverFacts(read_cutover(connection, subid), differing)


@dataclass(frozen=True, slots=True)
class StepRow:
    title: str
    state: str
    found: list[str]


@dataclass(frozen=True, slots=True)
class ComparedTable:
    name: str
    counts: list[int]
    notes: str
    is_equal: bool


def cutover_shown(one: Observation, facts: CutoverFacts | None, error: str | None) -> dict[str, Any]:
    cutover = None if facts is None else facts.cutover
    status = cutover_status(cutover)
    compared = None if cutover is None else cutover.findings.get("verify")
    hold = one.pause
    return {
        "one": one,
        "error": error,
        "is_known": facts is not None,
        "summary": None if status is None else status.in_words(one.name),
        "abandoned_at": None if cutover is None else cutover.abandoned_at,
        "asked": "" if cutover is None else cutover.options.get(ASKED, ""),
        "steps": [] if cutover is None or status is None else list(_steps(cutover)),
        "compared": compared,
        "compared_tables": [_compared(table) for table in (compared or {}).get("report", {}).get("tables", ())],
        "hold": hold,
        "held_at": "" if hold is None or hold.reached is None else format_lsn(hold.reached),
        "differing": [] if facts is None else facts.differing,
    }


def _steps(cutover: Cutover) -> Iterator[StepRow]:
    asked = cutover.options.get(ASKED, "").split()
    names = [step.name for step in STEPS]
    current = names.index(cutover.step) if cutover.step in names else 0
    for number, step in enumerate(STEPS):
        option = _OPTIONAL.get(step.name)
        if option is not None and option not in asked:
            yield StepRow(step.title, "not asked for", [])
            continue
        begun = cutover.state == "switched" or number <= current
        state = "done" if begun else "to come"
        if cutover.state == "running" and number == current:
            state = "in progress" if cutover.is_held else "stopped here"
        yield StepRow(step.title, state, list(_found(step.name, cutover)) if begun else [])


def _found(step: str, cutover: Cutover) -> Iterator[str]:
    found, fence, reverse = (cutover.findings.get(step), cutover.options.get("fence"), cutover.options.get("reverse"))
    match step:
        case "preconditions" if found:
            yield f"{found['tables']} tables ready"
        case "writes" if fence:
            yield f'database "{fence["database"]}" of the publisher is fenced'
        case "barrier" if cutover.barrier is not None:
            yield f"barrier {format_lsn(cutover.barrier)}"
        case "sequences" if found:
            yield from _first(found["messages"])
        case "schema" if found:
            yield from _first([f"accepted as missing: {name}" for name in found["missing"]])
        case "verify" if found:
            yield f"{'equal' if found['is_equal'] else 'different'} at {found['lsn']}"
        case "reverse" if reverse:
            yield f'way back "{reverse["name"]}"'
        case "switch" if cutover.switched_at is not None:
            yield f"at {cutover.switched_at}"


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _LISTED
    return [*lines[:_LISTED], *([f"and {more} more"] if more > 0 else [])]


def _compared(table: Mapping[str, Any]) -> ComparedTable:
    notes = [*table["notes"], *([table["error"]] if table["error"] else [])]
    return ComparedTable(table["table"], [table[name] for name in _COUNTS], "; ".join(notes), table["equal"])
