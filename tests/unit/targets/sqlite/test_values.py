from __future__ import annotations

import math

import pyarrow as pa
import pytest
import sqlalchemy as sa

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import TargetColumn
from subscriber.targets.sqlite.catalog import SQLiteColumn, SQLiteTable
from subscriber.targets.sqlite.values import SQLiteValues, affinity, declaration
from subscriber.targets.sqlite.writing import SQLiteMatching
from tests.frames import OIDS
from tests.unit.targets.tables import execute, reflected

_ROLE = SQLiteValues()
bind_values, check_column = _ROLE.bind_values, _ROLE.check_column

DECLARED = {
    "INTEGER": "BIGINT",
    "TEXT": "VARCHAR(10)",
    "BLOB": "",
    "REAL": "DOUBLE PRECISION",
    "NUMERIC": "DECIMAL(9,2)",
}

EDGES: dict[str, list[str | None]] = {
    "bool": ["t", "f", None],
    "int2": ["-32768", "32767", "0"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807", "9007199254740993"],
    "float4": ["0.1", "3.4028235e+38", "1e-45", "NaN", "Infinity", "-Infinity", "16777216", None],
    "float8": ["0.1", "1.7976931348623157e+308", "5e-324", "NaN", "Infinity", "-Infinity", "1e+18", None],
    "numeric": ["007.10", "1.50", "NaN", "Infinity", "1" * 60 + "." + "2" * 60, "0", "-0.000"],
    "text": ["", "007", "1e5", " 7", "-0", "0x10", "nan", "1.0", "NULL", "é", None],
    "varchar": ["12", "+1"],
    "json": ["7", "1.0", "null", '"7"'],
    "jsonb": ["7", "1.0"],
    "bit": ["101"],
    "money": ["1.00"],
    "bytea": ["\\x", "\\x3030", "\\xff00"],
    "date": ["2024-01-31", "infinity", "-infinity", "0044-03-15 BC", "294276-12-31"],
    "time": ["00:00:00", "24:00:00"],
    "timestamp": ["2024-01-31 00:00:00", "infinity", "4713-01-01 00:00:00 BC"],
    "timestamptz": ["2024-01-31 00:00:00+00", "infinity", "0044-03-15 00:00:00+00 BC", None],
    "interval": ["00:00:00", "1 year", "-1 days +02:03:00", "00:00:01"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "12345678-1234-1234-1234-123456789012"],
    "int4[]": ["{}", "{1,2}", "[0:1]={1,2}"],
}
"""Each type's values that a careless store would change."""


def column(kind: str) -> TargetColumn:
    return TargetColumn("c", DECLARED[kind], kind)


def decoded(type_name: str) -> pa.Array:
    raw = pa.array([None if text is None else text.encode() for text in EDGES[type_name]], pa.binary())
    return family_of(OIDS[type_name]).decode_text(raw)


@pytest.mark.parametrize("kind", sorted(DECLARED))
@pytest.mark.parametrize("type_name", sorted(EDGES))
def test_a_column_holds_every_value_of_a_type_or_is_refused(target, type_name, kind):
    """refuse_not_guess: what SQLite gives back is what was bound; as another type, what that type
    has no value for is refused (C5)
    """
    try:
        check_column(OIDS[type_name], column(kind))
    except TargetRelationError:
        return
    bound, refused = [], set()
    for value in decoded(type_name):
        try:
            bound += bind_values(OIDS[type_name], column(kind), pa.array([value]))
        except UnsupportedValue as error:
            refused.add((error.sqlstate, error.column))
    assert refused <= {("22P02", "c"), ("22003", "c")}
    with target.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (c {DECLARED[kind]})")
        for value in bound:
            connection.exec_driver_sql("INSERT INTO t VALUES (?)", (value,))
        assert [row[0] for row in connection.exec_driver_sql("SELECT c FROM t ORDER BY rowid")] == bound


ALL = {"INTEGER", "TEXT", "BLOB", "REAL", "NUMERIC"}


@pytest.mark.parametrize(
    ("type_name", "allowed"),
    [
        ("bool", ALL - {"REAL"}),
        ("int4", ALL),
        *((name, ALL) for name in ("int8", "float4", "float8")),
        *((name, ALL - {"NUMERIC"}) for name in ("numeric", "text", "varchar")),
        *((name, {"TEXT", "BLOB"}) for name in ("json", "jsonb", "bit", "money")),
        *((name, ALL) for name in ("bytea", "date", "time", "timestamp", "timestamptz", "interval", "uuid", "int4[]")),
    ],
)
def test_the_affinities_that_hold_a_type(type_name, allowed):
    def holds(kind: str) -> bool:
        try:
            check_column(OIDS[type_name], column(kind))
        except TargetRelationError:
            return False
        return True

    assert {kind for kind in ALL if holds(kind)} == allowed


def test_an_unknown_type_is_text():
    """An enum's labels may be digits, and NUMERIC affinity would have them for numbers."""
    with pytest.raises(TargetRelationError):
        check_column(99_999, column("NUMERIC"))
    check_column(99_999, column("TEXT"))


def test_a_refusal_says_how_to_declare_the_column():
    with pytest.raises(TargetRelationError) as raised:
        check_column(OIDS["numeric"], TargetColumn("price", "DECIMAL(12,2)", "NUMERIC"))
    assert raised.value.message == 'column "price" declared "DECIMAL(12,2)" cannot hold type numeric exactly'
    assert "NUMERIC_TEXT" in str(raised.value.hint)
    assert raised.value.column == "price"


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("INTEGER", "INTEGER"), ("BIGINT", "INTEGER"), ("POINT", "INTEGER"), ("FLOATING POINT", "INTEGER"),
        ("varchar(5)", "TEXT"), ("NUMERIC_TEXT(12,2)", "TEXT"), ("CLOB", "TEXT"), ("CHARINT", "INTEGER"),
        ("BLOB", "BLOB"), ("", "BLOB"), ("REAL", "REAL"), ("double precision", "REAL"), ("FLOAT", "REAL"),
        ("NUMERIC(9,2)", "NUMERIC"), ("BOOLEAN", "NUMERIC"), ("TIMESTAMP", "NUMERIC"), ("JSON", "NUMERIC"),
        ("STRING", "NUMERIC"), ("ANY", "NUMERIC"),
    ],
)  # fmt: skip
def test_affinity_is_sqlites_own(target, declared, kind):
    """SQLite is asked: what becomes of text that looks like a number?"""
    assert affinity(declared) == kind
    with target.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE t (c {declared})")
        connection.exec_driver_sql("INSERT INTO t VALUES ('1'), (2)")
        found = tuple(row[0] for row in connection.exec_driver_sql("SELECT typeof(c) FROM t ORDER BY rowid"))
    expected = {
        "INTEGER": ("integer", "integer"),
        "NUMERIC": ("integer", "integer"),
        "TEXT": ("text", "text"),
        "BLOB": ("text", "integer"),
        "REAL": ("real", "real"),
    }
    assert found == expected[kind]


