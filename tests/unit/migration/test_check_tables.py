"""The findings about published tables."""

from __future__ import annotations

import pytest

from subscriber.errors import PublisherNotReady
from subscriber.migration.check_tables import (
    check_identities,
    check_row_security,
    list_unreplicated,
    no_table,
    uncovered_identity,
)
from subscriber.publication.definition import Publication
from subscriber.publisher.replica_identity import TableWithoutIdentity
from subscriber.publisher.unreplicated_objects import UnreplicatedObjects
from tests.unit.migration.tables import table


@pytest.mark.parametrize(
    ("publications", "of_sequences", "remedy"),
    [
        ([Publication("p")], [], "ALTER PUBLICATION p ADD TABLE …;"),
        ([Publication("My p"), Publication("q")], ["q"], 'ALTER PUBLICATION "My p" ADD TABLE …;'),
        ([Publication("p")], ["p"], "ALTER PUBLICATION p SET ALL TABLES, ALL SEQUENCES;"),
        (
            [Publication("p", all_tables=True)],
            [],
            "CREATE TABLE …; -- every table of the publisher is published",
        ),
        ([], [], None),
    ],
)
def test_where_no_table_is_published_the_remedy_is_what_the_server_accepts(publications, of_sequences, remedy):
    """It refuses ADD TABLE for FOR ALL TABLES, and for FOR ALL SEQUENCES of version 19."""
    finding = no_table(["p"], publications, of_sequences)
    assert (finding.severity, finding.message, finding.remedy) == ("WARN", "no table is published", remedy)
    assert bool(finding.reason) is bool(of_sequences)


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
