"""How MariaDB stores PostgreSQL's values: declarations, refused columns, bound values."""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.postgres.types.equality import EXACT
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.postgres.types.registry import decode_column, equality_of
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.mariadb.ddl import MariaDBDDL
from subscriber.targets.mariadb.transactions import MariaDBFacts, learn
from subscriber.targets.mariadb.values import INEXACT_KEY, MariaDBValues, declaration, from_text, greatest_integer
from tests.frames import OIDS

_ROLE = MariaDBValues()
accepts, bind_values, check_column = _ROLE.accepts, _ROLE.bind_values, _ROLE.check_column


def column(declared: str) -> TargetColumn:
    """A column as information_schema shows it: ``data_type`` is the first word of
    ``column_type``.
    """
    return TargetColumn("c", declared, re.split(r"[ (]", declared)[0])


def refusal(type_oid: int, declared: str, values: pa.Array) -> UnsupportedValue:
    with pytest.raises(UnsupportedValue) as raised:
        bind_values(type_oid, column(declared), values)
    assert raised.value.column == "c"
    return raised.value


# Declarations -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (16, "boolean", "BOOLEAN"),
        (21, "smallint", "SMALLINT"),
        (23, "integer", "INT"),
        (20, "bigint", "BIGINT"),
        (26, "oid", "BIGINT"),
        (700, "real", "DOUBLE"),
        (701, "double precision", "DOUBLE"),
        (17, "bytea", "LONGBLOB"),
        (1082, "date", "DATE"),
        (1700, "numeric(10,2)", "DECIMAL(10,2)"),
        (1700, "numeric(65,30)", "DECIMAL(65,30)"),
    ],
)
def test_a_type_that_mariadb_has_is_declared_as_that(oid, name, declared):
    assert declaration(oid, name, key=False, collation="c") == declared


@pytest.mark.parametrize(
    ("oid", "name", "kind"),
    [
        (1700, "numeric", "LONGTEXT"),
        (1700, "numeric(66,2)", "LONGTEXT"),
        (1700, "numeric(40,31)", "LONGTEXT"),
        (1700, "numeric(2,-3)", "LONGTEXT"),
        (1700, "numeric(2,5)", "LONGTEXT"),
        (25, "text", "LONGTEXT"),
        (3802, "jsonb", "LONGTEXT"),
        (1043, "character varying(20)", "VARCHAR(20)"),
        (1043, "character varying(255)", "VARCHAR(255)"),
        (1043, "character varying(256)", "LONGTEXT"),
        (1042, "character(5)", "VARCHAR(5)"),
        (1114, "timestamp(3) without time zone", "VARCHAR(80)"),
        (2950, "uuid", "VARCHAR(80)"),
    ],
)
def test_any_other_type_is_a_text_that_is_compared_exactly(oid, name, kind):
    assert declaration(oid, name, key=False, collation="c") == f"{kind} CHARACTER SET utf8mb4 COLLATE c"


@pytest.mark.parametrize(
    ("oid", "name", "declared"),
    [
        (25, "text", "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE c"),
        (1043, "character varying(300)", "VARCHAR(300) CHARACTER SET utf8mb4 COLLATE c"),
        (1043, "character varying(768)", "VARCHAR(768) CHARACTER SET utf8mb4 COLLATE c"),
        (1043, "character varying(769)", "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE c"),
        (17, "bytea", "VARBINARY(255)"),
        (23, "integer", "INT"),
    ],
)
def test_a_key_column_has_a_length(oid, name, declared):
    assert declaration(oid, name, key=True, collation="c") == declared


@pytest.mark.parametrize("key", [False, True], ids=["column", "key"])
@pytest.mark.parametrize("oid", sorted(BUILT_IN_TYPES | {99_999}), ids=type_name)
def test_the_declaration_holds_every_type(mariadb_ddl: MariaDBDDL, oid, key):
    """refuse_not_guess: a column that the program declares is one that it accepts."""
    declared = mariadb_ddl.column_type(oid, type_name(oid), key=key)
    check_column(oid, TargetColumn("c", declared, mariadb_ddl.storage(declared)))


# Columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "declared", "storage", "hint"),
    [
        ("float4", "float", "float", "DOUBLE"), ("numeric", "float", "float", "DECIMAL"),
        ("timestamp", "datetime", "datetime", "VARCHAR"), ("timestamp", "timestamp(6)", "timestamp", "VARCHAR"),
        ("time", "time(3)", "time", "VARCHAR"), ("text", "char(10)", "char", "LONGTEXT"), ("bytea", "binary(4)", "binary", "LONGBLOB"),
        ("text", "varchar(9)", f"varchar{INEXACT_KEY}", "binary collation"), ("int8", "float", "float", "BIGINT"),
        ("bpchar", "char(9)", f"char{INEXACT_KEY}", "nopad_bin"), ("float8", "double(10,2)", "double", "DOUBLE"),
        ("int4", "double(10,2) unsigned", "double", "INT"),
    ],
)  # fmt: skip
def test_a_column_that_would_change_values_is_refused(name, declared, storage, hint):
    """C3, refuse_not_guess"""
    with pytest.raises(TargetRelationError) as raised:
        check_column(OIDS[name], TargetColumn("c", declared, storage))
    assert hint in str(raised.value.hint)
    assert raised.value.column == "c"


@pytest.mark.parametrize(
    ("name", "declared", "storage"),
    [
        ("bool", "tinyint(1)", "tinyint"), ("bool", "varchar(1)", "varchar"), ("int4", "double", "double"),
        ("int8", "decimal(20,0)", "decimal"), ("float8", "double", "double"), ("bytea", "varbinary(9)", "varbinary"),
        ("timestamptz", "timestamp(6)", "timestamp"), ("timestamp", "datetime(6)", "datetime"), ("time", "time(6)", "time"),
        ("date", "date", "date"), ("uuid", "uuid", "uuid"), ("uuid", "char(36)", f"char{INEXACT_KEY}"), ("bpchar", "char(9)", "char"),
    ],
)  # fmt: skip
def test_a_column_that_holds_every_value_or_refuses_it_is_accepted(name, declared, storage):
    """C3; the texts of a uuid have letters of one case."""
    check_column(OIDS[name], TargetColumn("c", declared, storage))


@pytest.mark.parametrize(
    ("name", "declared", "read_as"),
    [
        ("int4", "int", None), ("int8", "int", None), ("text", "int", "int4"), ("numeric", "double", "float8"),
        ("text", "decimal(5,2)", "numeric"), ("date", "datetime(6)", "timestamp"), ("float8", "text", "text"), ("text", "text", None),
        ("int8", "double", "float8"),
    ],
)  # fmt: skip
def test_values_of_another_type_are_read_as_the_columns(name, declared, read_as):
    """C2, C5"""
    assert _ROLE.read_as(OIDS[name], column(declared)) == (None if read_as is None else OIDS[read_as])


# Values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "declared", "values", "bound"),
    [
        ("bool", "tinyint(1)", pa.array([True, False, None]), [1, 0, None]),
        ("bool", "text", pa.array([True, False, None]), ["t", "f", None]),
        ("int8", "bigint(20)", pa.array([2**63 - 1, None]), [2**63 - 1, None]),
        ("float4", "double", pa.array([0.1, None], pa.float32()), [0.1, None]),
        ("float8", "double", pa.array([5e-324, None]), [5e-324, None]),
        ("float8", "double", pa.array([None, None], pa.float64()), [None, None]),
        ("bytea", "longblob", pa.array([b"\0\xff", None]), [b"\0\xff", None]),
        ("numeric", "decimal(6,2)", pa.array(["1.5000", "-0001.25", None]), ["1.5000", "-0001.25", None]),
        ("int4", "decimal(3,0)", pa.array([999]), [999]),
        ("date", "date", pa.array(["0001-01-01", "9999-12-31", None]), ["0001-01-01", "9999-12-31", None]),
        ("timestamptz", "datetime(6)", pa.array(["2026-02-28 12:00:00+00", None]), ["2026-02-28 12:00:00", None]),
        ("timestamptz", "varchar(80)", pa.array(["infinity", "2026-02-28 12:00:00+00"]), ["infinity", "2026-02-28 12:00:00+00"]),
        ("text", "varchar(3)", pa.array(["één", "", None]), ["één", "", None]),
        ("text", "int", pa.array([" 0x10 ", None]), [16, None]),
        ("text", "text", pa.array([], pa.string()), []),
    ],
)  # fmt: skip
def test_a_value_is_bound_exactly(name, declared, values, bound):
    assert bind_values(OIDS[name], column(declared), values) == bound


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_double_holds_finite_numbers_only(value):
    error = refusal(701, "double", pa.array([1.0, value]))
    assert (error.sqlstate, error.message) == ("22003", 'column "c" holds finite numbers only')


