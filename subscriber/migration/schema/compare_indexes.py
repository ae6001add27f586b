"""Which indexes and keys a target's table lacks, or has with another definition.

An index of columns is there if the target has an index of these columns, whatever its name is. An
index of the same name is compared by its whole definition, where the target shows it: expressions,
order, condition. An index that cannot be translated is there if the target has one of its name,
which the user has built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from subscriber.migration.schema.compared import Compared, Missing, different
from subscriber.migration.schema.same_definition import plain
from subscriber.schema.table_objects import IndexShape
from subscriber.sql.keywords import quote_identifier
from subscriber.targets.table_changes import CannotBuild, FoundIndex, NewIndex

_KINDS_OF_CONSTRAINTS: Final = {
    "primary key": "primary key",
    "unique": "unique key",
    "exclusion": "exclusion constraint",
}


def compare_index(both: Compared, index: IndexShape) -> Iterator[Missing]:
    """An index of the publisher's table, or the index of a key or exclusion constraint."""
    kind = _KINDS_OF_CONSTRAINTS.get(index.constraint, "unique index" if index.unique else "index")
    if kind == "primary key" and both.table.key:
        kind = "unique key"  # the target's primary key is the publisher's replica identity
    name = both.place(index.name)
    named = next((one for one in both.found.indexes if one.name == name), None)
    others = [one for one in both.found.indexes if one is not named]
    ddl = _publisher_ddl(both, index)
    try:
        change, reason = _change(both, index, name), ""
    except CannotBuild as error:
        change, reason = None, error.reason
    if any(_has_keys(one, index) for one in others):
        return
    if named is not None:
        if change is not None and not _is_same(both, named, index, change):
            present = named.definition or f"({', '.join(key or '…' for key in named.keys)})"
            unique = "UNIQUE " if named.unique and not named.constraint else ""
            yield different(both, "different index", index.name, change, (name, f"{unique}{present}"), ddl)
    elif change is None:
        yield Missing(kind, index.name, None, reason, ddl)
    elif not _has_definition(both, others, index, change):
        yield Missing(kind, index.name, change, publisher_ddl=ddl)


def _publisher_ddl(both: Compared, index: IndexShape) -> str:
    """The publisher's statement."""
    shape = both.objects.shape
    table = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    if index.constraint:
        return f"ALTER TABLE {table} ADD CONSTRAINT {quote_identifier(index.name)} {index.ddl}"
    return (
        f"CREATE {'UNIQUE ' if index.unique else ''}INDEX {quote_identifier(index.name)} ON {table} USING {index.ddl}"
    )


def _change(both: Compared, index: IndexShape, name: str) -> NewIndex:
    """What builds the index.

    Raises:
        CannotBuild: an expression is not known to mean the same, or a column is not replicated.
    """
    keys = _keys(both, index)
    return NewIndex(index, name, keys, None if index.predicate is None else both.expression(index.predicate))


def _keys(both: Compared, index: IndexShape) -> tuple[str, ...]:
    written = []
    for key in index.keys:
        if key.column is None:
            written.append(f"({both.expression(key.expression, loose=not index.unique)})")
        else:
            written.append(both.target.objects.quote(key.column))
    lacking = [
        name
        for name in (*(key.column for key in index.keys), *index.include)
        if name and both.table.column(name) is None
    ]
    generated = {column.name for column in both.objects.shape.columns if column.generated is not None}
    lacking = [name for name in lacking if name not in generated]
    if lacking:
        raise CannotBuild(f'column "{lacking[0]}" is not replicated')
    return tuple(written)


def _is_plain(index: IndexShape) -> bool:
    """Whether an index has columns only."""
    return (
        index.predicate is None
        and all(key.column is not None for key in index.keys)
        and index.constraint != "exclusion"
    )


def _has_keys(found: FoundIndex, index: IndexShape) -> bool:
    """Whether an index of the target has the columns of a plain index, in any order if they are
    unique.
    """
    keys = tuple(key.column for key in index.keys)
    same = frozenset(found.keys) == frozenset(keys) if index.unique and found.unique else found.keys == keys
    if not _is_plain(index) or found.partial or found.method not in ("", index.method):
        return False
    return same and (found.unique or not index.unique)


def _is_same(both: Compared, named: FoundIndex, index: IndexShape, change: NewIndex) -> bool:
    """Whether the target's index of the same name is the publisher's."""
    if index.constraint == "primary key" and _has_keys(named, index):
        return True  # in any order of its columns
    if named.definition and named.constraint == bool(index.constraint):
        wanted = named.unique == index.unique or bool(index.constraint)
        return wanted and _has_definition(both, [named], index, change) is not False
    if not _is_plain(index) or None in named.keys:
        return True  # the target does not show enough of it
    return _has_keys(named, index)


def _has_definition(both: Compared, found: list[FoundIndex], index: IndexShape, change: NewIndex) -> bool | None:
    """Whether one of these indexes has the definition that the target would show. None if the
    target cannot have such an index.
    """
    shown = {
        plain(one.definition)
        for one in found
        if one.definition and (one.unique or not index.unique) and one.constraint == bool(index.constraint)
    }
    if not shown or plain(index.ddl) in shown:
        return bool(shown)
    try:
        return plain(both.shown(change)) in shown
    except CannotBuild:
        return None
