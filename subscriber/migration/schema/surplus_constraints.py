"""Which constraints only the target's table has: NOT NULL, unique keys, CHECKs.

An application often creates the target's tables itself. A row that the publisher accepts may
violate a constraint that only the target has, or a unique key that compares texts in another way.
Then the copy or the apply stops, as a subscription of PostgreSQL does. Nothing here is an error:
such constraints may hold for every row. So they are listed, with the statements that remove them,
and nothing is refused.

A unique key of the target is not listed if the publisher has a unique key of the same columns, or
of some of them. A CHECK constraint is not listed if it is the translation of one of the
publisher's, or has the name of one. Foreign keys are not looked at: the subscriber's connections do
not enforce them, except in DuckDB, for which the schema step builds none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from subscriber.migration.schema.compare_checks import checks_of_table, checks_of_type, forms_of
from subscriber.migration.schema.compared import Compared, Missing
from subscriber.migration.schema.same_definition import plain
from subscriber.schema.table_objects import IndexShape
from subscriber.targets.table_changes import CannotBuild, FoundIndex, NewCheck, NewIndex

_REASON: Final = "only the target has it: a row of the publisher that violates it stops the copy or the apply"
_JSON_TYPES: Final = frozenset({114, 3802})


def surplus_constraints(both: Compared) -> Iterator[Missing]:
    """The constraints that only the target's table has."""
    yield from _not_null(both)
    yield from _unique_keys(both)
    yield from _checks(both)


def _not_null(both: Compared) -> Iterator[Missing]:
    for column in both.objects.shape.columns:
        made, is_array = both.objects.types.get(column.name, (None, False))
        is_nullable = column.nullable and (made is None or is_array or made.nullable)
        found = both.table.column(column.name)
        if is_nullable and found is not None and not found.nullable and not found.generated:
            yield Missing("surplus not null", column.name, None, _REASON)


# Unique keys --------------------------------------------------------------------------------------


def _unique_keys(both: Compared) -> Iterator[Missing]:
    unique = [one for one in both.objects.indexes if one.unique]
    keys = [frozenset(key.column for key in one.keys) for one in unique if _is_plain(one)]
    for index in both.found.indexes:
        if not index.unique:
            continue
        columns = frozenset(index.keys)
        name = index.name or "primary key"
        is_plain = None not in columns and not index.partial
        if is_plain:
            is_known = any(key <= columns for key in keys)
        else:
            names = {both.place(one.name) for one in unique}
            definitions = {plain(one.ddl) for one in unique}
            is_known = index.name in names or plain(index.definition) in definitions
        if not is_known:
            yield _surplus(both, "surplus unique key", name, _REASON, _index(index))
            continue
        inexact = sorted(both.found.inexact & {name for name in columns if name is not None})
        if inexact:
            reason = (
                f'texts in column "{inexact[0]}" that differ at the publisher may be equal in the target, whose collation'
                " ignores case or blanks: such a row stops the copy or the apply"
            )
            yield _surplus(both, "inexact unique key", name, reason, _index(index))


def _is_plain(index: IndexShape) -> bool:
    return index.predicate is None and all(key.column is not None for key in index.keys)


def _index(found: FoundIndex) -> NewIndex:
    """An index of the target, to ask how it is removed."""
    made = IndexShape(name=found.name, keys=(), unique=True, constraint="unique" if found.constraint else "")
    return NewIndex(made, found.name, ())


# CHECKs -------------------------------------------------------------------------------------------


def _checks(both: Compared) -> Iterator[Missing]:
    if not both.found.checks:
        return
    wanted = [*checks_of_table(both)]
    for column in both.objects.shape.columns:
        if both.table.column(column.name) is not None:
            wanted += checks_of_type(both, column)
    shape = both.objects.shape
    names = {one.name for one in wanted if one.name} | {shape.definitions[text][0] for text in shape.unmet}
    known = _json_checks(both)
    for one in wanted:
        try:
            known |= forms_of(both, one.change(both))
        except CannotBuild:
            continue
    for name, definition in both.found.checks:
        if name not in names and plain(definition) not in known:
            shown = name or f"CHECK ({definition})"
            yield _surplus(both, "surplus check", shown, _REASON, NewCheck(name, definition))


def _json_checks(both: Compared) -> set[str]:
    """The checks that MariaDB adds to columns of JSON. Every document of the publisher passes."""
    columns = both.objects.shape.columns
    return {plain(f"json_valid({column.name})") for column in columns if column.type_oid in _JSON_TYPES}


def _surplus(both: Compared, kind: str, name: str, reason: str, present: NewIndex | NewCheck) -> Missing:
    removal: tuple[str, ...] = ()
    if present.name:  # that of SQLite's rowid has none
        with suppress(CannotBuild):
            removal = both.target.objects.removal(both.table, present, name)
    return Missing(kind, name, None, reason, by_hand=removal)