def test_any_in_a_strict_table_changes_nothing(target):
    assert affinity("ANY", strict=True) == "BLOB"
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (c ANY) STRICT")
        connection.exec_driver_sql("INSERT INTO t VALUES ('007')")
        assert connection.exec_driver_sql("SELECT c FROM t").scalar_one() == "007"
        assert target.shapes.reflect(connection, "public", "t").columns[0].storage == "BLOB"


def test_a_boolean_is_a_number_or_postgresqls_letter():
    assert bind_values(16, column("INTEGER"), decoded("bool")) == [1, 0, None]
    assert bind_values(16, column("TEXT"), decoded("bool")) == ["t", "f", None]


def test_nan_is_bound_as_text_because_sqlite_would_make_it_null(target):
    """absence_is_typed"""
    bound = bind_values(701, column("REAL"), decoded("float8"))
    assert bound[3:6] == ["NaN", math.inf, -math.inf]
    with target.begin() as connection:
        assert connection.exec_driver_sql("SELECT typeof(?)", (math.nan,)).scalar_one() == "null"


def test_a_real_is_the_shortest_double_that_rounds_to_it():
    assert bind_values(700, column("REAL"), decoded("float4"))[0] == 0.1


def test_the_time_zones_offset_is_completed():
    assert bind_values(1184, column("TEXT"), decoded("timestamptz")) == [
        "2024-01-31 00:00:00+00:00",
        "infinity",
        "0044-03-15 00:00:00+00:00 BC",
        None,
    ]
    assert bind_values(1184, column("TEXT"), pa.array(["2024-01-31 00:00:00+00"])) == ["2024-01-31 00:00:00+00:00"]
    assert bind_values(1184, column("TEXT"), pa.array([None], pa.string())) == [None]


