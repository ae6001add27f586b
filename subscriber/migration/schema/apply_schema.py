"""Builds missing objects in the target, each in a transaction of its own.

Objects without a table come first. Then the objects of each table are built in their order, those
of several tables at the same time where the target can. Foreign keys come last and one after
another: each locks two tables, and two of them could wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from subscriber.errors import SubscriberError
from subscriber.migration.schema.schema_object import Phase, SchemaDifference, SchemaObject
from subscriber.targets import Target
from subscriber.targets.table_changes import NO_TABLE, CannotBuild

WORKERS: Final = 4
"""How many tables are changed at the same time."""
PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each further attempt after a transient error, such as a deadlock with a batch of
`subscriber run`.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an object.

    Attributes:
        object: the object.
        refusal: why the target refused it, without values; empty if it was built.
        left_out: whether it was not tried, because it waits for a function.
    """

    object: SchemaObject
    refusal: str = ""
    left_out: bool = False


def apply_schema(
    target: Target,
    difference: SchemaDifference,
    phase: Phase,
    on_progress: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Build the missing objects of one phase. An object that is refused does not stop the others.

    Args:
        target: the target.
        difference: what is missing.
        phase: "before" or "after".
        on_progress: called in this thread after each object.
    """
    outcomes = []
    for outcome in _build(target, difference.missing(phase)):
        outcomes.append(outcome)
        if on_progress is not None:
            on_progress(outcome)
    return outcomes


def _build(target: Target, objects: Sequence[SchemaObject]) -> Iterator[Outcome]:
    yield from _in_order(target, [one for one in objects if one.table is None])
    by_table: dict[str, list[SchemaObject]] = {}
    for one in objects:
        if one.table is not None and one.kind != "foreign key":
            by_table.setdefault(one.relation, []).append(one)
    if target.capabilities.parallel_ddl and len(by_table) > 1:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            tasks = [pool.submit(lambda group: list(_in_order(target, group)), group) for group in by_table.values()]
            for task in as_completed(tasks):
                yield from task.result()
    else:
        for group in by_table.values():
            yield from _in_order(target, group)
    yield from _in_order(target, [one for one in objects if one.table is not None and one.kind == "foreign key"])


def _in_order(target: Target, objects: Iterable[SchemaObject]) -> Iterator[Outcome]:
    for one in objects:
        if one.waits_for:
            yield Outcome(one, one.reason, left_out=True)
            continue
        try:
            _build_with_patience(target, one)
        except CannotBuild as error:
            yield Outcome(one, error.reason)
        except SubscriberError as error:
            yield Outcome(one, " ".join(part for part in (error.message, error.detail, error.hint) if part))
        else:
            yield Outcome(one)


def _build_with_patience(target: Target, one: SchemaObject) -> None:
    """Build an object; try again after a transient error."""
    for seconds in PAUSES:
        try:
            _build_one(target, one)
        except SubscriberError as error:
            if not error.transient:
                raise
            time.sleep(seconds)
        else:
            return
    _build_one(target, one)


def _build_one(target: Target, one: SchemaObject) -> None:
    assert one.change is not None
    table = one.table or NO_TABLE
    with target.reporting(), target.engine.connect() as connection:
        planned = target.objects.statements(connection, table, one.change)
        replaced = (planned.rebuilds or planned.needs_empty) and table.has_rows(connection)
    if replaced and planned.needs_empty:  # the statements check it again, with a lock
        raise CannotBuild("the table has rows")
    # A table that has rows is written again only while no run writes to it.
    with target.running() if replaced else nullcontext(), target.objects.building() as connection:
        raw = connection.execution_options(no_parameters=True)
        for statement in target.objects.statements(connection, table, one.change).sql:
            raw.exec_driver_sql(statement)
        if planned.rebuilds:
            target.objects.check(connection, table)
