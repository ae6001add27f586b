"""The tables that the server's publications publish, from the rows of PostgreSQL's queries."""

from __future__ import annotations

import psycopg
import pytest

from subscriber.base.errors import NotSupportedError, PublisherNotReady
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.publisher.server_publications import (
    PublicationsInSnapshot,
    ServerPublications,
    publications_of_other_origins,
)
from tests.scripted_server import VERSIONS, Answer, Row, ScriptedServer


def listed(
    name: str,
    columns: tuple[str, ...] | None = ("id",),
    filters: tuple[str | None, ...] = (None,),
    *,
    generated: tuple[str, ...] = (),
    kind: str = "r",
) -> Row:
    """A row of the list of published tables."""
    return {
        "nspname": "public", "relname": name, "relkind": kind, "columns": None if columns is None else list(columns),
        "filters": list(filters), "generated": list(generated),
    }  # fmt: skip


def published(*rows: Row, version: int = 180000) -> list[PublishedTable]:
    server = ScriptedServer({"array_agg(DISTINCT filter)": rows}, version=version)
    return ServerPublications(server.connection, ("p", "q")).published_tables()


def test_each_table_is_listed_with_its_columns_and_its_kind():
    assert published(listed("a", ("id", "name")), listed("b", kind="p")) == [
        PublishedTable("public", "a", "table", ("id", "name")),
        PublishedTable("public", "b", "partitioned table", ("id",)),
    ]


def test_a_server_without_column_lists_sends_every_column():
    assert published(listed("a", None), version=140000) == [PublishedTable("public", "a", columns=None)]


def test_generated_columns_are_left_out_where_the_server_lists_them_and_does_not_send_them():
    (table,) = published(listed("a", ("id", "total", "name"), generated=("total",)), version=170000)
    assert table.columns == ("id", "name")


@pytest.mark.parametrize(
    ("filters", "combined"),
    [((None,), ()), (("(a > 1)",), ("(a > 1)",)), (("(a > 1)", "(a < 0)"), ("(a > 1)", "(a < 0)")), (("(a > 1)", None), ())],
    ids=["none", "one", "two", "one of two publications"],
)  # fmt: skip
def test_rows_pass_where_one_publication_has_no_filter(filters, combined):
    """D8."""
    assert published(listed("a", filters=filters))[0].filters == combined


def test_different_columns_in_two_publications_are_refused():
    """B39."""
    with pytest.raises(NotSupportedError) as caught:
        published(listed("a", ("id",)), listed("a", ("id", "name")))
    assert caught.value.message == ('cannot use different column lists for table "public.a" in different publications')
    assert (caught.value.sqlstate, caught.value.relation) == ("0A000", "public.a")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_list_is_asked_for_in_the_words_of_the_servers_version(version):
    server = ScriptedServer({"array_agg(DISTINCT filter)": []}, version=version)
    assert ServerPublications(server.connection, ("p", "q")).published_tables() == []
    (asked,) = server.asked
    assert asked.parameters == (["p", "q"],)
    assert ("pg_get_publication_tables(VARIADIC" in asked.sql) is (version >= 160000)
    assert ("pg_publication_tables" in asked.sql) is (version < 160000)
    assert ("t.rowfilter" in asked.sql) is (version == 150000)
    assert ("attgenerated" in asked.sql) is (120000 <= version < 180000)


class Refused(psycopg.errors.InsufficientPrivilege):
    """An error of the server; psycopg makes one with its SQLSTATE only from the server's answer."""

    sqlstate = "42501"


def test_a_query_that_the_server_refuses_has_the_words_of_the_subscriber():
    """PostgreSQL: fetch_table_list, ERRCODE_CONNECTION_FAILURE."""
    server = ScriptedServer({"array_agg(DISTINCT filter)": Refused("permission denied for table pg_publication")})
    with pytest.raises(PublisherNotReady) as caught:
        ServerPublications(server.connection, ("p",)).published_tables()
    assert caught.value.message.startswith("could not receive list of replicated tables from the publisher: ERROR:  ")
    assert caught.value.sqlstate == "08006"


def test_a_connection_that_is_lost_is_no_refusal():
    server = ScriptedServer({"array_agg(DISTINCT filter)": psycopg.OperationalError("server closed the connection")})
    with pytest.raises(psycopg.OperationalError):
        ServerPublications(server.connection, ("p",)).published_tables()


# One table ----------------------------------------------------------------------------------------


def one(*rows: Row, version: int = 180000) -> PublishedTable:
    server = ScriptedServer({"pg_get_expr(gpt.qual": rows}, version=version)
    return ServerPublications(server.connection, ("p",)).published_table("public", "a")


def entry(columns: tuple[str, ...], where: str | None = None, *, kind: str = "r", name: str = "a") -> Row:
    return {"nspname": "public", "relname": name, "relkind": kind, "columns": list(columns), "filter": where}


def test_one_table_is_read_as_table_synchronization_reads_it():
    """D7, D8."""
    assert one(entry(("id", "b"), "(b > 1)", kind="p"), entry(("id", "b"), "(b < 0)", kind="p")) == PublishedTable(
        "public", "a", "partitioned table", ("id", "b"), ("(b > 1)", "(b < 0)")
    )
    assert one(entry(("id",), "(b > 1)"), entry(("id",))).filters == ()


