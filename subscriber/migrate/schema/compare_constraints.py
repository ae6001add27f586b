"""Which CHECK constraints, indexes, keys and foreign keys a target's table lacks, or has with
another definition, and which only the target has.

*CHECK constraints.* One is there if one of the target has its expression, whatever its name is,
since some targets do not keep the names. One that cannot be translated is there if the target has
one of its name, which the user has declared. A constraint that the publisher's rows may violate
(NOT VALID, NOT ENFORCED) would stop the copy. It is built in PostgreSQL alone, after the copy.

*Indexes.* An index of columns is there if the target has an index of these columns, whatever its
name is. An index of the same name is compared by its whole definition, where the target shows it:
expressions, order, condition. An index that cannot be translated is there if the target has one of
its name, which the user has built.

*Surplus constraints.* An application often creates the target's tables itself. A row that the
publisher accepts may violate a constraint that only the target has, or a unique key that compares
texts in another way. Then the copy or the apply stops, as a subscription of PostgreSQL does. They
are listed, with the statements that remove them. A unique key is not listed if the publisher has
one of the same columns, or of some of them; a CHECK is not listed if it is the translation of one
of the publisher's, or has its name. Foreign keys are not looked at: the subscriber's connections do
not enforce them, except in DuckDB, for which the schema step builds none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from subscriber.migrate.schema.schema_object import TEXT, Missing, TablePair, different, plain
from subscriber.postgres.schema.publisher_tables import PublisherColumn
from subscriber.postgres.schema.shape import ForeignKey, IndexShape, UserType
from subscriber.postgres.sql.quoting import delimited_identifier, quote_identifier, quote_literal
from subscriber.targets.table_changes import CannotBuild, FoundIndex, NewCheck, NewForeignKey, NewIndex

_UNMET: Final = re.compile(r"NOT VALID$|NOT ENFORCED$")
"""How the definition of a constraint ends that rows may violate."""


@dataclass(frozen=True, slots=True)
class PublisherCheck:
    """A CHECK constraint of the publisher's table, or of one of its types. ``values`` are the type
    OIDs of the names in the expression (None: the columns'), ``column`` is what VALUE stands for.
    """

    kind: str
    name: str
    text: str
    ddl: str
    values: Mapping[str, int] | None = None
    column: str | None = None

    def change(self, both: TablePair) -> NewCheck:
        """What builds it. CannotBuild: the expression is not known to mean the same."""
        if self.values is None:
            return NewCheck(self.name, both.expression(self.text))
        columns = {}
        for value, type_oid in self.values.items():
            found = both.table.column(self.column or value)
            assert found is not None
            columns[value] = type_oid, found
        expression = both.target.objects.expression(self.text, columns, inexact=both.found.inexact)
        return NewCheck(self.name, expression)


def checks_of_table(both: TablePair) -> Iterator[PublisherCheck]:
    for text in both.objects.checks:
        name, ddl = both.objects.definitions.get(text, ("", f"CHECK ({text})"))
        yield PublisherCheck("check constraint", name, text, ddl)


def checks_of_type(both: TablePair, column: PublisherColumn) -> Iterator[PublisherCheck]:
    """What a column's enum or domain checks, where the target stores a built-in type."""
    made, is_array = both.objects.types.get(column.name, (None, False))
    if made is None or is_array or both.keeps_types:
        return
    if made.kind == "enum":
        labels = ", ".join(f"{quote_literal(label)}::text" for label in made.labels)
        quoted = delimited_identifier(column.name)
        text = f"({quoted} = ANY (ARRAY[{labels}]))"
        yield PublisherCheck("check of enum", f"{column.name}_{made.name}", text, made.ddl, {column.name: TEXT})
    elif made.kind == "domain":
        yield from _checks_of_domain(column, made)


def _checks_of_domain(column: PublisherColumn, made: UserType) -> Iterator[PublisherCheck]:
    checks = made.checks if made.nullable else (("not_null", "(VALUE IS NOT NULL)"), *made.checks)
    for name, text in checks:
        values = {"VALUE": made.base}
        yield PublisherCheck("check of domain", f"{column.name}_{name}", text, made.ddl, values, column.name)


def compare_checks(both: TablePair) -> Iterator[Missing]:
    """The CHECK constraints of the table itself; those of types belong to columns."""
    for one in checks_of_table(both):
        yield from compare_check(both, one)
    for text in both.objects.unmet:
        yield from _unmet(both, text, *both.objects.definitions[text])


def _unmet(both: TablePair, text: str, name: str, ddl: str) -> Iterator[Missing]:
    if any(found == name for found, _ in both.found.checks):
        return
    unmet = _UNMET.search(ddl)
    assert unmet is not None
    if both.keeps_types and ddl.startswith("CHECK"):
        yield Missing("unmet check", name, NewCheck(name, text, unmet.group()), publisher_ddl=ddl)
        return
    reason = f"it is {unmet.group()} at the publisher, so rows may violate it"
    yield Missing("unmet check", name, None, reason, ddl)


def compare_check(both: TablePair, one: PublisherCheck) -> Iterator[Missing]:
    present = [definition for found, definition in both.found.checks if found == one.name and one.name]
    try:
        change = one.change(both)
    except CannotBuild as error:
        if not present:
            yield Missing(one.kind, one.name, None, error.reason, one.ddl)
        return
    found = {plain(definition) for _, definition in both.found.checks}
    if any(form in found for form in forms_of(both, change)):
        return
    if present:
        yield different(both, "different check", one.name, change, (one.name, f"CHECK ({present[0]})"), one.ddl)
    else:
        yield Missing(one.kind, one.name, change, publisher_ddl=one.ddl)


def forms_of(both: TablePair, change: NewCheck) -> Iterator[str]:
    """The forms of the expression: as we write it, then as the target says that it shows it."""
    yield plain(change.expression)
    if both.found.checks:
        yield plain(both.shown(change))


_KINDS_OF_CONSTRAINTS: Final = {
    "primary key": "primary key",
    "unique": "unique key",
    "exclusion": "exclusion constraint",
}


def compare_index(both: TablePair, index: IndexShape) -> Iterator[Missing]:
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


def _publisher_ddl(both: TablePair, index: IndexShape) -> str:
    shape = both.objects
    table = f"{quote_identifier(shape.schema)}.{quote_identifier(shape.name)}"
    if index.constraint:
        return f"ALTER TABLE {table} ADD CONSTRAINT {quote_identifier(index.name)} {index.ddl}"
    return (
        f"CREATE {'UNIQUE ' if index.unique else ''}INDEX {quote_identifier(index.name)} ON {table} USING {index.ddl}"
    )


def _change(both: TablePair, index: IndexShape, name: str) -> NewIndex:
    """What builds the index. CannotBuild: an expression is unknown, or a column not replicated."""
    keys = _keys(both, index)
    return NewIndex(index, name, keys, None if index.predicate is None else both.expression(index.predicate))


def _keys(both: TablePair, index: IndexShape) -> tuple[str, ...]:
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
    generated = {column.name for column in both.objects.columns if column.generated}
    lacking = [name for name in lacking if name not in generated]
    if lacking:
        raise CannotBuild(f'column "{lacking[0]}" is not replicated')
    return tuple(written)


def _is_plain(index: IndexShape) -> bool:
    return (
        index.predicate is None
        and all(key.column is not None for key in index.keys)
        and index.constraint != "exclusion"
    )


def _has_keys(found: FoundIndex, index: IndexShape) -> bool:
    """Whether an index has the columns of a plain index, in any order if both are unique."""
    keys = tuple(key.column for key in index.keys)
    same = frozenset(found.keys) == frozenset(keys) if index.unique and found.unique else found.keys == keys
    if not _is_plain(index) or found.partial or found.method not in ("", index.method):
        return False
    return same and (found.unique or not index.unique)


def _is_same(both: TablePair, named: FoundIndex, index: IndexShape, change: NewIndex) -> bool:
    if index.constraint == "primary key" and _has_keys(named, index):
        return True  # in any order of its columns
    if named.definition and named.constraint == bool(index.constraint):
        wanted = named.unique == index.unique or bool(index.constraint)
        return wanted and _has_definition(both, [named], index, change) is not False
    if not _is_plain(index) or None in named.keys:
        return True  # the target does not show enough of it
    return _has_keys(named, index)


def _has_definition(both: TablePair, found: list[FoundIndex], index: IndexShape, change: NewIndex) -> bool | None:
    """Whether an index has the definition that the target would show; None if none can have it."""
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


def compare_foreign_key(both: TablePair, key: ForeignKey) -> Iterator[Missing]:
    references = both.references.get((key.schema, key.table))
    reason = ""
    if references is None:
        reason = f'the target has no table "{both.names.qualified(key.schema, key.table)}"'
    elif any(both.table.column(name) is None for name in key.columns):
        reason = "a column of it is not replicated"
    else:
        pairs = frozenset(zip(key.columns, key.referenced, strict=True))
        for one in both.found.foreign_keys:
            same_pairs = not one.referenced or frozenset(zip(one.columns, one.referenced, strict=True)) == pairs
            if one.table != references.name or frozenset(one.columns) != frozenset(key.columns) or not same_pairs:
                continue
            if not _same_actions((one.on_delete, one.on_update), key):
                reason = f"the target's foreign key has ON DELETE {one.on_delete} ON UPDATE {one.on_update}"
                break
            return
    if references is None or reason:
        yield Missing("foreign key", key.name, None, reason, key.ddl)
        return
    is_shared = key.name in both.shared_names and not both.keeps_types  # there a table has its own names
    name = both.place(f"{both.objects.name}_{key.name}" if is_shared else key.name)
    yield Missing("foreign key", key.name, NewForeignKey(key, name, references), publisher_ddl=key.ddl)


def _same_actions(found: tuple[str, str], key: ForeignKey) -> bool:
    """Whether the actions are the same; some databases do not distinguish RESTRICT."""
    wanted: tuple[str, str] = (key.on_delete, key.on_update)
    if key.set_columns:
        wanted = (found[0], key.on_update)
    return all(
        one == other or {one, other} == {"RESTRICT", "NO ACTION"} for one, other in zip(found, wanted, strict=True)
    )


_REASON: Final = "only the target has it: a row of the publisher that violates it stops the copy or the apply"
_JSON_TYPES: Final = frozenset({114, 3802})


def surplus_constraints(both: TablePair) -> Iterator[Missing]:
    yield from _not_null(both)
    yield from _unique_keys(both)
    yield from _checks(both)


def _not_null(both: TablePair) -> Iterator[Missing]:
    for column in both.objects.columns:
        made, is_array = both.objects.types.get(column.name, (None, False))
        is_nullable = column.nullable and (made is None or is_array or made.nullable)
        found = both.table.column(column.name)
        if is_nullable and found is not None and not found.nullable and not found.generated:
            yield Missing("surplus not null", column.name, None, _REASON)


# Unique keys --------------------------------------------------------------------------------------


def _unique_keys(both: TablePair) -> Iterator[Missing]:
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


def _index(found: FoundIndex) -> NewIndex:
    """An index of the target, to ask how it is removed."""
    made = IndexShape(name=found.name, keys=(), unique=True, constraint="unique" if found.constraint else "")
    return NewIndex(made, found.name, ())


# CHECKs -------------------------------------------------------------------------------------------


def _checks(both: TablePair) -> Iterator[Missing]:
    if not both.found.checks:
        return
    wanted = [*checks_of_table(both)]
    for column in both.objects.columns:
        if both.table.column(column.name) is not None:
            wanted += checks_of_type(both, column)
    shape = both.objects
    names = {one.name for one in wanted if one.name} | {shape.definitions[text][0] for text in shape.unmet}
    known = _json_checks(both)
    unknown = [(name, text) for name, text in both.found.checks if name not in names and plain(text) not in known]
    for one in wanted:
        if not unknown:
            return
        with suppress(CannotBuild):
            for form in forms_of(both, one.change(both)):
                unknown = [(name, text) for name, text in unknown if plain(text) != form]
    for name, definition in unknown:
        shown = name or f"CHECK ({definition})"
        yield _surplus(both, "surplus check", shown, _REASON, NewCheck(name, definition))


def _json_checks(both: TablePair) -> set[str]:
    """The checks that MariaDB adds to columns of JSON. Every document of the publisher passes."""
    columns = both.objects.columns
    return {plain(f"json_valid({column.name})") for column in columns if column.type_oid in _JSON_TYPES}


def _surplus(both: TablePair, kind: str, name: str, reason: str, present: NewIndex | NewCheck) -> Missing:
    removal: tuple[str, ...] = ()
    if present.name:  # that of SQLite's rowid has none
        with suppress(CannotBuild):
            removal = both.target.objects.removal(both.table, present, name)
    return Missing(kind, name, None, reason, by_hand=removal)