@pytest.mark.parametrize(
    ("declared", "kind", "oid", "value", "sqlstate"),
    [
        ("INT", "INTEGER", 20, 2**31, "22003"),
        ("SMALLINT", "INTEGER", 23, 40_000, "22003"),
        ("BOOLEAN_INTEGER", "INTEGER", 23, 2, "22P02"),
        ("NUMERIC_TEXT", "TEXT", 25, "x", "22P02"),
        ("NUMERIC_TEXT(6,1)", "TEXT", 1700, "123456", "22003"),
        ("NUMERIC_TEXT(6,1)", "TEXT", 1700, "Infinity", "22003"),
        ("CHARACTER VARYING(3)", "TEXT", 25, "four", "22001"),
    ],
)
def test_a_column_by_one_of_our_names_is_read_as_its_type(declared, kind, oid, value, sqlstate):
    """C5: what SQLite itself would keep, PostgreSQL's column would not; a user's own names for the
    same affinity are SQLite's
    """
    with pytest.raises(UnsupportedValue) as raised:
        bind_values(oid, TargetColumn("c", declared, kind), pa.array([value]))
    assert (raised.value.sqlstate, raised.value.column) == (sqlstate, "c")


@pytest.mark.parametrize(
    ("declared", "kind", "oid", "values", "bound"),
    [
        ("INT", "INTEGER", 20, [5, None], [5, None]),
        ("INTEGER", "INTEGER", 20, [2**40], [2**40]),
        ("BOOLEAN_INTEGER", "INTEGER", 25, [" yes", "f", None], [1, 0, None]),
        ("NUMERIC_TEXT(6,1)", "TEXT", 1700, ["12.25", "NaN", "99999", None], ["12.25", "NaN", "99999", None]),
        ("NUMERIC_TEXT(2,5)", "TEXT", 1700, ["0.00099"], ["0.00099"]),
        ("CHARACTER VARYING(3)", "TEXT", 25, ["two   ", "één", None], ["two", "één", None]),
        ("VARCHAR(3)", "TEXT", 25, ["four"], ["four"]),
        ("TIMESTAMP_TEXT", "TEXT", 1082, ["2024-02-29", "0044-03-15 BC"], ["2024-02-29 00:00:00", "0044-03-15 00:00:00 BC"]),
        ("TEXT", "TEXT", 701, [1e15, 0.1, math.inf], ["1e+15", "0.1", "Infinity"]),
        ("REAL", "REAL", 1700, ["1.50", "NaN"], [1.5, "NaN"]),
    ],
)  # fmt: skip
def test_values_of_another_type_are_those_that_postgresql_reads(declared, kind, oid, values, bound):
    """C2, C5; blanks at the end of a varchar may be cut"""
    assert bind_values(oid, TargetColumn("c", declared, kind), pa.array(values)) == bound