@pytest.mark.parametrize("value", ["1.505", "12345", "NaN", "Infinity", "-Infinity"])
def test_a_decimal_refuses_what_it_would_round(value):
    error = refusal(1700, "decimal(6,2)", pa.array(["1.50", value]))
    assert error.sqlstate == "22003"
    assert value not in error.report()


@pytest.mark.parametrize("value", ["0044-03-15 BC", "10000-01-01", "infinity", "-infinity"])
def test_a_date_has_the_years_from_1_to_9999(value):
    assert refusal(1082, "date", pa.array(["2026-02-28", value])).sqlstate == "22008"


@pytest.mark.parametrize("value", ["0044-03-15 00:00:00 BC", "10000-01-01 00:00:00", "infinity"])
def test_a_datetime_has_the_years_from_1_to_9999(value):
    assert refusal(1114, "datetime(6)", pa.array([value])).sqlstate == "22008"


@pytest.mark.parametrize(
    ("type_oid", "declared", "value"),
    [(25, "varchar(3)", "two "), (1042, "char(3)", "two "), (17, "varbinary(3)", b"two "), (25, "varchar(3)", "four")],
)
def test_a_value_that_would_be_cut_is_refused(type_oid, declared, value):
    """If only blanks are too many, the server cuts them without an error."""
    error = refusal(type_oid, declared, pa.array([value]))
    assert (error.sqlstate, error.message) == ("22001", f"value too long for type {declared}")


def test_a_text_type_without_a_length_refuses_blanks_beyond_its_bytes():
    longest = "é" * 127 + "."  # 255 bytes
    assert bind_values(25, column("tinytext"), pa.array([longest, None])) == [longest, None]
    assert refusal(25, "tinytext", pa.array([longest + " "])).sqlstate == "22001"
    # The server itself refuses a text that does not end with a blank.
    assert bind_values(25, column("tinytext"), pa.array([longest + "."])) == [longest + "."]


@pytest.mark.parametrize(
    ("type_oid", "declared", "value", "known"),
    [
        (1700, "decimal(5,2)", "-1.00", True), (1700, "decimal(5,2) unsigned", "-1.00", False), (1700, "decimal(5,2)", "1000", False),
        (701, "double", "-1", True), (701, "double unsigned", "-1", False), (20, "bigint(20)", "-1", True), (20, "bigint(20) unsigned", "-1", False),
        (20, "int(11)", "2147483648", False), (25, "text", "a" * 4_000, True), (25, "text", "a" * 4_001, False), (25, "tinytext", "a" * 256, False),
        (25, "text", "é", False), (1083, "time(6)", "12:00:00", False),
    ],
)  # fmt: skip
def test_a_value_that_the_server_may_refuse_is_not_known_to_be_accepted(type_oid, declared, value, known):
    """fast_equals_exact: such a value is written even if a later change overwrites it."""
    values = decode_column(type_oid, pa.array([value.encode(), None], pa.binary()), binary=False, column=1)
    assert accepts(type_oid, -1, column(declared), values) is known


# COPY's text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "declared", "sql"),
    [
        ("bool", "tinyint(1)", "@c1 = 't'"),
        ("bool", "text", None),
        ("bytea", "longblob", "UNHEX(SUBSTR(@c1, 3))"),
        ("timestamptz", "timestamp(6)", "TRIM(TRAILING '+00' FROM @c1)"),
        ("timestamptz", "varchar(80)", None),
        ("timestamp", "datetime(6)", None),
        ("int4", "int", None),
    ],
)
def test_a_text_that_mariadb_writes_in_another_form_passes_through_a_variable(name, declared, sql):
    assert from_text(OIDS[name], column(declared), "@c1") == sql


