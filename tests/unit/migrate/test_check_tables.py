"""The findings about published tables."""

from __future__ import annotations

import pytest

from subscriber.base.errors import PublisherNotReady
from subscriber.migrate.check_publisher import (
    check_identities,
    check_parents,
    check_row_security,
    list_unreplicated,
    no_table,
    uncovered_identity,
)
from subscriber.postgres.publication.definition import Publication
from subscriber.publisher.omitted_objects import UnreplicatedObjects
from subscriber.publisher.table_checks import Parent, TableWithoutIdentity
from tests.unit.migrate.tables import table


@pytest.mark.parametrize(
    ("publications", "remedy"),
    [
        ([Publication("p")], "Add tables to publication p at the publisher, with ALTER PUBLICATION."),
        (
            [Publication("My p"), Publication("q", all_sequences=True)],
            'Add tables to publication "My p" at the publisher, with ALTER PUBLICATION.',
        ),
        ([Publication("p", all_sequences=True)], "ALTER PUBLICATION p SET ALL TABLES, ALL SEQUENCES;"),
        (
            [Publication("p", all_tables=True)],
            "Create a table at the publisher: the publication has every table.",
        ),
        ([], None),
    ],
)
def test_where_no_table_is_published_the_remedy_is_what_the_server_accepts(publications, remedy):
    """It refuses ADD TABLE for FOR ALL TABLES, and for FOR ALL SEQUENCES of version 19."""
    finding = no_table(["p"], publications)
    assert (finding.severity, finding.message, finding.remedy) == ("WARN", "no table is published", remedy)
    assert bool(finding.reason) is any(one.all_sequences for one in publications)


def test_a_table_without_an_identity_has_the_statement_that_gives_it_one():
    (finding,) = check_identities([TableWithoutIdentity("s", "t", True, False, "ALTER TABLE s.t …")])
    assert (finding.severity, finding.object, finding.remedy) == ("FAIL", "s.t", "ALTER TABLE s.t …;")
    assert finding.reason == "The publisher refuses every UPDATE on it, from any application."


def test_an_uncovered_filter_has_the_reason_of_the_server():
    error = PublisherNotReady('cannot update table "t"', detail="Column …", hint="other", relation='s.x.a"t')
    finding = uncovered_identity(error, ("s.x", 'a"t'))
    assert (finding.severity, finding.reason) == ("FAIL", "Column …")
    assert finding.remedy == 'ALTER TABLE "s.x"."a""t" REPLICA IDENTITY FULL;'


def test_hidden_rows_are_a_fail_because_a_copy_leaves_them_out_silently():
    (finding,) = check_row_security([table("a"), table("b", is_hidden=True)], 'r"x')
    assert (finding.severity, finding.object) == ("FAIL", "public.b")
    assert finding.remedy == 'ALTER ROLE "r""x" BYPASSRLS;'


def test_what_is_not_replicated_has_number_and_first_names():
    objects = [UnreplicatedObjects("views", 7, ("a", "b")), UnreplicatedObjects("unlogged tables", 1, ("u",))]
    assert [(one.severity, one.object, one.message) for one in list_unreplicated(objects)] == [
        ("INFO", "views", "7 are not replicated: a, b and 5 more"),
        ("WARN", "unlogged tables", "1 is not replicated: u"),
    ]


def test_the_remedies_have_the_names_of_the_objects():
    unlogged = UnreplicatedObjects("unlogged tables", 2, ("public.u", 'public."V"'))
    sequences = UnreplicatedObjects("sequences", 1, ("public.s",))
    assert [one.remedy for one in list_unreplicated([unlogged, sequences], "shop")] == [
        'ALTER TABLE public.u SET LOGGED; ALTER TABLE public."V" SET LOGGED;',
        "Run ALTER SUBSCRIPTION shop REFRESH SEQUENCES when the application is switched over.",
    ]
    (one,) = list_unreplicated([sequences])
    assert (
        one.remedy == "REFRESH SEQUENCES of the subscription sets them; run it when the application is switched over."
    )


def parents(*found: Parent, has_inheritance: bool = False):
    return list(check_parents(found, ["p", "Q"], "SQLite", has_inheritance=has_inheritance, command="at the publisher"))


@pytest.mark.parametrize("has_inheritance", [True, False])
def test_a_partitioned_table_that_is_not_published_has_the_statement_that_publishes_it(has_inheritance):
    children = tuple(("public", f"notes_{number}") for number in range(5))
    root = Parent(schema="public", name="notes", partitioned=True, children=children)
    (several,) = parents(root, has_inheritance=has_inheritance)
    assert (several.severity, several.object) == ("WARN", "public.notes")
    assert several.message == (
        "the partitioned table is not published: its partitions become separate tables (public.notes_0, public.notes_1,"
        " public.notes_2 and 2 more)"
    )
    assert several.remedy is not None
    assert several.remedy.startswith(
        "ALTER PUBLICATION p SET (publish_via_partition_root = true);"
        ' ALTER PUBLICATION "Q" SET (publish_via_partition_root = true); -- at the publisher, before'
    )
    assert ("creates a view" in several.remedy) is not has_inheritance


def test_a_parent_whose_children_have_rows_is_a_warning_with_their_number():
    cash = Parent(schema="public", name="payment", partitioned=False, children=(("public", "cash"),), rows=461)
    (one,) = parents(cash)
    assert one.message == "461 rows that a query of the table returns are in tables that inherit from it: public.cash"
    assert one.remedy == "SQLite has no inheritance. Let the application read each of the tables, or a view of them."
    (built,) = parents(cash, has_inheritance=True)
    assert "schema apply --after" in str(built.remedy)
    empty = Parent(schema="public", name="payment", partitioned=False, children=(("public", "cash"),))
    assert parents(empty) == []
    large = Parent(
        schema="public", name="p", partitioned=False, children=(("public", "c"),), rows=5_000_000, counted=False
    )
    assert parents(large)[0].message.startswith("about 5,000,000 rows that")