@pytest.mark.parametrize("oid", sorted(BUILT_IN_TYPES | {99_999}), ids=type_name)
def test_the_declaration_holds_every_type(oid):
    """refuse_not_guess: a column that the program declares is one that it accepts."""
    declared = declaration(oid, type_name(oid))
    check_column(oid, TargetColumn("c", declared, affinity(declared)))


# The role values of SQLite. Its rules are tested in test_values.py.


COLUMN_VALUES = SQLiteValues()
NUMERIC = TargetColumn("a", "JSON", "NUMERIC")


def test_the_rules_are_sqlites():
    assert COLUMN_VALUES.bind_values(16, TargetColumn("a", "TEXT", "TEXT"), pa.array([True, None])) == ["t", None]
    COLUMN_VALUES.check_column(23, NUMERIC)
    with pytest.raises(TargetRelationError, match="cannot hold type json exactly"):
        COLUMN_VALUES.check_column(114, NUMERIC)


# Row matching in SQLite.


MATCHING = SQLiteMatching()
VALUE = sa.literal("x")


def matched_column(storage: str = "TEXT", collation: str | None = "BINARY") -> SQLiteColumn:
    return SQLiteColumn("a", storage, storage, key_collation=collation)


def table(of: TargetColumn, *, may_watch_columns: bool = False) -> SQLiteTable:
    return SQLiteTable("main", "t", (of,), ("a",), may_watch_columns=may_watch_columns)


def clause(of: TargetColumn) -> sa.ColumnElement[str]:
    return table(of).clause().c.a


def sql(target, condition: sa.ClauseElement) -> str:
    return str(condition.compile(dialect=target.engine.dialect))


@pytest.mark.parametrize(
    ("collation", "condition"),
    [
        ("BINARY", 'main.t.a COLLATE "BINARY" = ?'),
        ("NOCASE", 'main.t.a COLLATE "NOCASE" = ?'),
        (None, "main.t.a = ?"),
    ],
)
def test_a_key_is_compared_with_the_collation_of_its_index(target, collation, condition):
    """C8"""
    of = matched_column(collation=collation)
    assert sql(target, MATCHING.equals(of, clause(of), VALUE)).replace("(", "").replace(")", "") == condition
    assert sql(target, MATCHING.finds(of, clause(of), VALUE)).replace("(", "").replace(")", "") == condition


def test_in_a_whole_row_a_text_is_compared_exactly(target):
    """C14: whatever the collation of the column is; NULL equals NULL."""
    execute(target, "CREATE TABLE t (a TEXT COLLATE NOCASE)", "INSERT INTO t VALUES ('x'), ('X'), (NULL)")
    of = reflected(target, "t")
    (a,) = of.columns
    t = of.clause()
    with target.engine.connect() as connection:
        for value in ("x", "X", None):
            bound = sa.bindparam("v", value, sa.Text())
            found = connection.execute(sa.select(t.c.a).where(MATCHING.is_same(a, t.c.a, bound))).scalars().all()
            assert found == [value]


@pytest.mark.parametrize(
    ("name", "of", "same"),
    [
        ("int4", matched_column("INTEGER", None), True),
        ("text", matched_column(), True),
        ("text", matched_column(collation="NOCASE"), False),
        ("text", matched_column("BLOB"), False),
        ("bool", matched_column("INTEGER"), False),
        ("numeric", matched_column(), False),  # 1.0 finds 1.00
        ("text", TargetColumn("a", "TEXT", "TEXT"), False),
    ],
    ids=["integer", "text", "ignores case", "blob", "boolean", "numeric", "no column of SQLite"],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(name, of, same):
    assert MATCHING.found_as_written(OIDS[name], table(of), of) is same


def test_every_column_is_in_set_if_a_trigger_may_depend_on_it():
    """C23"""
    of = matched_column("INTEGER")
    assert not MATCHING.found_as_written(23, table(of, may_watch_columns=True), of)
