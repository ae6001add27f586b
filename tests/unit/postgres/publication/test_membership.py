"""publication.membership: what a publication is after a command. The texts are the server's in
tests/conformance, too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.commands.subscription_grammar import parse
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.membership import altered, created, with_everything, with_options
from subscriber.postgres.publication.publication_statements import (
    AlterPublicationAll,
    AlterPublicationObjects,
    AlterPublicationOptions,
    CreatePublication,
)
from subscriber.postgres.schema.publisher_tables import Kind, PublisherColumn, PublisherTable, PublisherTables
from subscriber.postgres.sql.lexer import syntax_error


def table(
    oid: int, name: str, schema: str = "public", kind: Kind = "table", parent: str | None = None
) -> PublisherTable:
    columns = (
        PublisherColumn("a", 1, 23),
        PublisherColumn("b", 2, 25),
        PublisherColumn("v", 4, 23, generated="virtual", expression="a"),
    )
    parents = () if parent is None else (("public", parent),)
    return PublisherTable(oid, schema, name, kind, columns, parents=parents)


FOUND = [
    table(20001, "t"),
    table(20002, "u"),
    table(20003, "t", "s"),
    table(20009, "mother"),
    table(20005, "daughter", parent="mother"),
    table(20006, "root", kind="partitioned table"),
    replace(table(20007, "leaf", parent="root"), is_partition=True),
    table(20008, "v", kind="view"),
    replace(table(20010, "unlogged"), persistence="unlogged"),
    replace(table(1259, "pg_class", "pg_catalog"), columns=(), is_system=True),
    replace(table(13500, "sql_features", "information_schema"), is_system=True),
]
TABLES = PublisherTables(
    180000,
    {one.key: one for one in FOUND},
    frozenset(),
    search_path=("pg_catalog", "public"),
    schemas=frozenset({"public", "s", "pg_catalog", "pg_toast", "pg_temp_3", "information_schema"}),
    database="shop",
)


def check(text: str, table: PublisherTable, tables: PublisherTables) -> str:
    """A filter is what begins with a column's name; it is kept as upper case."""
    assert tables is TABLES
    if not text.startswith(tuple(column.name for column in table.columns)):
        raise syntax_error(text, 2, f'no column of "{table.name}"', "42703")
    return f"({text.upper()})"


def create(sql: str, tables: PublisherTables = TABLES) -> Publication:
    command = parse(f"CREATE PUBLICATION p {sql}")
    assert isinstance(command, CreatePublication)
    return created(command, tables, check)


def alter(publication: Publication, sql: str) -> Publication:
    command = parse(f"ALTER PUBLICATION p {sql}")
    if isinstance(command, AlterPublicationOptions):
        return with_options(publication, command, lambda: TABLES)
    if isinstance(command, AlterPublicationAll):
        return with_everything(publication, command, TABLES)
    assert isinstance(command, AlterPublicationObjects)
    return altered(publication, command, TABLES, check)


def members(publication: Publication) -> list[str]:
    return [f"{entry.schema}.{entry.name}" for entry in publication.tables]


def test_a_publication_of_nothing_publishes_every_operation():
    assert create("") == Publication("p")
    assert create("WITH (publish = 'truncate')").publish == {"truncate"}


def test_members_are_in_the_order_of_the_publishers_oids_and_each_is_there_once():
    """B31"""
    assert members(create("FOR TABLE u, s.t, t, public.t, ONLY u, shop.s.t")) == ["public.t", "public.u", "s.t"]


def test_inheriting_tables_become_members_with_the_same_filter_and_columns():
    """B5"""
    assert create("FOR TABLE mother (b, a) WHERE (a > 1)").tables == (
        TableEntry("public", "daughter", ("a", "b"), "(A > 1)"),
        TableEntry("public", "mother", ("a", "b"), "(A > 1)"),
    )
    assert members(create("FOR TABLE ONLY mother")) == ["public.mother"]


def test_partitions_are_no_members_of_their_own():
    assert members(create("FOR TABLE root")) == ["public.root"]
    assert members(create("FOR TABLE root, leaf")) == ["public.root", "public.leaf"]


def test_schemas_are_members_by_name_each_once():
    assert create("FOR TABLES IN SCHEMA s, CURRENT_SCHEMA, public, s").schemas == ("s", "public")


def test_all_tables_may_have_exceptions_with_what_inherits_from_them():
    """B6"""
    assert create("FOR ALL TABLES") == Publication("p", all_tables=True)
    excepted = create("FOR ALL TABLES EXCEPT (TABLE root, mother, s.t, t, t)").excepted
    assert excepted == (("public", "t"), ("s", "t"), ("public", "daughter"), ("public", "root"), ("public", "mother"))
    assert create("FOR ALL TABLES EXCEPT (TABLE ONLY mother)").excepted == (("public", "mother"),)


