"""What create_tables leaves out, with the publisher's DDL."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.shape import RelatedDifference, SchemaDifference
from subscriber.publisher.omitted_objects import schema_objects
from tests.scripted_server import VERSIONS, Answer, Row, ScriptedServer

OBJECTS = {
    "FROM up JOIN pg_class r": "partitioned table",
    "FROM below JOIN": "partition",
    "'INHERITS ('": "inheritance",
    "NOT i.indisunique": "index",
    "v.relkind = 'v'": "view",
    "v.relkind = 'm'": "materialized view",
    "pg_get_triggerdef": "trigger",
    "pg_get_ruledef": "rule",
    "FROM pg_policy": "policy",
    "HAVING count(*) > 1": "shared sequence",
}
"""For each kind of object, a part of its query."""


def column(
    name: str,
    type_name: str = "integer",
    *,
    generated: str = "",
    expression: str | None = None,
    collation: str | None = None,
    type_oid: int = 23,
    kind: str = "b",
    own_name: str = "",
    base: str = "-",
    constraints: str = "",
    labels: str | None = None,
    extension: str | None = None,
) -> Row:
    """A row of the query for columns; the last seven are about the type, or an array's element."""
    return {
        "attrelid": 16384, "relation": "public.film", "attname": name, "format_type": type_name,
        "attgenerated": generated, "adbin": expression, "collation": collation, "oid": type_oid, "typtype": kind,
        "type": own_name, "base": base, "constraints": constraints, "labels": labels, "extension": extension,
    }  # fmt: skip


def server_with(*columns: Row, objects: Mapping[str, Row] | None = None, version: int = 180000) -> ScriptedServer:
    """A server with a table film that has these columns and objects."""
    answers: dict[str, Answer] = {
        part: [one] if (one := (objects or {}).get(kind)) else [] for part, kind in OBJECTS.items()
    }
    answers["a.attrelid::int8, "] = columns
    answers["SELECT c.oid::int8"] = [{"oid": 16384, "nspname": "public", "relname": "film"}]
    return ScriptedServer(answers, version=version)


def differences(*columns: Row, sent: tuple[str, ...] | None = None, version: int = 180000) -> list[SchemaDifference]:
    server = server_with(*columns, version=version)
    found = schema_objects(server.connection, [PublishedTable("public", "film", columns=sent)])
    assert {one.relation for one in found} <= {"public.film"}
    return [one.difference for one in found]


def test_without_tables_nothing_is_asked():
    server = ScriptedServer()
    assert schema_objects(server.connection, []) == []
    assert server.asked == []


@pytest.mark.parametrize("kind", OBJECTS.values())
def test_each_kind_of_object_is_told_with_its_table_and_its_ddl(kind):
    row = {"relation": "public.film", "name": "x", "ddl": "CREATE …"}
    server = server_with(objects={kind: row})
    (found,) = schema_objects(server.connection, [PublishedTable("public", "film")])
    assert (found.relation, found.difference.kind) == ("public.film", kind)
    assert (found.difference.object, found.difference.ddl) == ("x", "CREATE …")
    assert found.difference.reason


def test_a_plain_column_is_no_difference():
    assert differences(column("id")) == []
    assert differences(column("id"), sent=("id",)) == []


def test_a_column_that_is_not_published_is_left_out():
    assert differences(column("id"), column("secret", "text"), sent=("id",)) == [
        SchemaDifference("column", "secret", "secret text", "it is not published, so the target has no such column")
    ]


def test_a_column_without_a_name_in_the_list_is_told_once():
    """Its collation and its type are gone with it."""
    (found,) = differences(column("mood", "mood", collation='pg_catalog."C"', type_oid=16390, kind="e"), sent=())
    assert found.kind == "column"


@pytest.mark.parametrize(("letter", "word"), [("s", "STORED"), ("v", "VIRTUAL")])
def test_a_generated_column_is_left_out_or_becomes_a_plain_one(letter, word):
    made = column("total", generated=letter, expression="a + b")
    ddl = f"total integer GENERATED ALWAYS AS (a + b) {word}"
    left_out = SchemaDifference(
        "generated column", "total", ddl, "it is not published, so the target has no such column"
    )
    plain = SchemaDifference("generated column", "total", ddl, "it is an ordinary column with the publisher's values")
    assert differences(made) == [left_out]
    assert differences(made, sent=()) == [left_out]
    assert differences(made, sent=("total",)) == [plain]


def test_a_collation_of_the_column_is_told():
    assert differences(column("title", "text", collation='pg_catalog."C"')) == [
        SchemaDifference("collation", "title", 'COLLATE pg_catalog."C"', "the column has the target's collation")
    ]


@pytest.mark.parametrize(
    ("row", "ddl"),
    [
        (column("c", type_oid=16384, kind="e", own_name="s.mood", labels="'ok', 'sad'"), "CREATE TYPE s.mood AS ENUM ('ok', 'sad')"),
        (column("c", type_oid=16384, kind="e", own_name="s.none"), "CREATE TYPE s.none AS ENUM ()"),
        (
            column("c", type_oid=16384, kind="d", own_name="s.age", base="integer", constraints=" NOT NULL CONSTRAINT k CHECK ((VALUE > 0))"),
            "CREATE DOMAIN s.age AS integer NOT NULL CONSTRAINT k CHECK ((VALUE > 0))",
        ),
        (column("c", type_oid=16384, kind="c", own_name="s.pair"), "CREATE TYPE s.pair AS (…)"),
        (column("c", type_oid=16384, kind="r", own_name="s.span"), "CREATE TYPE s.span AS RANGE (…)"),
        (column("c", type_oid=16384, kind="m", own_name="s.spans"), "CREATE TYPE s.spans AS RANGE (…)"),
        (column("c", type_oid=16384, kind="b", own_name="s.box3"), "CREATE TYPE s.box3"),
        (column("c", type_oid=16384, kind="b", own_name="public.citext", extension="citext"), "CREATE EXTENSION citext"),
    ],
    ids=["enum", "empty enum", "domain", "composite", "range", "multirange", "base", "extension"],
)  # fmt: skip
def test_a_users_type_is_told_with_its_ddl(row, ddl):
    assert differences(row) == [
        SchemaDifference("type", "c", ddl, "the column has type text, and its values are not checked")
    ]


def test_the_types_of_the_server_are_no_difference():
    """FirstNormalObjectId is 16384."""
    assert differences(column("c", type_oid=16383)) == []


def test_a_table_of_another_name_does_not_lend_its_column_list():
    server = server_with(column("id"))
    tables = [PublishedTable("other", "film", columns=()), PublishedTable("public", "film", columns=("id",))]
    assert schema_objects(server.connection, tables) == []
    assert server.asked[1].parameters == (["other", "public"], ["film", "film"])


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    row = {"relation": "public.film", "name": "film_title", "ddl": "CREATE INDEX …"}
    server = server_with(column("id"), objects={"index": row}, version=version)
    assert schema_objects(server.connection, [PublishedTable("public", "film")]) == [
        RelatedDifference(
            "public.film", SchemaDifference("index", "film_title", "CREATE INDEX …", "only unique keys are created")
        )
    ]
    assert bool(server.statements("attgenerated")) is (version >= 120000)
