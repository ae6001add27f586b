"""Reads the shapes of tables from a PostgreSQL server's catalogs.

The queries work from version 10 on. They run in one transaction with an empty ``search_path``, so
that user-defined objects in expressions appear with their schema. The session has the settings of a
replication session, so that constants have the text that replication would send.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from psycopg import sql
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.server_features import ServerFeatures
from subscriber.schema.shape import Action, ColumnShape, ForeignKey, TableShape, UniqueKey

SETTINGS: Final[Mapping[str, str]] = {
    "search_path": "",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}


def read_shapes(connection: Connection) -> dict[int, TableShape]:
    """The shapes of all ordinary and partitioned tables of the database, by oid, without system
    tables and temporary tables.

    Raises:
        psycopg.Error: a query failed.
    """
    return _read(connection, sql.SQL("n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"))


def read_shape(connection: Connection, schema: str, table: str) -> TableShape | None:
    """The shape of one table; None where there is no ordinary or partitioned table of that name.

    Raises:
        psycopg.Error: a query failed.
    """
    condition = sql.SQL("n.nspname = {} AND c.relname = {}").format(sql.Literal(schema), sql.Literal(table))
    return next(iter(_read(connection, condition).values()), None)


def read_published_shape(connection: Connection, table: PublishedTable) -> TableShape | None:
    """The shape of a published table with its published columns only; None when the table no longer
    exists.

    Raises:
        psycopg.Error: a query failed.
    """
    shape = read_shape(connection, table.schema, table.name)
    return None if shape is None else published_shape(shape, table.columns)


def published_shape(shape: TableShape, columns: Collection[str] | None) -> TableShape:
    """The shape of a table as its changes show it: the published columns, with the keys and
    constraints that need only these columns.

    The values of a published generated column are in the stream, so that it becomes an ordinary
    column.

    Args:
        shape: the shape of the whole table.
        columns: the published columns; None for every column that is not generated.
    """
    kept = [
        replace(column, generated=None)
        for column in shape.columns
        if (column.generated is None if columns is None else column.name in columns)
    ]
    names = {column.name for column in kept}
    return replace(
        shape,
        columns=tuple(kept),
        key=shape.key if names.issuperset(shape.key) else (),
        unique=tuple(key for key in shape.unique if names.issuperset(key.columns)),
        checks=tuple(check for check in shape.checks if names.issuperset(_columns_in(check))),
        unmet=tuple(check for check in shape.unmet if names.issuperset(_columns_in(check))),
        foreign_keys=tuple(key for key in shape.foreign_keys if names.issuperset(key.columns)),
    )


def _columns_in(expression: str) -> set[str]:
    """The names of the columns in an expression of ``pg_get_expr``. An expression that cannot be
    parsed counts as one that uses every column.
    """
    try:
        return {column.name for column in parse_one(expression, dialect="postgres").find_all(exp.Column)}
    except SqlglotError:
        return {""}


def _read(connection: Connection, condition: sql.Composable) -> dict[int, TableShape]:
    with connection.transaction():
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        tables = connection.execute(
            sql.SQL(
                "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind = 'p' FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND {} ORDER BY 2, 3"
            ).format(condition)
        ).fetchall()
        oids = [table[0] for table in tables]
        columns = _columns(connection, oids)
        keys = _keys(connection, oids)
        constraints = _constraints(connection, oids)
    return {
        oid: TableShape(schema, name, tuple(columns[oid]), **keys[oid], **constraints[oid], partitioned=partitioned)
        for oid, schema, name, partitioned in tables
    }


# Columns ----------------------------------------------------------------------------------------


_IS_SERIAL: Final = sql.SQL(
    # The column's default takes values from a sequence, whatever owns the sequence.
    "EXISTS (SELECT FROM pg_depend u JOIN pg_class s ON s.oid = u.refobjid AND s.relkind = 'S'"
    " WHERE u.classid = 'pg_attrdef'::regclass AND u.objid = d.oid AND u.refclassid = 'pg_class'::regclass)"
)
_NEXT_VALUE: Final = re.compile(r"\(?nextval\(E?'(?:[^']|'')+'::regclass\)(?:\)::(?:smallint|integer|bigint))?")
"""A default that consists of the next value of a sequence only, as ``pg_get_expr`` writes it."""


def _columns(connection: Connection, oids: Collection[int]) -> dict[int, list[ColumnShape]]:
    features = features_of(connection)
    generated = "a.attgenerated <> ''" if features.generated_columns else "false"
    # Rows may violate a NOT NULL constraint that is NOT VALID.
    unmet = (
        "EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'"
        " AND NOT k.convalidated AND k.conkey = ARRAY[a.attnum])"
        if features.unenforced_constraints
        else "false"
    )
    rows = connection.execute(
        sql.SQL(
            "SELECT a.attrelid::int8, a.attname::text, a.atttypid::int8, format_type(a.atttypid, a.atttypmod),"
            " NOT a.attnotnull OR {}, a.attidentity::text, {}, {}, pg_get_expr(d.adbin, d.adrelid)"
            " FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
            " WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum"
        ).format(sql.SQL(unmet), _IS_SERIAL, sql.SQL(generated)),
        (list(oids),),
    ).fetchall()
    # An assignment casts the value, too: 0.5 as the default of a numeric(4,2) column is 0.50.
    wanted = {(expression, type_name) for *_, type_name, _, _, _, made, expression in rows if expression and not made}
    constants = _constants(connection, {one for one in wanted if is_constant(one[0])})
    columns: dict[int, list[ColumnShape]] = defaultdict(list)
    for oid, name, type_oid, type_name, nullable, identity, serial, made, expression in rows:
        columns[oid].append(
            ColumnShape(
                name,
                type_oid,
                type_name,
                nullable,
                default=None if made else expression,
                constant=constants.get((expression, type_name)),
                generated=expression if made else None,
                identity=identity,
                serial=serial and _NEXT_VALUE.fullmatch(expression) is not None,
            )
        )
    return columns


def _constants(connection: Connection, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str | None]:
    """The values of constant expressions, in the text form of the output functions."""
    listed = sorted(wanted)
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
_MOMENTS: Final = ("now", "today", "tomorrow", "yesterday")


def is_constant(expression: str) -> bool:
    """Whether an expression of ``pg_get_expr`` consists of constants and casts only.

    >>> is_constant("'x'::text"), is_constant("(- 5)"), is_constant("now()"), is_constant("nextval('s'::regclass)")
    (True, True, False, False)
    """
    if any(moment in expression.lower() for moment in _MOMENTS):
        return False  # a cast of such a text gives the current time
    try:
        tree = parse_one(expression, dialect="postgres")
    except SqlglotError:
        return False
    return all(isinstance(node, _IN_CONSTANTS) for node in tree.walk())


# Keys and constraints -----------------------------------------------------------------------------


def _keys(connection: Connection, oids: Collection[int]) -> dict[int, dict[str, Any]]:
    features = features_of(connection)
    rows = connection.execute(
        sql.SQL(
            "SELECT i.indrelid::int8, x.relname::text, i.indisprimary, i.indisreplident AND c.relreplident = 'i',"
            " NOT i.indimmediate, {}, i.indpred IS NOT NULL OR i.indexprs IS NOT NULL OR i.indisexclusion,"
            " ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
            "  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
            "  WHERE place <= {} ORDER BY place)"
            " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid"
            " WHERE i.indrelid = ANY (%s) AND (i.indisunique OR i.indisexclusion) AND i.indisvalid"
            " ORDER BY i.indrelid, NOT i.indisprimary, x.relname"
        ).format(
            sql.SQL("NOT i.indnullsnotdistinct" if features.nulls_not_distinct else "true"),
            sql.SQL("i.indnkeyatts" if features.covering_indexes else "i.indnatts"),
        ),
        (list(oids),),
    ).fetchall()
    by_table: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for oid, *index in rows:
        by_table[oid].append(tuple(index))
    return {oid: _sort_keys(by_table[oid]) for oid in oids}


def _sort_keys(indexes: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """The key (rule C11), the other unique keys, and the other kinds of uniqueness."""
    others = []
    unique = []
    for name, primary, identity, deferrable, nulls_distinct, conditional, columns in indexes:
        if conditional:
            others.append(name)
            continue
        unique.append((primary, identity, UniqueKey(tuple(columns), nulls_distinct, deferrable)))
    # PostgreSQL does not use a deferrable key to find rows.
    candidates = [one for one in unique if (one[0] or one[1]) and not one[2].deferrable]
    chosen = max(candidates, key=lambda one: bool(one[1]), default=None)
    return {
        "key": chosen[2].columns if chosen else (),
        "unique": tuple(one[2] for one in unique if one is not chosen),
        "others": tuple(others),
    }


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
    of_check = f"SELECT {columns}, pg_get_expr(conbin, conrelid) FROM pg_constraint k"
    of_not_null = (
        f"SELECT {columns}, quote_ident(a.attname) || ' IS NOT NULL' FROM pg_constraint k"
        " JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1] AND NOT convalidated"
    )
    selects = [(of_check, "c")]
    if features_of(connection).unenforced_constraints:  # before, NOT NULL is no constraint
        selects.append((of_not_null, "n"))
    for select, kind in selects:
        for oid, is_met, name, ddl, expression in _rows(connection, select, kind, oids):
            checks[is_met][oid].append(expression)
            definitions[oid][expression] = name, ddl
    for oid, name, ddl in connection.execute(
        "SELECT i.indrelid::int8, x.relname::text, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid"
        " WHERE i.indrelid = ANY (%s) AND (i.indisunique OR i.indisexclusion)",
        (list(oids),),
    ):
        definitions[oid][name] = name, ddl
    for oid, *parts in _rows(connection, _foreign_keys_query(features_of(connection)), "f", oids):
        (
            columns,
            schema,
            table,
            referenced,
            deleted,
            updated,
            match_full,
            deferrable,
            deferred,
            subset,
            plain,
            *named,
        ) = parts
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
                *named,
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
    subset = names.format("confdelsetcols", "conrelid") if features.set_null_columns else "ARRAY[]::text[]"
    plain = "conenforced AND NOT conperiod" if features.unenforced_constraints else "true"
    # A foreign key that references a partitioned table has an additional constraint for each
    # partition.
    query = (
        f"SELECT conrelid::int8, {names.format('conkey', 'conrelid')}, n.nspname::text, r.relname::text,"
        f" {names.format('confkey', 'confrelid')}, confdeltype::text, confupdtype::text, confmatchtype = 'f', condeferrable, condeferred,"
        f" {subset}, {plain}, conname::text, pg_get_constraintdef(k.oid)"
        " FROM pg_constraint k JOIN pg_class r ON r.oid = confrelid JOIN pg_namespace n ON n.oid = r.relnamespace"
    )
    if features.constraints_of_partitions:
        query += (
            " AND NOT EXISTS (SELECT FROM pg_constraint up WHERE up.oid = k.conparentid AND up.conrelid = k.conrelid)"
        )
    return query


def _rows(connection: Connection, select: str, kind: str, oids: Collection[int]) -> Iterator[tuple[Any, ...]]:
    """Constraints of one kind, sorted by table and name."""
    query = f"{select} WHERE contype = %s AND conrelid = ANY (%s) ORDER BY conrelid, conname"
    yield from connection.execute(query.encode(), (kind, list(oids)))
