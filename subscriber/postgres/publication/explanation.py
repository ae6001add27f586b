"""Explanations of why a change was sent, rewritten or left out: by which publication, by which
filter, and with which result. Plan, filters and decision are those of :mod:`transform`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from subscriber.postgres.protocol.changes import Action, ChangeGroup
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.definition import Operation
from subscriber.postgres.publication.publishing import Compiled, Program
from subscriber.postgres.publication.transform import OPERATION_OF, RowFilter, filter_results, transform

Result = Literal["t", "f", "null", "-"]
"""The result of a filter for a row; ``-``: the filter was not evaluated, or there is no such row.
"""

Reason = Literal["no publication", "operation not published", "unfiltered", "filtered"]


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Evaluated only if no earlier filter was true; ``where`` is None if there is no filter."""

    publication: str
    where: str | None
    old: Result
    new: Result

    def in_words(self) -> str:
        if self.where is None:
            return f"{self.publication}: no filter"
        return f"{self.publication}: WHERE {self.where}  old {self.old}, new {self.new}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was decided for one change, and why; ``sent`` is None if nothing was sent."""

    position: int
    relation: Relation
    operation: Operation
    reason: Reason
    filter_results: tuple[FilterResult, ...]
    old: Result
    new: Result
    sent: Action | None
    sent_as: Relation | None

    def outcome(self) -> str:
        """What was sent, in words."""
        if self.reason == "no publication":
            return "left out, no publication has the table"
        if self.reason == "operation not published":
            return f"left out, no publication publishes {self.operation}"
        if self.sent is None:
            return "left out"
        assert self.sent_as is not None
        operation = OPERATION_OF[self.sent]
        renamed = self.sent_as.qualified_name != self.relation.qualified_name
        where = f" of {self.sent_as.qualified_name}" if renamed else ""
        return f"sent{where}" if operation == self.operation else f"sent as {operation.upper()}{where}"


def explain(group: ChangeGroup, programs: Compiled) -> list[Explanation]:
    """Explain each change of a group; raises what ``transform`` would raise."""
    program = programs.program(group.relation)
    sent = {
        int(position): part.action
        for part in transform(group, program.plan, program.filters)
        for position in part.positions
    }
    return [_explain(group.slice(row, row + 1), program, programs, sent) for row in range(len(group))]


def _explain(change: ChangeGroup, program: Program, programs: Compiled, sent: dict[int, Action]) -> Explanation:
    plan = program.plan
    operation = OPERATION_OF[change.action]
    position = int(change.positions[0])
    row_filter = program.filters.get(operation)
    published = plan.publish_as is not None and operation in plan.operations
    reason: Reason
    if plan.publish_as is None:
        reason = "no publication"
    elif not published:
        reason = "operation not published"
    else:
        reason = "unfiltered" if row_filter is None else "filtered"
    old, new = _results(change, row_filter) if published else ("-", "-")
    return Explanation(
        position=position,
        relation=change.relation,
        operation=operation,
        reason=reason,
        filter_results=tuple(_filter_results(change, program, programs)) if published else (),
        old=old,
        new=new,
        sent=sent.get(position),
        sent_as=plan.publish_as if position in sent else None,
    )


def _filter_results(change: ChangeGroup, program: Program, programs: Compiled) -> Iterator[FilterResult]:
    operation = OPERATION_OF[change.action]
    filtered = operation in program.filters
    decided = {"old": False, "new": False}
    for one in program.plan.publication_filters.get(operation, ()):
        # If one publication has no filter, the filters of the others are not evaluated (rule B9).
        row_filter = programs.filter_of(program.plan, one) if filtered else None
        old, new = _results(change, row_filter, skip=decided)
        decided = {"old": decided["old"] or old == "t", "new": decided["new"] or new == "t"}
        yield FilterResult(one.publication, one.where, old, new)


def _results(
    change: ChangeGroup, row_filter: RowFilter | None, skip: dict[str, bool] | None = None
) -> tuple[Result, Result]:
    if row_filter is None:
        return "-", "-"
    skip = skip or {"old": False, "new": False}
    old, new = filter_results(change, row_filter, old=not skip["old"], new=not skip["new"])
    return _result(old), _result(new)


def _result(results: pa.BooleanArray | None) -> Result:
    if results is None:
        return "-"
    value = results[0].as_py()
    return "null" if value is None else "t" if value else "f"