@pytest.mark.parametrize(
    ("relation", "name", "detail"),
    [
        ("leaf", "public.leaf", "This operation is not supported for individual partitions."),
        ("v", "public.v", "This operation is not supported for views."),
        ("unlogged", "public.unlogged", "This operation is not supported for unlogged tables."),
        ("pg_class", "pg_catalog.pg_class", "This operation is not supported for system tables."),
    ],
)
def test_an_exception_must_be_a_table_that_could_be_published(relation, name, detail):
    """B6"""
    with pytest.raises(UsageError) as caught:
        create(f"FOR ALL TABLES EXCEPT (TABLE {relation})")
    assert caught.value.message == f'cannot specify relation "{name}" in the publication EXCEPT clause'
    assert (caught.value.sqlstate, caught.value.detail) == ("22023", detail)


@pytest.mark.parametrize(
    ("version", "action", "members"),
    [
        (180000, "ADD TABLE t", "Tables"),
        (190000, "ADD TABLE t", "Tables or sequences"),
        (190000, "DROP TABLE t", "Tables or sequences"),
        (190000, "SET TABLE t", "Tables or sequences"),
        (190000, "ADD TABLES IN SCHEMA s", "Schemas"),
    ],
)
def test_a_publication_of_all_tables_takes_no_members(version, action, members):
    """With the detail of the publisher's version."""
    command = parse(f"ALTER PUBLICATION p {action}")
    assert isinstance(command, AlterPublicationObjects)
    with pytest.raises(UsageError) as caught:
        altered(Publication("p", all_tables=True), command, replace(TABLES, server_version=version), check)
    assert (caught.value.message, caught.value.sqlstate) == ('publication "p" is defined as FOR ALL TABLES', "55000")
    assert caught.value.detail == f"{members} cannot be added to or dropped from FOR ALL TABLES publications."


@pytest.mark.parametrize(
    ("kind", "publication"),
    [
        ("ALL SEQUENCES", Publication("p", all_sequences=True)),
        ("ALL TABLES, ALL SEQUENCES", Publication("p", all_tables=True, all_sequences=True)),
    ],
)
@pytest.mark.parametrize(("objects", "what"), [("TABLE t", "Tables or sequences"), ("TABLES IN SCHEMA s", "Schemas")])
def test_a_publication_of_all_sequences_takes_no_members(kind, publication, objects, what):
    with pytest.raises(UsageError) as caught:
        alter(publication, f"DROP {objects}")
    assert (caught.value.message, caught.value.sqlstate) == (f'publication "p" is defined as FOR {kind}', "55000")
    assert caught.value.detail == f"{what} cannot be added to or dropped from FOR {kind} publications."


def test_what_a_publication_has_all_of_can_be_replaced():
    sequences = create("FOR ALL SEQUENCES")
    assert sequences == Publication("p", all_sequences=True)
    but_t = alter(sequences, "SET ALL TABLES EXCEPT (TABLE t)")
    assert but_t == Publication("p", all_tables=True, excepted=(("public", "t"),))
    both = alter(but_t, "SET ALL SEQUENCES, ALL TABLES")
    assert both == Publication("p", all_tables=True, all_sequences=True)
    assert alter(Publication("p"), "SET ALL TABLES, ALL SEQUENCES") == both


@pytest.mark.parametrize("kind", ["TABLES", "SEQUENCES"])
@pytest.mark.parametrize("members", ["TABLE t", "TABLES IN SCHEMA s"])
def test_a_publication_with_members_cannot_have_all_objects(kind, members):
    with pytest.raises(UsageError) as caught:
        alter(create(f"FOR {members}"), f"SET ALL {kind}")
    assert caught.value.message == f'publication "p" does not support ALL {kind} operations'
    assert caught.value.sqlstate == "55000"
    assert caught.value.detail == (
        "This operation requires the publication to be defined as FOR ALL TABLES/SEQUENCES or to be empty."
    )


