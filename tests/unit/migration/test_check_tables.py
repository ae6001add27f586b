"""The findings about published tables."""

from __future__ import annotations

from subscriber.errors import PublisherNotReady
from subscriber.migration.check_tables import (
    check_identities,
    check_row_security,
    list_unreplicated,
    uncovered_identity,
)
from subscriber.publisher.replica_identity import TableWithoutIdentity
from subscriber.publisher.unreplicated_objects import UnreplicatedObjects
from tests.unit.migration.tables import table


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
