"""How MariaDB stores PostgreSQL's values: declarations, refused columns, bound values."""

from __future__ import annotations

import math
import re

import pyarrow as pa
import pytest

from subscriber.errors import TargetRelationError, UnsupportedValue
from subscriber.targets import TargetColumn
from subscriber.targets.mariadb.ddl import MariaDBDDL
from subscriber.targets.mariadb.values import (
    INEXACT_KEY,
    accepts,
    bind_values,
    check_column,
    conversion_of,
    declaration,
    from_text,
    greatest_integer,
)
from subscriber.types import BUILT_IN_TYPES, decode_column, type_name
from tests.frames import OIDS


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
        (1043, "character varying(300)", "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE c"),
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
    assert conversion_of(OIDS[name], column(declared)) == (None if read_as is None else OIDS[read_as])


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
    assert accepts(type_oid, column(declared), values) is known


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
