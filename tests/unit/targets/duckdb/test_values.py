"""How DuckDB stores PostgreSQL's values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.types.equality import EXACT
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import equality_of, family_of
from subscriber.targets import TargetColumn, TargetTable, open_target
from subscriber.targets.duckdb.values import DuckDBValues, declaration, storage
from subscriber.targets.duckdb.writing import DuckDBMatching
from subscriber.verify.table_sides import target_texts
from tests.frames import OIDS, relation, transaction, values
from tests.unit.targets.tables import execute, insert, load, reflected, rows

_ROLE = DuckDBValues()
bind_values, check_column = _ROLE.bind_values, _ROLE.check_column

VALUES = {
    "bool": ["t", "f"],
    "int2": ["-32768"],
    "int8": ["9223372036854775807"],
    "float4": ["0.1", "NaN", "-Infinity", "1e-45"],
    "float8": ["5e-324", "Infinity", "NaN"],
    "numeric": ["NaN", "Infinity", "1.50", "123456789012345678901234567890.123456789"],
    "text": ["", "007", "é%s:x\\$1?", "'"],
    "bytea": ["\\x", "\\x00ff27"],
    "date": ["infinity", "-infinity", "0044-03-15 BC", "294276-12-31"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timestamp": ["-infinity", "4713-01-01 00:00:00 BC", "2026-11-21 01:02:03.5"],
    "timestamptz": ["infinity", "0044-03-15 01:02:03+00 BC", "2026-11-21 01:02:03+00"],
    "interval": ["-1 days +02:03:00", "1 year 2 mons -3 days"],
    "uuid": ["12345678-1234-1234-1234-123456789012"],
    "json": ['{"a":  1}', "7"],
    "jsonb": ['{"a": 1}'],
    "int4[]": ["{}", "{1,NULL}", "[0:1]={1,2}"],
}


def _postgresql_text(moment: datetime) -> str:
    """As PostgreSQL writes a timestamp: without zeros at the end of the fraction."""
    text = moment.isoformat(" ")
    return text.rstrip("0") if moment.microsecond else text


def stored(target, type_oid: int) -> dict[int, str | None]:
    table = reflected(target, "v")
    with target.engine.connect() as connection:
        return {int(k or ""): text for k, text in target_texts(target, connection, table, {"k": 23, "v": type_oid})}


def expected(name: str) -> dict[int, str | None]:
    return {-1: None, **dict(enumerate(VALUES[name]))}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_comes_back_as_it_was(apply, target, name):
    """C5: replicated into the column that we declare for its type, found by it (C16), and loaded by
    a copy
    """
    execute(target, f"CREATE TABLE v (k INTEGER, v {declaration(OIDS[name], type_name(OIDS[name]))})")
    remote = relation("public.v", {"k": "int4", "v": name}, identity="f")
    numbered = [(str(k), v) for k, v in enumerate(VALUES[name])]
    searchable = name != "json"  # which PostgreSQL cannot compare (C17)
    apply(
        [remote],
        *transaction(
            200,
            *(insert(k, v) for k, v in numbered),
            insert("-1", None),
            *(m.Update(16384, "O", values(k, v), values(k, v)) for k, v in numbered if searchable),
        ),
    )
    assert stored(target, OIDS[name]) == expected(name)
    table = reflected(target, "v")
    texts = pa.array([*(v.encode() for _, v in numbered), None], pa.binary())
    batch = pa.record_batch(
        [pa.array([*range(len(numbered)), -1], pa.int32()), family_of(OIDS[name]).decode_text(texts)], names=["k", "v"]
    )
    execute(target, "DELETE FROM v")
    load(target, table, {"k": 23, "v": OIDS[name]}, batch)
    assert stored(target, OIDS[name]) == expected(name)


_MOMENTS = st.datetimes()
_DIGITS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,3})?\Z")
TYPED = {
    "date": ("DATE", _MOMENTS.map(lambda moment: str(moment.date()))),
    "timestamp": ("TIMESTAMP", _MOMENTS.map(_postgresql_text)),
    "timestamptz": ("TIMESTAMP WITH TIME ZONE", _MOMENTS.map(lambda moment: f"{_postgresql_text(moment)}+00")),
    "numeric": ("DECIMAL(8,3)", _DIGITS),
}


@pytest.mark.parametrize("name", sorted(TYPED))
@given(data=st.data())
def test_many_rows_have_the_values_of_single_ones(name, data):
    """fast_equals_exact: also where Arrow reads the texts in DuckDB's place"""
    declared, texts = TYPED[name]
    column = TargetColumn("c", declared, storage(declared))
    extremes = [one for one in VALUES[name] if name != "numeric" and data.draw(st.booleans())]
    values = pa.array([*data.draw(st.lists(texts, max_size=6)), *extremes, None], pa.string())
    query = f"SELECT CAST(CAST(c AS {declared}) AS VARCHAR) FROM block"
    found = []
    for converted in (_ROLE.as_block, _ROLE.as_stored):
        block = pa.table({"c": converted(OIDS[name], column, values)})
        with duckdb.connect() as connection:
            found.append(connection.execute(query).fetchall())
        del block
    assert found[0] == found[1]
    assert extremes or pa.types.is_string(_ROLE.as_block(OIDS[name], column, values).type) is False


