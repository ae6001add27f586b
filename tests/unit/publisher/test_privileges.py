"""Which tables the role of a CONNECTION cannot copy, and the statements that allow it."""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.table_checks import UnreadableTable, read_refused, unreadable_tables
from tests.scripted_server import VERSIONS, Row, ScriptedServer


def privileges(
    name: str, *, in_schema: bool = True, whole: bool = True, closed: tuple[str, ...] = (), schema: str = "public"
) -> Row:
    """The privileges of role ann for a table; ``closed`` are columns that it may not read."""
    return {
        "nspname": schema, "relname": name, "current_user": "ann", "has_schema_privilege": in_schema,
        "has_table_privilege": whole, "closed": list(closed),
    }  # fmt: skip


def grants(row: Row, columns: tuple[str, ...] | None = None) -> list[tuple[str, ...]]:
    server = ScriptedServer({"has_table_privilege": [row]})
    table = PublishedTable(str(row["nspname"]), str(row["relname"]), columns=columns)
    return [table.grants for table in unreadable_tables(server.connection, [table])]


SELECT = 'GRANT SELECT ON TABLE "public"."film" TO "ann"'
USAGE = 'GRANT USAGE ON SCHEMA "public" TO "ann"'


@pytest.mark.parametrize(
    ("row", "columns", "expected"),
    [
        (privileges("film"), None, []),
        (privileges("film", whole=False), None, []),
        (privileges("film", whole=False, closed=("price",)), None, [(SELECT,)]),
        (privileges("film", whole=False, closed=("price",)), ("id",), []),
        (privileges("film", whole=False, closed=("price",)), ("id", "price"), [(SELECT,)]),
        (privileges("film", in_schema=False), None, [(USAGE,)]),
        (privileges("film", in_schema=False, whole=False, closed=("id",)), None, [(USAGE, SELECT)]),
    ],
    ids=["all", "each column", "a column", "not published", "published", "schema", "schema and table"],
)
def test_select_on_the_columns_that_are_read_is_enough(row, columns, expected):
    """PostgreSQL checks SELECT on the table, or else on each column that a statement reads."""
    assert grants(row, columns) == expected


def test_names_are_quoted_in_the_statements():
    """Invariant names_are_data."""
    assert grants(privileges('a"b', schema="S", whole=False, closed=("x",))) == [
        ('GRANT SELECT ON TABLE "S"."a""b" TO "ann"',)
    ]


def test_tables_are_told_in_the_order_given_without_those_that_no_longer_exist():
    server = ScriptedServer(
        {"has_table_privilege": [privileges("a", in_schema=False), privileges("b", in_schema=False)]}
    )
    tables = [PublishedTable("public", name) for name in ("b", "gone", "a")]
    assert [table.qualified_name for table in unreadable_tables(server.connection, tables)] == ["public.b", "public.a"]
    assert server.asked[0].parameters == (["public"] * 3, ["b", "gone", "a"])


@pytest.mark.parametrize("version", VERSIONS)
def test_generated_columns_do_not_count_where_they_cannot_be_published(version):
    """Before PostgreSQL 15 no column list says which columns are sent, and generated ones are not.
    From 15 on, every table comes with its columns.
    """
    server = ScriptedServer({"has_table_privilege": []}, version=version)
    assert unreadable_tables(server.connection, [PublishedTable("public", "t")]) == []
    assert bool(server.statements("a.attgenerated = ''")) is (120000 <= version < 150000)


@pytest.mark.parametrize(("first", "what"), [(USAGE, "schema public"), (SELECT, "table film")])
def test_a_copy_that_is_refused_has_postgresqls_words_and_what_to_run(first, what):
    error = read_refused(UnreadableTable("public", "film", "ann", (first, SELECT)))
    assert error.message == (
        f'could not start initial contents copy for table "public.film": permission denied for {what}'
    )
    assert (error.sqlstate, error.relation) == ("42501", "public.film")
    assert error.hint == f"Run at the publisher: {first}; {SELECT};"
