"""Builds missing objects in the target, or writes them as a script of the target's SQL.

Each object is built in a transaction of its own, or those of many tables in one where that takes
less time. Objects without a table come first. Then the objects of each table are built in their
order, those of several tables at the same time where the target can. Partitioned tables above them
and foreign keys come last and one after another: each locks two tables, and two of them could wait
for each other.

The script::

    First, by hand     statements: functions that objects below call, and what these need, which
                       ``schema apply`` does not create
    Before the copy    statements
    After the copy     statements
    Left out           everything else, as comments, with what the user can do
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.progress_lines import progress
from subscriber.catalog.existing_catalog import existing_subscription
from subscriber.catalog.table_states import RelationState, relations_of
from subscriber.commands.notices import first_names
from subscriber.migrate.schema.schema_object import Phase, SchemaComparison, SchemaObject
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.targets import Target
from subscriber.targets.table_changes import NO_TABLE, CannotBuild

WORKERS: Final = 4
"""How many tables are changed at the same time."""
PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
"""Seconds before further attempts after a transient error, such as a deadlock with a batch."""


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """What became of an object; ``refusal`` has no values, ``left_out`` waits for a function."""

    object: SchemaObject
    refusal: str = ""
    left_out: bool = False


def check_copied(target: Target, name: str) -> None:
    """Refuse what is built after the copy while tables are still copied (55000)."""
    subscription = existing_subscription(target, name)
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
    unready = [one.qualified_name for one in relations if one.state is not RelationState.READY]
    if unready:
        count = "1 table is" if len(unready) == 1 else f"{len(unready):,} tables are"
        raise UsageError(
            f"{count} not ready: {first_names(unready)}",
            sqlstate="55000",
            detail="What is built after the copy would be refused as if rows were missing, or would slow the copy.",
            hint="Run the command again when `subscriber status` shows only ready tables; `subscriber run` copies them.",
        )


def apply_schema(
    target: Target,
    difference: SchemaComparison,
    phase: Phase,
) -> list[BuildOutcome]:
    """Build the missing objects of a phase; one that is refused does not stop the others."""
    outcomes: list[BuildOutcome] = []
    objects = difference.missing(phase)
    for outcome in _build(target, objects):
        outcomes.append(outcome)
        progress("building objects", len(outcomes), len(objects))
    return outcomes


def _build(target: Target, objects: Sequence[SchemaObject]) -> Iterator[BuildOutcome]:
    yield from _in_order(target, [one for one in objects if one.table is None and not one.above])
    by_table: dict[str, list[SchemaObject]] = {}
    for one in objects:
        if one.table is not None and one.kind != "foreign key" and not one.above:
            by_table.setdefault(one.relation, []).append(one)
    if target.capabilities.parallel_ddl and len(by_table) > 1:
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="schema") as pool:
            tasks = [pool.submit(lambda group: list(_in_order(target, group)), group) for group in by_table.values()]
            for task in as_completed(tasks):
                yield from task.result()
    else:
        yield from _of_tables(target, [one for group in by_table.values() for one in group])
    last = [one for one in objects if one.above or (one.table is not None and one.kind == "foreign key")]
    yield from _of_tables(target, last)


def _of_tables(target: Target, objects: Sequence[SchemaObject]) -> Iterator[BuildOutcome]:
    built = _build_together(target, objects) if target.objects.builds_together and len(objects) > 1 else set()
    yield from (BuildOutcome(one) for place, one in enumerate(objects) if place in built)
    yield from _in_order(target, (one for place, one in enumerate(objects) if place not in built))


def _build_together(target: Target, objects: Sequence[SchemaObject]) -> set[int]:
    """The places of the objects that were built. What was not is built alone, which tells why."""
    built: set[int] = set()
    with target.reporting(), target.engine.connect() as connection:
        wanted = [
            (place, one.table, one.change, one.table.has_rows(connection))
            for place, one in enumerate(objects)
            if one.table is not None and one.change is not None and not one.waits_for
        ]
    for with_rows in (False, True):
        chosen = [(place, table, change) for place, table, change, has_rows in wanted if has_rows == with_rows]
        # A table that has rows is changed only while no run writes to it.
        with suppress(SubscriberError), target.running() if with_rows and chosen else nullcontext():
            made = target.objects.build_together([(table, change) for _, table, change in chosen])
            built |= {chosen[number][0] for number in made}
    return built


def _in_order(target: Target, objects: Iterable[SchemaObject]) -> Iterator[BuildOutcome]:
    for one in objects:
        if one.waits_for:
            yield BuildOutcome(one, one.reason, left_out=True)
            continue
        try:
            _build_with_patience(target, one)
        except CannotBuild as error:
            yield BuildOutcome(one, error.reason)
        except SubscriberError as error:
            yield BuildOutcome(one, " ".join(part for part in (error.message, error.detail, error.hint) if part))
        else:
            yield BuildOutcome(one)


def _build_with_patience(target: Target, one: SchemaObject) -> None:
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
    if not _build_unless_replaced(target, one, may_replace=False):
        # A table that has rows is written again only while no run writes to it.
        with target.running():
            _build_unless_replaced(target, one, may_replace=True)


def _build_unless_replaced(target: Target, one: SchemaObject, *, may_replace: bool) -> bool:
    """On one connection, as opening is slow; False: a table with rows would be written again."""
    assert one.change is not None
    table = one.table or NO_TABLE
    with target.objects.building() as connection:
        planned = target.objects.statements(connection, table, one.change)
        if (planned.rebuilds or planned.needs_empty) and table.has_rows(connection):
            if planned.needs_empty:  # the statements check it again, with a lock
                raise CannotBuild("the table has rows")
            if not may_replace:
                return False
        raw = connection.execution_options(no_parameters=True)
        for statement in planned.sql:
            raw.exec_driver_sql(statement)
        if planned.rebuilds:
            target.objects.check(connection, table)
    return True


_PARTS: Final = (("before", "Before the copy"), ("after", "After the copy"))
_STATEMENT: Final = re.compile(r"(?:CREATE|ALTER|COMMENT)\s")
"""How a definition begins that is a whole statement."""
_FIRST: Final = (
    "`subscriber schema apply` does not create what follows, and leaves out what needs it. Read it: a function can do",
    "anything. Then run this part, or the whole script.",
)
_READ_ME: Final = (
    "Statements are to be run; stop at the first error. Comments show what is left out:",
    "the reason, and the publisher's definition or the statements with which you can build it.",
)


def ddl_script(difference: SchemaComparison) -> str:
    first = _first(difference)
    created = {_called_by(one) for one in first}
    lines = [f"-- What {difference.database} lacks of the publisher's schema, for {_line(difference.subscription)}."]
    lines += [f"-- {line}" for line in _READ_ME]
    if first:
        lines += ["", "-- First, by hand", "", *(f"-- {line}" for line in _FIRST), "SET check_function_bodies = off;"]
        lines += [line for one in first for line in _created(one)]
        lines += ["RESET check_function_bodies;"]
    for phase, title in _PARTS:
        lines += ["", f"-- {title}", ""]
        built = (one for one in difference.objects if one.phase == phase and one not in first)
        lines += [line for one in built for line in _built(one, created)]
    lines += ["", "-- Left out", ""]
    lines += [line for one in difference.missing("manual") if one not in first for line in _left_out(one)]
    return "\n".join(lines) + "\n"


def _first(difference: SchemaComparison) -> list[SchemaObject]:
    """What others call and ``schema apply`` does not create, in the order of creation."""
    called = [one for one in difference.missing("manual") if one.needed_by and one.publisher_ddl]
    last = max((one.order for one in called), default=-1)
    types = [one for one in difference.missing("before") if one.kind == "type" and one.order < last]
    return sorted([*called, *types], key=lambda one: one.order)


def _called_by(one: SchemaObject) -> str:
    return one.name if one.kind == "function" else f"{one.kind} {one.name}"


def _created(one: SchemaObject) -> Iterator[str]:
    if one.phase == "manual":
        yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    if one.schema:
        yield f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(one.schema)};"
    yield f"{(one.ddl or one.publisher_ddl).rstrip().removesuffix(';')};"


def _built(one: SchemaObject, created: set[str]) -> Iterator[str]:
    if not created.issuperset(one.waits_for):
        yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
        yield from _commented(f"{one.ddl};")
        return
    if one.reason and not one.waits_for:
        yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    if one.atomic:
        yield f"BEGIN TRANSACTION;\n{one.ddl};\nCOMMIT;"
    else:
        yield f"{one.ddl};"


def _left_out(one: SchemaObject) -> Iterator[str]:
    yield f"-- {one.kind} {_line(one.name)}: {_line(one.reason)}"
    if one.ddl:
        yield from _commented(f"{one.ddl};")
    text = one.publisher_ddl.rstrip()
    if not one.ddl and text:
        yield from _commented(f"{text};" if _STATEMENT.match(text) and not text.endswith(";") else text)


def _commented(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"--     {line}".rstrip()


def _line(text: str) -> str:
    """A text on one line: a comment ends at the end of its line."""
    return " ".join(text.split())
