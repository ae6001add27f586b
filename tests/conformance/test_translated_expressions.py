"""Every expression that is translated has PostgreSQL's value in the target, for each sample, NULL
included; and what is not known to have it is refused by name.
"""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest

from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.targets.ddl import create_table
from subscriber.targets.table_changes import CannotBuild
from subscriber.targets.target_table import TargetColumn, TargetTable
from tests.table_shapes import read_shape
from tests.target_databases import opened
from tests.unit.targets.tables import reflected

pytestmark = pytest.mark.server

ROWS = """
CREATE TYPE mood AS ENUM ('ok', 'it''s bad');
CREATE TABLE samples (k int PRIMARY KEY, a int, b bigint, t text, v varchar(20), flag boolean, n numeric(10,2), day date, other date, m mood);
INSERT INTO samples VALUES
 (1, -7, 3, 'it''s', 'v', true, 1.50, '2024-02-29', '2024-03-01', 'ok'), (2, 0, -1, '', 'w', false, 0, '1999-12-31', '1999-12-31', 'it''s bad'),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, 7, 7, 'é ß %_', 'é ', true, -0.01, '0001-01-01', NULL, 'ok'),
 (5, 1000000000, 1, 'ITS', 'V', NULL, 99999999.99, '2000-01-01', '1000-01-01', NULL);
"""
TYPES = {"m": 25}
"""The values of an enum are texts in the target."""
EVERYWHERE = [
    "a + 1 - b", "a * 2", "- a", "a % 3", "abs(b)", "NULLIF(a, 7)", "COALESCE(a, b, 5)", "a > 0", "a <> 7", "a >= b", "a IS NULL", "a IS NOT NULL",
    "NOT (a > 0)", "a > 0 AND b > 0 AND flag", "a > 0 OR flag OR b IS NULL", "NOT flag", "flag = true", "a IN (0, 7)", "a BETWEEN -7 AND 0",
    "a IS DISTINCT FROM b", "NOT (a IS DISTINCT FROM b)", "t = 'it''s'", "t <> ''", "v = 'v'", "v = 'v '", "v IN ('v', 'V', 'x')", "t || v", "length(t)", "length(v) > 1",
    "COALESCE(v, 'none')", "t IS DISTINCT FROM 'ITS'", "m = 'ok'", "m IN ('ok', 'it''s bad')", "n IS NULL", "day IS NOT NULL", "a = ANY (ARRAY[1, 0])",
]  # fmt: skip
SOMEWHERE = {
    "n > 0": {"mariadb", "duckdb"}, "n >= 0.5 AND n < a": {"mariadb", "duckdb"}, "n <> 1.5": {"mariadb", "duckdb"},
    "day > '2000-01-01'": {"mariadb", "duckdb"}, "day <= other": {"mariadb", "duckdb"}, "day = other": {"mariadb", "duckdb"},
}  # fmt: skip
NOWHERE = {
    "a / 2": "operator /", "lower(t)": "function lower", "t < 'x'": 'the order of column "t"', "t LIKE 'i%'": "operator ~~", "t ~ 'i'": "operator ~",
    "round(n)": "function round", "n * 2 > 1": 'column "n"', "flag IS TRUE": "IS TRUE", "m > 'ok'": "the order", "md5(t) = 'x'": "function md5",
    "now() > '2000-01-01'": "function current_timestamp", "t = E'a\\\\b'": "backslash", "a::text = '7'": "operation",
}  # fmt: skip


def columns_of(shape: PublisherTable, table: TargetTable) -> dict[str, tuple[int, TargetColumn]]:
    """The type at the publisher and the target's column, by name."""
    return {
        one.name: (TYPES.get(one.name, one.type_oid), here)
        for one in shape.columns
        if (here := table.column(one.name)) is not None
    }


@pytest.fixture
def publisher(publisher_database):
    publisher_database.execute(ROWS)
    with psycopg.connect(publisher_database.conninfo, autocommit=True) as connection:
        yield connection


