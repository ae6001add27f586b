"""Why a change was sent, rewritten or left out: which publication, which filter, what it said of
the old and of the new row.

The same plan, the same filters and the same decision as :mod:`transform` has; nothing is decided
here.
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
"""What a filter said of a row; ``-``: it was not asked, or there is no such row."""

Reason = Literal["no publication", "operation not published", "unfiltered", "filtered"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one publication's filter said. One is asked only where none before it was true.

    Attributes:
        publication: its name.
        where: its filter; None: it has none, and so nothing is filtered.
        old: of the old row.
        new: of the new row, with the values borrowed of the old one.
    """

    publication: str
    where: str | None
    old: Result
    new: Result


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of one change.

    Attributes:
        position: of the change in its frame.
        relation: under which it came.
        operation: what it was.
        reason: what decided.
        judgements: of the publications that count for this operation.
        old: what they said of the old row together.
        new: of the new one.
        sent: what was sent; None: nothing.
        sent_as: the relation that it was sent as.
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
    """What becomes of each change of a group.

    Raises:
        SubscriberError: a change cannot be decided;
            :func:`~subscriber.publication.transform.transform` would raise it, too.
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
        # Where one publication has no filter, the others' are not evaluated (rule B9).
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
