"""A publication as it is stored."""

from __future__ import annotations

from subscriber.postgres.publication.definition import Publication, TableEntry


def test_a_publication_without_options_publishes_every_operation():
    """pg_publication's defaults (A28)."""
    publication = Publication("p")
    assert publication.publish == {"insert", "update", "delete", "truncate"}
    assert (publication.all_tables, publication.via_root, publication.generated_columns) == (False, False, "none")


def test_the_entry_of_a_table_is_found_by_schema_and_name():
    film, other = TableEntry("public", "film", where="a > 1"), TableEntry("archive", "film")
    publication = Publication("p", tables=(film, other))
    assert publication.entry("archive", "film") is other
    assert publication.entry("public", "film") is film
    assert publication.entry("public", "Film") is None
    assert film.key == ("public", "film")
