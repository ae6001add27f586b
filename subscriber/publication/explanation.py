"""Explanations of why a change was sent, rewritten or left out: by which publication, by which
filter, and with which result for the old and the new row.

This module uses the same plan, filters and decision as :mod:`transform`; it makes no decisions
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from subscriber.protocol.changes import Action, ChangeGroup
from subscriber.protocol.messages import Relation
from subscriber.publication.definition import Operation
from subscriber.publication.publishing import Compiled, Program
from subscriber.publication.transform import OPERATION_OF, RowFilter, filter_results, transform

Result = Literal["t", "f", "null", "-"]
"""The result of a filter for a row; ``-``: the filter was not evaluated, or there is no such row.
"""

Reason = Literal["no publication", "operation not published", "unfiltered", "filtered"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one publication's filter. It is evaluated only if no earlier filter was true.

    Attributes:
        publication: the name of the publication.
        where: its filter; None if it has no filter, so that the operation is unfiltered.
        old: the result for the old row.
        new: the result for the new row, with the values borrowed from the old row.
    """

    publication: str
    where: str | None
    old: Result
    new: Result


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was decided for one change, and why.

    Attributes:
        position: the position of the change in its frame.
        relation: the relation with which the change was received.
        operation: the operation of the change.
        reason: the fact that decided.
        judgements: the results of the publications that count for this operation.
        old: the result of all their filters together for the old row.
        new: the result of all their filters together for the new row.
        sent: the action that was sent; None if nothing was sent.
        sent_as: the relation with which the change was sent; None if nothing was sent.
    """

    position: int
    relation: Relation
    operation: Operation
    reason: Reason
    judgements: tuple[Judgement, ...]
    old: Result
    new: Result
    sent: Action | None
    sent_as: Relation | None


def explain(group: ChangeGroup, programs: Compiled) -> list[Explanation]:
    """Explain each change of a group.

    Raises:
        SubscriberError: a change cannot be evaluated;
            :func:`~subscriber.publication.transform.transform` would raise the same error.
    """
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
        judgements=tuple(_judgements(change, program, programs)) if published else (),
        old=old,
        new=new,
        sent=sent.get(position),
        sent_as=plan.publish_as if position in sent else None,
    )


def _judgements(change: ChangeGroup, program: Program, programs: Compiled) -> Iterator[Judgement]:
    operation = OPERATION_OF[change.action]
    filtered = operation in program.filters
    decided = {"old": False, "new": False}
    for opinion in program.plan.opinions.get(operation, ()):
        # If one publication has no filter, the filters of the others are not evaluated (rule B9).
        row_filter = programs.opinion(program.plan, opinion) if filtered else None
        old, new = _results(change, row_filter, skip=decided)
        decided = {"old": decided["old"] or old == "t", "new": decided["new"] or new == "t"}
        yield Judgement(opinion.publication, opinion.where, old, new)


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
