"""Published tables that a subscription does not have."""

from __future__ import annotations

from subscriber.commands.check_publications import refresh_command, unknown_tables
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.relation_names import RelationNames


def test_the_catalogs_of_subscribers_are_left_out():
    published = [
        PublishedTable("public", "a", columns=("a",)),
        PublishedTable("s", "b", columns=("b",)),
        PublishedTable("public", "subscriber_control", columns=("controlid", "targetidentifier")),
        PublishedTable("public", "subscriber_subscription", columns=("id", "plan")),
    ]
    unknown = unknown_tables(published, [("public", "a")], RelationNames())
    assert unknown == ("public.subscriber_subscription", "s.b")


def test_the_command_quotes_the_name():
    assert refresh_command("My sub") == 'ALTER SUBSCRIPTION "My sub" REFRESH PUBLICATION;'