def stored(publisher, expression: str) -> str:
    """The expression as ``pg_get_expr`` prints it."""
    publisher.execute(f"CREATE INDEX stored ON samples (({expression}))")
    publisher.execute("SET search_path = ''")
    text: str
    (text,) = publisher.execute(
        "SELECT pg_get_expr(indexprs, indrelid) FROM pg_index WHERE indexrelid = 'public.stored'::regclass"
    ).fetchone()
    publisher.execute("SET search_path = public")
    publisher.execute("DROP INDEX stored")
    return text


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", pytest.param("mariadb", marks=pytest.mark.long)])
def test_both_sides_have_the_same_value(kind, request, publisher, tmp_path):
    shape = read_shape(publisher, "public", "samples")
    assert shape is not None
    with opened(kind, request, tmp_path) as target:
        with target.begin() as connection:
            create_table(target, shape).create(connection)
        table = reflected(target, "samples")
        columns = columns_of(shape, table)
        _fill(publisher, target)

        def translated(expression: str) -> str:
            return target.objects.expression(stored(publisher, expression), columns, enums={"public.mood"})

        different = {}
        for expression in (*EVERYWHERE, *SOMEWHERE):
            if kind in SOMEWHERE.get(expression, {kind}):
                here = target.query(f"SELECT k, {translated(expression)} FROM samples ORDER BY k").rows
                there = publisher.execute(f"SELECT k, {expression} FROM samples ORDER BY k").fetchall()
                pairs = [(_plain(one[1]), _plain(other[1])) for one, other in zip(here, there, strict=True)]
                if any(one != other for one, other in pairs):
                    different[expression] = pairs
            else:
                with pytest.raises(CannotBuild):
                    translated(expression)
        assert different == {}


def test_what_is_not_known_is_refused_by_name(request, publisher, tmp_path):
    shape = read_shape(publisher, "public", "samples")
    assert shape is not None
    with opened("sqlite", request, tmp_path) as target:
        with target.begin() as connection:
            create_table(target, shape).create(connection)
        table = reflected(target, "samples")
        columns = columns_of(shape, table)
        for expression, part in NOWHERE.items():
            with pytest.raises(CannotBuild, match="is not known to mean the same in SQLite") as raised:
                target.objects.expression(_printed(publisher, expression), columns, enums={"public.mood"})
            assert part in raised.value.reason, expression


def _printed(publisher, expression: str) -> str:
    """An expression that no index can have, as the server prints it in a CHECK constraint."""
    publisher.execute("ALTER TABLE samples DROP CONSTRAINT IF EXISTS printed")
    boolean = publisher.execute(f"SELECT pg_typeof({expression})::text FROM samples LIMIT 1").fetchone()[0] == "boolean"
    check = expression if boolean else f"({expression}) IS NOT NULL"
    publisher.execute(f"ALTER TABLE samples ADD CONSTRAINT printed CHECK ({check}) NOT VALID")
    publisher.execute("SET search_path = ''")
    text: str
    (text,) = publisher.execute(
        "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint WHERE conname = 'printed'"
    ).fetchone()
    publisher.execute("SET search_path = public")
    return text


def _fill(publisher, target) -> None:
    rows = publisher.execute(
        "SELECT k, a, b, t, v, flag, n::text, day::text, other::text, m::text FROM samples"
    ).fetchall()
    for row in rows:
        written = ", ".join(_literal(value) for value in row)
        with target.engine.begin() as connection:
            connection.execution_options(no_parameters=True).exec_driver_sql(f"INSERT INTO samples VALUES ({written})")


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _plain(value: object) -> str | None:
    """A value of either side as a text: 1 and true are the same."""
    if value is None:
        return None
    text = str(value)
    text = {"True": "1", "False": "0", "true": "1", "false": "0", "t": "1", "f": "0"}.get(text, text)
    return str(Decimal(text).normalize()) if text.lstrip("-").replace(".", "", 1).isdecimal() else text
