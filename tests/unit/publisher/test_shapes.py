"""The shapes of tables, from the rows of the server's catalogs. The server computes the values of
constants (tests/conformance/test_shapes.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.shape import ForeignKey, UniqueKey
from subscriber.publisher.shapes import is_constant, published_shape, read_shapes
from tests import catalog_rows
from tests.catalog_rows import COLUMNS, INDEXES, KEYS, PARENTS, TABLES, relation
from tests.scripted_server import VERSIONS, Answer, Row, ScriptedServer
from tests.table_shapes import column_shape, elsewhere, table_shape


@pytest.mark.parametrize(
    ("expression", "constant"),
    [
        ("5", True),
        ("(- 5)", True),
        ("'-5'::integer", True),
        ("'x'::character varying(5)", True),
        ("'{1,2}'::integer[]", True),
        ("ARRAY[1, 2]", True),
        ("B'101'::\"bit\"", True),
        ("'1 day'::interval", True),
        ("'ok'::sales.mood", True),
        ("NULL::text", True),
        ("true", True),
        ("(1 + 2)", False),
        ("now()", False),
        ("CURRENT_TIMESTAMP", False),
        ("('now'::text)::date", False),
        ("sales.f(1)", False),
        ("nextval('s'::regclass)", False),
        ("random()", False),
        ("not ( an expression", False),
    ],
)
def test_a_constant_is_told_from_what_is_computed(expression, constant):
    assert is_constant(expression) is constant


# Shapes -------------------------------------------------------------------------------------------

OID = 16384


def column(name: str, type_oid: int = 23, type_name: str = "integer", **properties: Any) -> Row:
    return catalog_rows.column(OID, 1, name, type_oid, type_name, **properties)


def index(name: str, *columns: str, **properties: Any) -> Row:
    return catalog_rows.index(OID, name, *columns, **properties)


def check(name: str, expression: str, *, valid: bool = True) -> Row:
    """A row of pg_constraint."""
    ddl = f"CHECK ({expression})" if valid else f"CHECK ({expression}) NOT VALID"
    return {"conrelid": OID, "convalidated": valid, "conname": name, "ddl": ddl, "expression": expression}


def foreign_key(column_name: str, *, on_delete: str = "a", on_update: str = "a") -> Row:
    """A row of pg_constraint for a reference to public.actor (id)."""
    return {
        "conrelid": OID, "columns": [column_name], "nspname": "public", "relname": "actor", "referenced": ["id"],
        "confdeltype": on_delete, "confupdtype": on_update, "confdelsetcols": [], "full": False,
        "condeferrable": True, "condeferred": False, "plain": True, "conname": "film_fk", "ddl": "FOREIGN KEY …",
        "types": ["integer"], "other_types": ["integer"],
    }  # fmt: skip


def server_with(
    *columns: Row,
    indexes: tuple[Row, ...] = (),
    checks: tuple[Row, ...] = (),
    not_null: tuple[Row, ...] = (),
    foreign_keys: tuple[Row, ...] = (),
    partitioned: bool = False,
    version: int = 180000,
) -> ScriptedServer:
    answers: dict[str, Answer] = {
        TABLES: [relation(OID, "film", kind="p" if partitioned else "r")],
        KEYS: [],
        PARENTS: [],
        COLUMNS: columns,
        INDEXES: indexes,
        "pg_get_expr(conbin": checks,
        "' IS NOT NULL'": not_null,
        "confdeltype": foreign_keys,
    }
    return ScriptedServer(answers, version=version)


def shape(*columns: Row, **options: Any) -> PublisherTable:
    return elsewhere(read_shapes(server_with(*columns, **options).connection, [("public", "film")])[OID])


def test_a_table_that_does_not_exist_has_no_shape():
    server = ScriptedServer({"WHERE": []})
    assert read_shapes(server.connection, [("s", "it's")]) == {}
    (asked,) = server.statements(TABLES)
    assert asked.parameters == (["s"], ["it's"])


def test_columns_are_read_with_their_properties():
    found = shape(
        column("id", nullable=False, identity="a"),
        column("at", 1184, "timestamp with time zone", expression="now()"),
        column("double", generated="s", expression="(id * 2)"),
    )
    assert found.columns == (
        column_shape("id", 23, "integer", nullable=False, identity="a"),
        column_shape("at", 1184, "timestamp with time zone", default="now()"),
        column_shape("double", 23, "integer", generated="stored", expression="(id * 2)"),
    )
    assert (found.qualified_name, found.is_partitioned) == ("public.film", False)


@pytest.mark.parametrize(
    ("expression", "serial"),
    [
        ("nextval('film_id_seq'::regclass)", True),
        ("nextval('public.\"Film''s\"'::regclass)", True),
        ("(nextval('film_id_seq'::regclass))::integer", True),
        ("(nextval('film_id_seq'::regclass) + 1)", False),
        ("('x'::text || nextval('film_id_seq'::regclass))", False),
    ],
)
def test_a_column_is_serial_if_its_default_is_the_next_value_itself(expression, serial):
    (found,) = shape(column("id", serial=True, expression=expression)).columns
    assert (found.serial, found.default) == (serial, expression)


PRIMARY = index("film_pkey", "id", primary=True)


@pytest.mark.parametrize(
    ("indexes", "key", "unique"),
    [
        ((), (), ()),
        ((PRIMARY,), ("id",), ()),
        ((PRIMARY, index("u", "a", "b")), ("id",), (UniqueKey(("a", "b")),)),
        ((PRIMARY, index("u", "a", identity=True)), ("a",), (UniqueKey(("id",)),)),
        ((index("u", "a"),), (), (UniqueKey(("a",)),)),
        (
            (index("film_pkey", "id", primary=True, deferrable=True),),
            (),
            (UniqueKey(("id",), deferrable=True),),
        ),
        ((index("u", "a", nulls_distinct=False),), (), (UniqueKey(("a",), nulls_distinct=False),)),
    ],
    ids=["none", "primary", "unique", "replica identity", "no primary", "deferrable", "nulls not distinct"],
)
def test_rows_are_identified_by_the_replica_identity_or_else_the_primary_key(indexes, key, unique):
    """C11: RelationGetReplicaIndex and GetRelationIdentityOrPK."""
    found = shape(column("id"), indexes=indexes)
    assert (found.key_columns, found.unique) == (key, unique)


def test_unique_indexes_with_a_condition_are_named_only():
    found = shape(
        column("id"),
        indexes=(index("film_partial", "id", predicate="(id > 0)"),),
    )
    assert (found.others, found.unique) == (("film_partial",), ())
    assert found.definitions == {"film_partial": ("film_partial", "CREATE UNIQUE INDEX i ON t USING btree …")}


@pytest.mark.parametrize(
    ("letter", "action"),
    [("a", "NO ACTION"), ("r", "RESTRICT"), ("c", "CASCADE"), ("n", "SET NULL"), ("d", "SET DEFAULT")],
)
def test_a_foreign_key_has_its_actions(letter, action):
    """pg_constraint.confdeltype and confupdtype."""
    deleted = shape(column("a"), foreign_keys=(foreign_key("a", on_delete=letter),)).foreign_keys
    updated = shape(column("a"), foreign_keys=(foreign_key("a", on_update=letter),)).foreign_keys
    assert deleted == (ForeignKey(("a",), "public", "actor", ("id",), on_delete=action, deferrable=True),)
    assert updated == (ForeignKey(("a",), "public", "actor", ("id",), on_update=action, deferrable=True),)


def test_checks_are_read_with_their_ddl():
    found = shape(column("id"), checks=(check("positive", "(id > 0)"),))
    assert (found.checks, found.definitions) == (("(id > 0)",), {"(id > 0)": ("positive", "CHECK ((id > 0))")})


def test_constraints_that_rows_may_violate_are_apart():
    """The copy would stop at such a row."""
    kept, old = check("kept", "(id > 0)"), check("old", "(id < 9)", valid=False)
    found = shape(column("id"), checks=(kept, old), not_null=(check("n", "id IS NOT NULL", valid=False),))
    assert (found.checks, found.unmet) == (("(id > 0)",), ("(id < 9)", "id IS NOT NULL"))
    assert found.definitions["(id < 9)"] == ("old", "CHECK ((id < 9)) NOT VALID")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_servers_version_has_is_asked_for(version):
    server = server_with(column("id"), version=version)
    assert read_shapes(server.connection, [("public", "film")]) != {}
    for name, since in (
        ("indnkeyatts", 110000),
        ("conparentid", 110000),
        ("attgenerated", 120000),
        ("indnullsnotdistinct", 150000),
        ("confdelsetcols", 150000),
        ("conenforced AND NOT conperiod", 180000),
    ):
        assert bool(server.statements(name)) is (version >= since)


# Published shapes ---------------------------------------------------------------------------------

FILM = table_shape(
    "public",
    "film",
    (
        column_shape("id", 23, "integer"),
        column_shape("a", 23, "integer"),
        column_shape("g", 23, "integer", generated="stored", expression="a"),
    ),
    key=("id",),
    unique=(UniqueKey(("a",)), UniqueKey(("id", "a"))),
    checks=("(a > 0)", "(id > 0)", "((id + a) > 0)", "not ( an expression"),
    foreign_keys=(ForeignKey(("a",), "public", "actor", ("id",)),),
)


def test_without_a_column_list_every_column_that_is_not_generated_is_published():
    found = published_shape(FILM, None)
    assert [one.name for one in found.columns] == ["id", "a"]
    assert (found.key_columns, found.unique, found.foreign_keys) == (FILM.key_columns, FILM.unique, FILM.foreign_keys)


def test_a_published_generated_column_is_an_ordinary_one():
    found = published_shape(FILM, ["id", "g"])
    assert [(one.name, one.generated) for one in found.columns] == [("id", ""), ("g", "")]


@pytest.mark.parametrize(
    ("columns", "key", "unique", "checks", "foreign_keys"),
    [
        (("id", "a"), ("id",), 2, ("(a > 0)", "(id > 0)", "((id + a) > 0)"), 1),
        (("id",), ("id",), 0, ("(id > 0)",), 0),
        (("a",), (), 1, ("(a > 0)",), 1),
        ((), (), 0, (), 0),
    ],
    ids=["both", "key", "other", "none"],
)
def test_keys_and_constraints_need_all_of_their_columns(columns, key, unique, checks, foreign_keys):
    found = published_shape(FILM, columns)
    assert (found.key_columns, found.checks) == (key, checks)
    assert (len(found.unique), len(found.foreign_keys)) == (unique, foreign_keys)
