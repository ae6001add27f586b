"""The publication that brings what emulated publications evaluate."""

from __future__ import annotations

from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.testing.nodes.emulated_publications import carrier_of, create_statement

FILTERED = Publication(
    "filtered", tables=(TableEntry("public", "t", ("a",), "a > 5"),), publish=frozenset({"insert"}), via_root=True
)
OTHER = Publication(
    "other", tables=(TableEntry("public", "t"), TableEntry("s", 'odd "name"')), publish=frozenset({"update", "insert"})
)


def test_a_carrier_holds_every_table_once_without_filter_and_list_and_publishes_what_any_of_them_does():
    """Partitions come under their own names, whatever the publications say (rules B2, B12)."""
    carrier = carrier_of([FILTERED, OTHER], 18)
    assert create_statement(carrier) == (
        'CREATE PUBLICATION "subscriber_carrier" FOR TABLE ONLY "public"."t", TABLE ONLY "s"."odd ""name"""'
        " WITH (publish = 'insert, update', publish_generated_columns = stored)"
    )


def test_schemas_stay_schemas_so_that_a_table_made_later_is_in_it():
    carrier = carrier_of([OTHER, Publication("one", schemas=("s", "t")), Publication("two", schemas=("t",))], 16)
    assert create_statement(carrier) == (
        'CREATE PUBLICATION "subscriber_carrier" FOR TABLE ONLY "public"."t", TABLE ONLY "s"."odd ""name""",'
        ' TABLES IN SCHEMA "s", TABLES IN SCHEMA "t" WITH (publish = \'insert, update, delete, truncate\')'
    )


def test_it_is_for_all_tables_only_where_a_publication_is():
    """The publisher looks at it too when a row without identity is updated (rule B32)."""
    carrier = carrier_of([FILTERED, Publication("all", all_tables=True, publish=frozenset({"delete"}))], 15)
    statement = create_statement(carrier)
    assert statement == "CREATE PUBLICATION \"subscriber_carrier\" FOR ALL TABLES WITH (publish = 'insert, delete')"


def test_without_publications_it_is_empty():
    statement = create_statement(carrier_of([], 15))
    assert statement == "CREATE PUBLICATION \"subscriber_carrier\" WITH (publish = '')"
