"""Published tables that a subscription does not have."""

from __future__ import annotations

from subscriber.commands.unknown_tables import refresh_command, unknown_tables
from subscriber.schema.relation_names import RelationNames


def test_the_catalogs_of_subscribers_are_left_out():
    published = [("public", "a"), ("s", "b"), ("public", "subscriber_control")]
    assert unknown_tables(published, [("public", "a")], RelationNames()) == ("s.b",)


def test_the_command_quotes_the_name():
    assert refresh_command("My sub") == 'ALTER SUBSCRIPTION "My sub" REFRESH PUBLICATION;'