@pytest.mark.parametrize("oid", sorted(BUILT_IN_TYPES | {99_999}), ids=type_name)
def test_the_declaration_holds_every_type(oid):
    """refuse_not_guess: the column that we make is one that we accept"""
    declared = declaration(oid, type_name(oid))
    check_column(oid, TargetColumn("c", declared, storage(declared)))


@pytest.mark.parametrize(
    ("name", "declared", "hint"),
    [
        ("float8", "FLOAT", "DOUBLE"), ("numeric", "FLOAT", "DECIMAL"), ("timestamp", "TIMESTAMP_S", "TIMESTAMP"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP"), ("text", "BLOB", "VARCHAR"), ("int8", "FLOAT", "BIGINT"),
        ("date", "TIMESTAMP WITH TIME ZONE", "DATE"), ("int4[]", "INTEGER[]", "VARCHAR"), ("interval", "INTERVAL", "VARCHAR"),
    ],
)  # fmt: skip
def test_a_column_that_would_change_values_is_refused(name, declared, hint):
    """C3, refuse_not_guess"""
    with pytest.raises(TargetRelationError, match="cannot hold type") as raised:
        check_column(OIDS[name], TargetColumn("c", declared, storage(declared)))
    assert hint in str(raised.value.hint)


@pytest.mark.parametrize(
    ("name", "declared", "value"),
    [
        ("numeric", "DECIMAL(6,2)", "1.505"), ("numeric", "DECIMAL(6,2)", "NaN"), ("numeric", "DECIMAL(4,2)", "12345"),
        ("timestamp", "TIMESTAMP", "294276-12-31 23:59:59"), ("int4", "TINYINT", "300"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(apply, target, name, declared, value):
    """refuse_not_guess, names_are_data: replicated or loaded, and the message does not have it"""
    execute(target, f"CREATE TABLE v (k INTEGER PRIMARY KEY, v {declared})")
    with pytest.raises(UnsupportedValue) as raised:
        apply([relation("public.v", {"k": "int4", "v": name}, ["k"])], *transaction(200, insert("1", value)))
    table = reflected(target, "v")
    array = family_of(OIDS[name]).decode_text(pa.array([value.encode()], pa.binary()))
    with pytest.raises(UnsupportedValue) as loading:
        load(target, table, {"v": OIDS[name]}, pa.record_batch([array], names=["v"]))
    assert value not in raised.value.report() + loading.value.report()


def test_zeros_at_the_end_of_a_number_do_not_count(apply, target):
    execute(target, "CREATE TABLE v (k INTEGER PRIMARY KEY, v DECIMAL(6,2))")
    apply([relation("public.v", {"k": "int4", "v": "numeric"}, ["k"])], *transaction(200, insert("1", "1.5000")))
    assert rows(target, "SELECT v::varchar AS v FROM v") == [{"v": "1.50"}]


@pytest.mark.parametrize(
    ("name", "declared", "values", "bound"),
    [
        ("bool", "BOOLEAN", pa.array([True, None]), [True, None]),
        ("bool", "VARCHAR", pa.array([True, False, None]), ["t", "f", None]),
        ("float4", "DOUBLE", pa.array([0.1, None], pa.float32()), [0.1, None]),
        ("float4", "FLOAT", pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
        ("date", "DATE", pa.array(["0044-03-15 BC", "infinity", None]), ["0044-03-15 (BC)", "infinity", None]),
        ("timestamp", "TIMESTAMP", pa.array(["0044-03-15 01:02:03 BC"]), ["0044-03-15 (BC) 01:02:03"]),
        ("date", "VARCHAR", pa.array(["0044-03-15 BC"]), ["0044-03-15 BC"]),
        ("timestamp", "TIMESTAMP", pa.array(["294247-01-10 04:00:54.775806"]), ["294247-01-10 04:00:54.775806"]),
        ("int4", "UTINYINT", pa.array([0, 255, None]), [0, 255, None]),
        ("text", "INTEGER", pa.array([" 0x10 ", None]), [16, None]),
    ],
)
def test_a_value_is_bound_as_duckdb_stores_it(name, declared, values, bound):
    assert bind_values(OIDS[name], TargetColumn("c", declared, storage(declared)), values) == bound


@pytest.mark.parametrize(
    ("declared", "least", "greatest"),
    [("TINYINT", -128, 127), ("UTINYINT", 0, 255), ("USMALLINT", 0, 65_535), ("UBIGINT", 0, 2**63 - 1)],
)
def test_an_integer_has_the_range_of_its_column(declared, least, greatest):
    """https://duckdb.org/docs/stable/sql/data_types/numeric"""
    column = TargetColumn("c", declared, declared)
    assert bind_values(20, column, pa.array([least, greatest])) == [least, greatest]
    beyond = [least - 1, greatest + 1] if greatest < 2**63 - 1 else [least - 1]
    for value in beyond:
        with pytest.raises(UnsupportedValue) as raised:
            bind_values(20, column, pa.array([value]))
        assert (raised.value.sqlstate, raised.value.column) == ("22003", "c")


@pytest.mark.parametrize("value", ["294247-01-10 04:00:54.775807", "294276-12-31 23:59:59"])
def test_a_timestamp_after_duckdbs_last_is_refused(value):
    with pytest.raises(UnsupportedValue) as raised:
        bind_values(1114, TargetColumn("c", "TIMESTAMP", "TIMESTAMP"), pa.array([value]))
    assert raised.value.sqlstate == "22008"


# The role values of DuckDB. Its rules are tested in test_values.py.


COLUMN_VALUES = DuckDBValues()


@pytest.mark.parametrize(
    ("declared", "stored", "read"),
    [
        ("DATE", "'44-03-15 (BC)'", "0044-03-15 BC"),
        ("DATE", "'infinity'", "infinity"),
        ("TIMESTAMP", "'44-03-15 (BC) 01:02:03.5'", "0044-03-15 01:02:03.5 BC"),
        ("TIME", "'24:00:00'", "24:00:00"),
        ("JSON", "'null'", "null"),
        ("INTEGER", "7", 7),
    ],
)
def test_a_value_that_python_does_not_have_is_read_as_text(target, declared, stored, read):
    execute(target, f"CREATE TABLE t (a {declared})", f"INSERT INTO t VALUES ({stored})")
    table = reflected(target, "t")
    query = sa.select(COLUMN_VALUES.readable(table.columns[0])).select_from(table.clause())
    with target.engine.connect() as connection:
        assert connection.execute(query).scalar_one() == read


def test_the_rules_are_duckdbs():
    column = TargetColumn("a", "BOOLEAN", "BOOLEAN")
    assert COLUMN_VALUES.bind_values(16, column, pa.array([True, None])) == [True, None]
    with pytest.raises(TargetRelationError):
        COLUMN_VALUES.check_column(17, column)


def test_a_single_precision_number_is_shown_as_postgresql_shows_it(target):
    execute(target, "CREATE TABLE t (a FLOAT, b DOUBLE)", "INSERT INTO t VALUES (0.1, 0.1)")
    with target.engine.connect() as connection:
        result = target.read_result(connection.exec_driver_sql("SELECT a, b FROM t"))
    assert result.rows == [("0.1", "0.1")]


# Row matching in DuckDB.


MATCHING = DuckDBMatching()


def test_of_equal_rows_one_is_changed(apply, target):
    """C16: found by the whole row, NULL-safe"""
    execute(target, "CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, NULL), (1, NULL), (1, 'x')")
    whole = relation("public.t", {"a": "int4", "b": "text"}, identity="f")
    apply([whole], *transaction(200, m.Delete(16384, "O", values("1", None))))
    assert rows(target, "SELECT a, b FROM t ORDER BY b") == [{"a": 1, "b": "x"}, {"a": 1, "b": None}]


@pytest.mark.parametrize("identity", ["d", "f"])
def test_letters_of_both_cases_find_their_own_row(apply, target, identity):
    """C8, C14: DuckDB's indexes take no notice of a column's collation, and its = does"""
    key = " PRIMARY KEY" if identity == "d" else ""
    execute(target, f"CREATE TABLE t (a text COLLATE nocase{key}, b text COLLATE noaccent)")
    remote = relation("public.t", {"a": "text", "b": "text"}, ["a"], identity=identity)
    kind: Literal["K", "O"] = "K" if key else "O"
    old = values("A", None if key else "é")
    apply(
        [remote],
        *transaction(200, insert("a", "é"), insert("A", "e"), insert("A" if not key else "b", "é")),
        *transaction(300, m.Update(16384, kind, old, values("A", "x")), m.Delete(16384, kind, values("A", "x"))),
    )
    left = {"a": "é", "b": "é"} if key else {"a": "é", "A": "e"}
    assert {row["a"]: row["b"] for row in rows(target, "SELECT a, b FROM t")} == left


def test_a_collation_of_the_database_changes_no_row_but_the_one(tmp_path):
    """C14: the URL may set one for every text"""
    with open_target(f"duckdb:///{tmp_path / 'target.duckdb'}?default_collation=nocase") as target:
        execute(target, "CREATE TABLE t (a text PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('A')")
        with target.begin() as connection:
            table = reflected(target, "t").clause()
            matched_column = reflected(target, "t").columns[0]
            connection.execute(
                sa.delete(table).where(target.matching.finds(matched_column, table.c.a, sa.literal("A")))
            )
        assert rows(target, "SELECT a FROM t") == [{"a": "a"}]


def matched_column(declared: str) -> TargetColumn:
    return TargetColumn("a", declared, storage(declared))


@pytest.mark.parametrize(
    ("declared", "compared"), [("VARCHAR", "t.a COLLATE binary"), ("INTEGER", "t.a"), ("BLOB", "t.a")]
)
def test_a_text_is_compared_by_its_bytes(declared, compared):
    """C8, C14: whatever the collation of the column or the database is."""
    clause = TargetTable("main", "t", (matched_column(declared),), None).clause().c.a
    found = MATCHING.comparable(matched_column(declared), clause)
    assert str(found).replace("main.", "").replace('"binary"', "binary") == compared


@pytest.mark.parametrize(
    ("name", "declared", "equality"),
    [
        ("numeric", "DECIMAL(6,2)", EXACT),
        ("numeric", "VARCHAR", equality_of(OIDS["numeric"])),
        ("json", "JSON", equality_of(OIDS["json"])),
        ("text", "VARCHAR", EXACT),
    ],
)
def test_the_equality_is_the_publishers_except_in_a_decimal(name, declared, equality):
    """C14, C17"""
    assert MATCHING.equality(OIDS[name], matched_column(declared)) == equality


@pytest.mark.parametrize(
    ("name", "declared", "same"),
    [
        ("int4", "INTEGER", True),
        ("text", "VARCHAR", True),
        ("numeric", "DECIMAL(6,2)", True),
        ("numeric", "VARCHAR", False),  # 1.0 finds 1.00
        ("float8", "DOUBLE", False),  # 0 finds -0
        ("jsonb", "JSON", False),
    ],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(name, declared, same):
    table = TargetTable("main", "t", (matched_column(declared),), ("a",))
    assert MATCHING.found_as_written(OIDS[name], table, matched_column(declared)) is same