REFUSED = [
    ("FOR TABLE nope", "42P01", 'relation "nope" does not exist'),
    ("FOR TABLE s.u", "42P01", 'relation "s.u" does not exist'),
    ("FOR TABLE x.u", "3F000", 'schema "x" does not exist'),
    ("FOR TABLE other.s.t", "0A000", 'cross-database references are not implemented: "other.s.t"'),
    ("FOR TABLE t, v", "22023", 'cannot add relation "v" to publication'),
    ("FOR TABLE unlogged", "22023", 'cannot add relation "unlogged" to publication'),
    ("FOR TABLE pg_class WHERE (relname > 'a')", "22023", 'cannot add relation "pg_class" to publication'),
    ("FOR TABLE nope, TABLES IN SCHEMA x", "3F000", 'schema "x" does not exist'),
    ("FOR TABLES IN SCHEMA pg_toast", "22023", 'cannot add schema "pg_toast" to publication'),
    ("FOR TABLES IN SCHEMA pg_temp_3", "22023", 'cannot add schema "pg_temp_3" to publication'),
    ("FOR TABLE t, t WHERE (a > 1)", "42710", 'conflicting or redundant WHERE clauses for table "t"'),
    ("FOR TABLE t (a) WHERE (a > 1), t", "42710", 'conflicting or redundant WHERE clauses for table "t"'),
    ("FOR TABLE t (a), t", "42710", 'conflicting or redundant column lists for table "t"'),
    ("FOR TABLE daughter WHERE (a > 1), mother", "42710", 'conflicting or redundant WHERE clauses for table "mother"'),
    ("FOR TABLE t (a, nope)", "42703", 'column "nope" of relation "t" does not exist'),
    ("FOR TABLE t (xmin)", "42P10", 'cannot use system column "xmin" in publication column list'),
    ("FOR TABLE t (v)", "42P10", 'cannot use virtual generated column "v" in publication column list'),
    ("FOR TABLE t (a, b, a)", "42710", 'duplicate column "a" in publication column list'),
    (
        "FOR TABLE t (a), TABLES IN SCHEMA s",
        "22023",
        'cannot use column list for relation "public.t" in publication "p"',
    ),
    ("FOR TABLE root (a)", "22023", 'cannot use column list for relation "public.root" in publication "p"'),
    ("FOR TABLE root WHERE (a > 1)", "22023", 'cannot use publication WHERE clause for relation "root"'),
    ("FOR TABLE v WHERE (a > 1), root WHERE (a > 1)", "22023", 'cannot add relation "v" to publication'),
    ("FOR TABLE nope WITH (publish = 'x')", "42601", 'unrecognized value for publication option "publish": "x"'),
]


@pytest.mark.parametrize(("sql", "sqlstate", "message"), REFUSED, ids=[sql for sql, _, _ in REFUSED])
def test_a_publication_that_cannot_be_is_refused_as_the_server_refuses_it(sql, sqlstate, message):
    """B1, B30, B31, B37, B38, B42"""
    with pytest.raises(UsageError) as caught:
        create(sql)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


def test_a_publisher_before_18_has_no_generated_column_in_a_list():
    """B37; 18 refuses virtual ones only, and sends the others"""
    stored = PublisherColumn("g", 1, 23, generated="stored", expression="1")
    made = replace(table(20011, "made"), columns=(stored,))
    now = replace(TABLES, tables={made.key: made})
    assert create("FOR TABLE made (g)", now).tables[0].columns == ("g",)
    with pytest.raises(UsageError, match='cannot use generated column "g" in publication column list') as caught:
        create("FOR TABLE made (g)", replace(now, server_version=170000))
    assert caught.value.sqlstate == "42P10"


def test_tables_of_information_schema_may_be_named():
    assert members(create("FOR TABLE information_schema.sql_features")) == ["information_schema.sql_features"]


def test_current_schema_must_be_one():
    with pytest.raises(UsageError, match="no schema has been selected for CURRENT_SCHEMA"):
        create("FOR TABLES IN SCHEMA CURRENT_SCHEMA", replace(TABLES, current_schema=None))


def test_an_error_in_a_filter_points_into_the_command():
    with pytest.raises(SQLSyntaxError) as caught:
        create("FOR TABLE t WHERE (a > 1),\n u WHERE ( nope > 1)")
    assert caught.value.message == 'no column of "u"'
    assert caught.value.position == len("CREATE PUBLICATION p FOR TABLE t WHERE (a > 1),\n u WHERE ( no") + 1
    assert caught.value.detail == f"At character {caught.value.position} (line 2)."


# ALTER --------------------------------------------------------------------------------------------