@pytest.mark.parametrize("version", [140000, 180000], ids=["without column lists", "no longer published"])
def test_a_table_without_an_entry_is_copied_whole(version):
    assert one(version=version) == PublishedTable("public", "a")


def test_different_columns_of_one_table_are_refused_as_the_tablesync_worker_does():
    with pytest.raises(PublisherNotReady) as caught:
        one(entry(("id",)), entry(("id", "b")))
    assert caught.value.message == 'cannot use different column lists for table "public.a" in different publications'
    assert (caught.value.sqlstate, caught.value.relation) == ("0A000", "public.a")


def test_publications_that_are_kept_answer_for_each_table_as_the_server_does():
    """The server lists all tables of a publication to answer for one of them."""
    rows = [entry(("id",), "(b > 1)"), entry(("id",)), entry(("x",), "(x > 0)", kind="p", name="b")]
    lists = [{"nspname": "public", "relname": "b"}]
    actions = [{"nspname": "public", "relname": "a", "i": "insert", "u": None, "d": None, "t": None}]
    server = ScriptedServer({"p.pubinsert": actions, "pg_get_expr(gpt.qual": rows, "prattrs": lists})
    kept = PublicationsInSnapshot.read(server.connection, ("p",))
    assert kept.published_table("public", "a") == PublishedTable("public", "a", "table", ("id",))
    assert kept.published_table("public", "b") == PublishedTable(
        "public", "b", "partitioned table", ("x",), ("(x > 0)",)
    )
    assert kept.published_table("public", "gone") == PublishedTable("public", "gone")
    assert [kept.has_column_list("public", name) for name in "ab"] == [False, True]
    assert [kept.published_actions("public", name) for name in "ab"] == [{"insert"}, None]
    assert len(server.asked) == 3


def test_different_columns_of_a_table_are_refused_for_that_table_only():
    rows = [entry(("id",)), entry(("id", "b")), entry(("x",), name="b")]
    server = ScriptedServer({"p.pubinsert": [], "pg_get_expr(gpt.qual": rows, "prattrs": []})
    kept = PublicationsInSnapshot.read(server.connection, ("p", "q"))
    with pytest.raises(PublisherNotReady, match="different column lists"):
        kept.published_table("public", "a")
    assert kept.published_table("public", "b").columns == ("x",)


def test_publications_without_column_lists_are_not_asked_for_them():
    server = ScriptedServer({"p.pubinsert": []}, version=140000)
    kept = PublicationsInSnapshot.read(server.connection, ("p",))
    assert kept.published_table("public", "a") == PublishedTable("public", "a")
    assert not kept.has_column_list("public", "a")
    assert len(server.asked) == 1


@pytest.mark.parametrize("version", [150000, 160000, 170000, 180000])
def test_generated_columns_of_one_table_are_left_out_before_18(version):
    server = ScriptedServer({"pg_get_expr(gpt.qual": []}, version=version)
    ServerPublications(server.connection, ("p",)).published_table("s", "t")
    assert bool(server.statements("a.attgenerated = ''")) is (version < 180000)
    assert server.asked[0].parameters == ("s", "t", ["p"])


# What is changed, and by whom ---------------------------------------------------------------------


def test_the_tables_whose_updates_or_deletes_are_published_are_told_by_name():
    server = ScriptedServer({"p.pubupdate OR p.pubdelete": [{"nspname": "s", "relname": "t"}]})
    assert ServerPublications(server.connection, ("p",)).changing_tables() == {("s", "t")}
    assert server.asked[0].parameters == (["p"],)


@pytest.mark.parametrize(
    ("rows", "actions"),
    [
        ([], None),
        ([{"i": None, "u": None, "d": None, "t": None}], frozenset()),
        (
            [{"i": "insert", "u": None, "d": None, "t": None}, {"i": "insert", "u": None, "d": "delete", "t": None}],
            frozenset({"insert", "delete"}),
        ),
    ],
    ids=["not listed", "nothing", "two publications"],
)
def test_the_actions_of_a_table_are_those_of_all_publications_that_list_it(rows, actions):
    server = ScriptedServer({"p.pubinsert": [{"nspname": "s", "relname": "t", **row} for row in rows]})
    assert ServerPublications(server.connection, ("p",)).published_actions("s", "t") == actions
    assert server.asked[0].parameters == ("s", "t", ["p"])


@pytest.mark.parametrize("version", VERSIONS)
def test_publications_of_tables_that_the_publisher_subscribes_to_are_told(version):
    """C55: from PostgreSQL 12 on, their partitions and roots count as well."""
    answers: dict[str, Answer] = {"pg_subscription_rel": [{"pubname": "p"}, {"pubname": "q"}]}
    server = ScriptedServer(answers, version=version)
    found = publications_of_other_origins(server.connection, ["p", "q", "r"], [("s", "t"), ("s", "u")])
    assert found == ["p", "q"]
    assert server.asked[0].parameters == (["p", "q", "r"], ["s", "s"], ["t", "u"])
    assert bool(server.statements("pg_partition_tree")) is (version >= 120000)