# Counters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "greatest"),
    [
        ("tinyint(4)", 127), ("tinyint(3) unsigned", 255), ("smallint(6)", 32_767), ("mediumint(9)", 8_388_607),
        ("int(11)", 2_147_483_647), ("int(10) unsigned", 4_294_967_295), ("bigint(20)", 9_223_372_036_854_775_807),
        ("bigint(20) unsigned", 18_446_744_073_709_551_615),
    ],
)  # fmt: skip
def test_the_largest_integer_is_that_of_mariadbs_type(declared, greatest):
    """https://mariadb.com/kb/en/numeric-data-type-overview/"""
    assert greatest_integer(column(declared)) == greatest


# The role values of MariaDB. Its rules are tested in test_values.py.


COLUMN_VALUES = MariaDBValues()


@pytest.mark.parametrize(
    ("storage", "sql"),
    [
        ("int", "a"),
        ("date", "a"),
        ("datetime", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
        ("timestamp", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
        ("time", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
    ],
)
def test_a_time_is_read_without_zeros_at_the_end_of_its_fraction(storage, sql):
    assert str(COLUMN_VALUES.readable(TargetColumn("a", storage, storage)).compile(dialect=mysql.dialect())) == sql


def test_the_rules_are_mariadbs():
    boolean = TargetColumn("a", "tinyint(1)", "tinyint")
    assert COLUMN_VALUES.bind_values(16, boolean, pa.array([True, None])) == [1, None]
    with pytest.raises(TargetRelationError):
        COLUMN_VALUES.check_column(25, boolean)


# The conditions that find a row, as MariaDB's SQL.


EXACTLY = "CAST(t.a AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_nopad_bin"
VALUE = sa.literal("x")


@pytest.fixture
def matching(target):
    return target.matching


def matched_column(storage: str) -> TargetColumn:
    return TargetColumn("a", storage, storage)


def sql(statement: sa.ClauseElement) -> str:
    return " ".join(str(statement.compile(dialect=mysql.dialect(), compile_kwargs={"literal_binds": True})).split())


def clause(of: TargetColumn) -> sa.ColumnElement[str]:
    return TargetTable(None, "t", (of,), None).clause().c.a


@pytest.mark.parametrize(
    ("storage", "compared"),
    [
        ("varchar", EXACTLY),
        ("longtext", EXACTLY),
        (f"varchar{INEXACT_KEY}", EXACTLY),
        ("char", "CAST(t.a AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin"),
        ("int", "t.a"),
        ("longblob", "t.a"),
    ],
)
def test_a_text_is_compared_exactly_whatever_its_collation_is(matching, storage, compared):
    """C14: a CHAR has no blanks at the end, so its collation may ignore them."""
    assert sql(matching.comparable(matched_column(storage), clause(matched_column(storage)))) == compared


def test_where_no_collation_compares_blanks_bytes_are_compared(target, matching):
    """C14"""
    learn(target.engine.dialect, MariaDBFacts(exact_collation=None))
    varchar = matched_column("varchar")
    bytes_ = "CAST(CAST(t.a AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
    assert sql(matching.finds(varchar, clause(varchar), VALUE)) == f"t.a = 'x' AND {bytes_} = 'x'"


@pytest.mark.parametrize(
    ("storage", "condition"),
    [("varchar", f"t.a = 'x' AND ({EXACTLY}) = 'x'"), ("char", "t.a = 'x'"), ("date", "t.a = 'x'")],
)
def test_a_row_is_found_by_the_index_and_then_compared_exactly(matching, storage, condition):
    """C8"""
    assert sql(matching.finds(matched_column(storage), clause(matched_column(storage)), VALUE)) == condition


def test_in_a_whole_row_null_equals_null(matching):
    """C14"""
    assert sql(matching.is_same(matched_column("text"), clause(matched_column("text")), VALUE)) == f"({EXACTLY}) <=> %s"


@pytest.mark.parametrize(
    ("name", "storage", "equality"),
    [
        ("numeric", "decimal", EXACT),
        ("numeric", "varchar", equality_of(OIDS["numeric"])),
        ("json", "longtext", equality_of(OIDS["json"])),
        ("text", "varchar", EXACT),
    ],
)
def test_the_equality_is_the_publishers_except_in_a_decimal(matching, name, storage, equality):
    """C14, C17"""
    assert matching.equality(OIDS[name], matched_column(storage)) == equality


@pytest.mark.parametrize(
    ("name", "storage", "same"),
    [
        ("int4", "int", True),
        ("text", "varchar", True),
        ("numeric", "decimal", True),
        ("numeric", "varchar", False),  # 1.0 finds 1.00
        ("bpchar", "char", False),
        ("float8", "double", False),
        ("timestamptz", "timestamp", False),  # ON UPDATE CURRENT_TIMESTAMP
        ("text", f"varchar{INEXACT_KEY}", False),
    ],
)
def test_a_key_column_is_left_out_of_set_if_equal_values_are_stored_alike(matching, name, storage, same):
    table = TargetTable(None, "t", (matched_column(storage),), ("a",))
    assert matching.found_as_written(OIDS[name], table, matched_column(storage)) is same


def test_of_equal_rows_one_is_changed(matching):
    """C16"""
    table = TargetTable(None, "t", (matched_column("int"),), None).clause()
    assert sql(matching.change_first(sa.delete(table))) == "DELETE FROM t LIMIT 1"
    assert sql(matching.change_first(sa.update(table).values(a=sa.literal(1)))) == "UPDATE t SET a=1 LIMIT 1"


# Which values a column of MariaDB cannot hold: agrees with what is bound, and knows of
# what the server refuses.


unrepresentable_values = _ROLE.unrepresentable_values

INF, NAN = float("inf"), float("nan")


def column_declared(declared: str) -> TargetColumn:
    return TargetColumn("c", declared, declared.partition("(")[0].partition(" ")[0])


@pytest.mark.parametrize(
    ("type_oid", "declared", "values", "refused"),
    [
        (701, "double", pa.array([1.0, NAN, None, INF, -INF]), [1, 3, 4]),
        (700, "double", pa.array([0.1, NAN], pa.float32()), [1]),
        (1700, "decimal(5,2)", pa.array(["999.99", "1000", "NaN", "0.001", "0.100", None, "Infinity"]), [1, 2, 3, 6]),
        (23, "decimal(3,0)", pa.array([999, 1000, -1000], pa.int32()), [1, 2]),
        (1082, "date", pa.array(["2026-01-01", "0044-03-15 BC", "infinity", "10000-01-01", None]), [1, 2, 3]),
        (1114, "datetime(6)", pa.array(["9999-12-31 23:59:59.999999", "-infinity"]), [1]),
        (1082, "datetime(6)", pa.array(["2026-01-01", "infinity", "infinity"]), [1, 2]),
        (25, "varchar(3)", pa.array(["äöü", "abcd", "abc ", None]), [1, 2]),
        (25, "tinytext", pa.array(["x" * 255 + " ", "x" * 255]), [0]),
        (17, "varbinary(2)", pa.array([b"ab", b"abc"]), [1]),
        (25, "int", pa.array(["1", "x", None, "x", "2"]), [1, 3]),
        (1700, "double", pa.array(["0.5", "0.1234567890123456789"]), [1]),
        (16, "tinyint", pa.array([True, None]), []),
        (25, "longtext", pa.array(["x" * 70_000]), []),
        (2950, "uuid", pa.array(["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]), []),
    ],
)
def test_exactly_the_values_that_are_not_bound_are_refused(type_oid, declared, values, refused):
    mask = unrepresentable_values(type_oid, column_declared(declared), values)
    assert [number for number, one in enumerate(mask.to_pylist()) if one] == refused
    for number in range(len(values)):
        try:
            bind_values(type_oid, column_declared(declared), values.slice(number, 1))
        except UnsupportedValue:
            assert number in refused
        else:
            assert number not in refused


@pytest.mark.parametrize(
    ("type_oid", "declared", "values", "refused"),
    [
        (20, "int", pa.array([2**31 - 1, 2**31, -(2**31) - 1]), [1, 2]),
        (20, "int unsigned", pa.array([2**32 - 1, 2**32, -1]), [1, 2]),
        (17, "blob", pa.array([b"x" * 65_535, b"x" * 65_536]), [1]),
        (25, "text", pa.array(["x" * 65_536, "ä" * 65_535, "x" * 65_535]), [0]),
    ],
)
def test_what_the_server_refuses_because_of_the_type_is_known(type_oid, declared, values, refused):
    mask = unrepresentable_values(type_oid, column_declared(declared), values)
    assert [number for number, one in enumerate(mask.to_pylist()) if one] == refused
    assert len(bind_values(type_oid, column_declared(declared), values)) == len(values)