def test_tables_and_schemas_are_added_set_and_dropped():
    publication = create("FOR TABLE u WHERE (a > 1)")
    publication = alter(publication, "ADD TABLE t, TABLES IN SCHEMA s")
    assert (members(publication), publication.schemas) == (["public.t", "public.u"], ("s",))
    publication = alter(publication, "DROP TABLE t")
    publication = alter(publication, "ADD TABLES IN SCHEMA public")
    assert (members(publication), publication.schemas) == (["public.u"], ("s", "public"))
    assert alter(publication, "DROP TABLES IN SCHEMA s, s").schemas == ("public",)
    assert alter(publication, "SET TABLE s.t (a)") == Publication("p", tables=(TableEntry("s", "t", ("a",)),))
    assert alter(publication, "SET TABLES IN SCHEMA s") == Publication("p", schemas=("s",))
    assert members(alter(publication, "SET TABLE u WHERE (a > 2), t")) == ["public.t", "public.u"]


def test_options_that_are_not_given_stay():
    publication = create("WITH (publish = 'insert', publish_via_partition_root)")
    changed = alter(publication, "SET (publish_generated_columns = stored)")
    assert changed == replace(publication, generated_columns="stored")
    assert not alter(changed, "SET (publish_via_partition_root = off)").via_root


ALTER_REFUSED = [
    ("FOR TABLE t", "ADD TABLE u, t", "42710", 'relation "t" is already member of publication "p"'),
    ("FOR TABLE t", "DROP TABLE u", "42704", 'relation "u" is not part of the publication'),
    ("FOR TABLE ONLY mother", "DROP TABLE mother", "42704", 'relation "daughter" is not part of the publication'),
    ("FOR TABLE t", "DROP TABLE t (a)", "42601", "column list must not be specified in ALTER PUBLICATION ... DROP"),
    (
        "FOR TABLE t",
        "DROP TABLE t WHERE (a > 1)",
        "42601",
        "cannot use a WHERE clause when removing a table from a publication",
    ),
    ("FOR TABLES IN SCHEMA s", "ADD TABLES IN SCHEMA s", "42710", 'schema "s" is already member of publication "p"'),
    ("", "DROP TABLES IN SCHEMA s", "42704", 'tables from schema "s" are not part of the publication'),
    ("FOR TABLE t (a)", "ADD TABLES IN SCHEMA s", "22023", 'cannot add schema to publication "p"'),
    (
        "FOR TABLES IN SCHEMA s",
        "ADD TABLE t (a)",
        "22023",
        'cannot use column list for relation "public.t" in publication "p"',
    ),
    ("FOR ALL TABLES", "ADD TABLE nope", "55000", 'publication "p" is defined as FOR ALL TABLES'),
    ("FOR ALL TABLES", "SET TABLES IN SCHEMA s", "55000", 'publication "p" is defined as FOR ALL TABLES'),
    ("FOR TABLE t", "SET TABLE v, t (nope)", "42703", 'column "nope" of relation "t" does not exist'),
    ("", "SET TABLE v, t (nope)", "22023", 'cannot add relation "v" to publication'),
    *(
        (
            f"FOR TABLE root {limit} WITH (publish_via_partition_root)",
            "SET (publish_via_partition_root = false)",
            "22023",
            'cannot set parameter "publish_via_partition_root" to false for publication "p"',
        )
        for limit in ("(a)", "WHERE (a > 1)")
    ),
]


@pytest.mark.parametrize(("before", "sql", "sqlstate", "message"), ALTER_REFUSED)
def test_a_change_that_cannot_be_is_refused_as_the_server_refuses_it(before, sql, sqlstate, message):
    """B30, B37, B38"""
    publication = create(before)
    with pytest.raises(UsageError) as caught:
        alter(publication, sql)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


def test_a_member_that_stays_as_it_is_may_have_become_one_that_could_not_be_added():
    before = Publication("p", tables=(TableEntry("public", "unlogged"),))
    assert alter(before, "SET TABLE unlogged, t") == Publication(
        "p", tables=(TableEntry("public", "t"), TableEntry("public", "unlogged"))
    )
    with pytest.raises(UsageError, match='cannot add relation "unlogged"'):
        alter(before, "SET TABLE unlogged (a)")


def test_members_that_the_publisher_has_no_more_stay_until_they_are_left_out():
    before = Publication("p", tables=(TableEntry("public", "gone"),))
    assert members(alter(before, "ADD TABLE t")) == ["public.t", "public.gone"]
    assert members(alter(before, "SET TABLE t")) == ["public.t"]


def test_the_publisher_is_asked_only_where_it_matters_what_a_table_is():
    def unasked() -> PublisherTables:
        raise AssertionError("asked")

    command = parse("ALTER PUBLICATION p SET (publish_via_partition_root = false, publish = 'insert')")
    assert isinstance(command, AlterPublicationOptions)
    assert with_options(create("FOR TABLE t"), command, unasked).publish == {"insert"}
