"""What is needed to create equal tables. Constants have the text that replication would send."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.schema.shape import Action, ForeignKey, IndexShape, UniqueKey
from subscriber.postgres.types.oids import FIRST_NORMAL_OID
from subscriber.publisher.catalog import fix_settings, read_indexes, read_tables
from subscriber.publisher.connection import Connection, features_of


def read_shapes(connection: Connection, tables: Collection[tuple[str, str]] | None = None) -> dict[int, PublisherTable]:
    """These tables with what creates equal ones, by OID, or all but system and temporary tables."""
    with connection.transaction():
        fix_settings(connection)
        found = {
            one.oid: one
            for one in sorted(read_tables(connection, tables, defaults=True), key=lambda one: one.key)
            if one.kind in ("table", "partitioned table") and one.persistence != "temporary"
            if tables is not None or one.oid >= FIRST_NORMAL_OID
        }
        constants, indexes = _constants(connection, found.values()), read_indexes(connection, found)
        constraints = _constraints(connection, found)
    return {
        oid: _with_keys(
            replace(
                table,
                columns=tuple(
                    replace(one, constant=constants.get((one.default, one.type_name))) for one in table.columns
                ),
                **constraints[oid],
            ),
            indexes[oid],
        )
        for oid, table in found.items()
    }


def read_published_shapes(
    connection: Connection, tables: Sequence[PublishedTable]
) -> dict[tuple[str, str], PublisherTable]:
    """The shapes of those published tables that exist, with their published columns only."""
    columns = {table.key: table.columns for table in tables}
    found = {shape.key: shape for shape in read_shapes(connection, [*columns]).values()}
    return {key: published_shape(shape, columns[key]) for key, shape in found.items()}


def published_shape(shape: PublisherTable, columns: Collection[str] | None) -> PublisherTable:
    """The published columns, and keys and constraints of only these. The stream has the values of a
    published generated column, so it becomes an ordinary column.
    """
    sent = [
        replace(column, generated="", expression=None)
        for column in shape.columns
        if (not column.generated if columns is None else column.name in columns)
    ]
    names = {column.name for column in sent}
    if len(sent) == len(shape.columns):  # nothing that is left out can be used by a constraint
        return replace(shape, columns=tuple(sent))
    return replace(
        shape,
        columns=tuple(sent),
        key_columns=shape.key_columns if names.issuperset(shape.key_columns) else (),
        unique=tuple(key for key in shape.unique if names.issuperset(key.columns)),
        checks=tuple(check for check in shape.checks if names.issuperset(_columns_in(check))),
        unmet=tuple(check for check in shape.unmet if names.issuperset(_columns_in(check))),
        foreign_keys=tuple(key for key in shape.foreign_keys if names.issuperset(key.columns)),
    )


def _columns_in(expression: str) -> set[str]:
    """The columns in an expression of ``pg_get_expr``; every column, if it cannot be parsed."""
    try:
        return {column.name for column in parse_one(expression, dialect="postgres").find_all(exp.Column)}
    except SqlglotError:
        return {""}


def _constants(connection: Connection, tables: Iterable[PublisherTable]) -> dict[tuple[str | None, str], str | None]:
    """By expression and type; an assignment cast makes 0.5 of a numeric(4,2) column 0.50."""
    defaults = {(one.default, one.type_name) for table in tables for one in table.columns}
    listed = sorted((text, kind) for text, kind in defaults if text and is_constant(text))
    if not listed:
        return {}
    # Both parts come from the server's functions, which quote their output.
    casts = ", ".join(f"CAST(({expression}) AS {type_name})" for expression, type_name in listed)
    with connection.cursor() as cursor, cursor.copy(f"COPY (SELECT {casts}) TO STDOUT".encode()) as copy:
        (row,) = copy.rows()
    return dict(zip(listed, row, strict=True))


_IN_CONSTANTS: Final = (
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Cast,
    exp.Neg,
    exp.Paren,
    exp.Array,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.HexString,
    exp.BitString,
    # In the names of types alone: a column would be in an exp.Column, a function in an exp.Func.
    exp.Identifier,
    exp.Dot,
)
_MOMENT: Final = re.compile(r"(?<![a-z])(?:now|today|tomorrow|yesterday)(?![a-z])")


def is_constant(expression: str) -> bool:
    """Whether an expression of ``pg_get_expr`` consists of constants and casts only.

    >>> is_constant("'unknown'::text"), is_constant("(- 5)"), is_constant("'now'::date")
    (True, True, False)
    """
    if _MOMENT.search(expression.lower()):
        return False  # a cast of such a text gives the current time
    try:
        tree = parse_one(expression, dialect="postgres")
    except SqlglotError:
        return False
    return all(isinstance(node, _IN_CONSTANTS) for node in tree.walk())


def _with_keys(shape: PublisherTable, indexes: Iterable[IndexShape]) -> PublisherTable:
    """A shape with its key (rule C11), the other unique keys, and the other kinds of uniqueness."""
    others: list[IndexShape] = []
    unique: list[tuple[IndexShape, UniqueKey]] = []
    for one in sorted(indexes, key=lambda one: one.constraint != "primary key"):
        columns = tuple(key.column for key in one.keys if key.column is not None)
        if one.excludes or (one.unique and (one.predicate is not None or len(columns) < len(one.keys))):
            others.append(one)
        elif one.unique:
            unique.append((one, UniqueKey(columns, one.nulls_distinct, one.deferrable)))
    # PostgreSQL does not use a deferrable key to find rows.
    candidates = [one for one in unique if not one[0].deferrable]
    chosen = next((one for one in candidates if one[0].is_identity), None) or next(
        (one for one in candidates if one[0].constraint == "primary key"), None
    )
    return replace(
        shape,
        key_columns=chosen[1].columns if chosen else (),
        unique=tuple(key for one, key in unique if chosen is None or one is not chosen[0]),
        others=tuple(one.name for one in others),
        definitions={**shape.definitions, **{one.name: (one.name, one.definition) for one in others}},
    )


_ACTIONS: Final[Mapping[str, Action]] = {
    "a": "NO ACTION",
    "r": "RESTRICT",
    "c": "CASCADE",
    "n": "SET NULL",
    "d": "SET DEFAULT",
}


def _constraints(connection: Connection, oids: Collection[int]) -> dict[int, dict[str, Any]]:
    checks: dict[bool, dict[int, list[str]]] = {True: defaultdict(list), False: defaultdict(list)}
    foreign_keys: dict[int, list[ForeignKey]] = defaultdict(list)
    definitions: dict[int, dict[str, tuple[str, str]]] = defaultdict(dict)
    columns = "conrelid::int8, convalidated, conname::text, pg_get_constraintdef(k.oid)"
    selects = [(f"SELECT {columns}, pg_get_expr(conbin, conrelid) FROM pg_constraint k", "c")]
    if features_of(connection).unenforced_constraints:  # before, NOT NULL is no constraint
        of_not_null = (
            f"SELECT {columns}, quote_ident(a.attname) || ' IS NOT NULL' FROM pg_constraint k"
            " JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1] AND NOT convalidated"
        )
        selects.append((of_not_null, "n"))
    for select, kind in selects:
        for oid, is_met, name, ddl, expression in _rows(connection, select, kind, oids):
            checks[is_met][oid].append(expression)
            definitions[oid][expression] = name, ddl
    for row in _rows(connection, _foreign_keys_query(features_of(connection)), "f", oids):
        oid, columns, schema, table, referenced, deleted, updated, subset, *flags = row
        match_full, deferrable, deferred, plain, name, ddl, own_types, other_types = flags
        foreign_keys[oid].append(
            ForeignKey(
                tuple(columns),
                schema,
                table,
                tuple(referenced),
                _ACTIONS[deleted],
                _ACTIONS[updated],
                tuple(subset),
                match_full,
                deferrable,
                deferred,
                plain,
                name,
                ddl,
                (tuple(own_types), tuple(other_types)),
            )
        )
    return {
        oid: {
            "checks": tuple(checks[True][oid]),
            "unmet": tuple(checks[False][oid]),
            "foreign_keys": tuple(foreign_keys[oid]),
            "definitions": definitions[oid],
        }
        for oid in oids
    }


def _foreign_keys_query(features: ServerFeatures) -> str:
    names = (
        "ARRAY(SELECT a.attname::text FROM unnest({}) WITH ORDINALITY AS u (attnum, place)"
        " JOIN pg_attribute a ON a.attrelid = {} AND a.attnum = u.attnum ORDER BY place)"
    )
    types = names.replace("a.attname::text", "format_type(a.atttypid, a.atttypmod)")
    subset = names.format("confdelsetcols", "conrelid") if features.set_null_columns else "ARRAY[]::text[]"
    plain = "conenforced AND NOT conperiod" if features.unenforced_constraints else "true"
    # A foreign key that references a partitioned table has an additional constraint for each
    # partition.
    query = (
        f"SELECT conrelid::int8, {names.format('conkey', 'conrelid')}, n.nspname::text, r.relname::text,"
        f" {names.format('confkey', 'confrelid')}, confdeltype::text, confupdtype::text, {subset}, confmatchtype = 'f',"
        f" condeferrable, condeferred, {plain}, conname::text, pg_get_constraintdef(k.oid),"
        f" {types.format('conkey', 'conrelid')}, {types.format('confkey', 'confrelid')}"
        " FROM pg_constraint k JOIN pg_class r ON r.oid = confrelid JOIN pg_namespace n ON n.oid = r.relnamespace"
    )
    if features.constraints_of_partitions:
        query += (
            " AND NOT EXISTS (SELECT FROM pg_constraint up WHERE up.oid = k.conparentid AND up.conrelid = k.conrelid)"
        )
    return query


def _rows(connection: Connection, select: str, kind: str, oids: Collection[int]) -> Iterator[tuple[Any, ...]]:
    query = f"{select} WHERE contype = %s AND conrelid = ANY (%s) ORDER BY conrelid, conname"
    yield from connection.execute(query.encode(), (kind, list(oids)))
