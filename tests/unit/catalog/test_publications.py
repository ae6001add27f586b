"""Publications in the catalog: what is stored is read back, in every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import UsageError
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import (
    delete_publication,
    find_publication,
    get_publication,
    insert_publication,
    list_publications,
    owners_of_publications,
    rename_publication,
    replace_publication,
)
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.targets import open_target

PUBLICATION = Publication(
    'P "q"',
    tables=(
        TableEntry("public", "t", ("a", 'B,"ü'), "((a > 5) AND (c = 'NSW'::text))"),
        TableEntry("public", "T"),
        TableEntry("a", "t", None, "flag"),
    ),
    schemas=("s", "S"),
    publish=frozenset({"insert", "truncate"}),
    via_root=True,
    generated_columns="stored",
)
EVERYTHING = Publication(
    "everything",
    all_tables=True,
    excepted=(("s", "t"), ("public", "t")),
    publish=frozenset(),
    all_sequences=True,
)


@pytest.fixture(params=["sqlite", "duckdb"])
def connection(request, tmp_path):
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as target:
        ensure_catalog(target.engine)
        with target.begin() as opened:
            yield opened


def test_what_was_inserted_is_read_back(connection):
    insert_publication(connection, PUBLICATION, "ann")
    insert_publication(connection, EVERYTHING, "Bob")
    assert get_publication(connection, 'P "q"') == PUBLICATION
    assert list_publications(connection) == [PUBLICATION, EVERYTHING]
    assert owners_of_publications(connection) == {'P "q"': "ann", "everything": "Bob"}


def test_a_publication_is_replaced_with_its_members(connection):
    insert_publication(connection, PUBLICATION, "ann")
    insert_publication(connection, EVERYTHING, "ann")
    changed = replace(PUBLICATION, tables=PUBLICATION.tables[::-1][:2], schemas=(), via_root=False)
    replace_publication(connection, changed)
    assert list_publications(connection) == [changed, EVERYTHING]


def test_a_publication_is_renamed_and_deleted(connection):
    insert_publication(connection, PUBLICATION, "ann")
    insert_publication(connection, EVERYTHING, "ann")
    rename_publication(connection, 'P "q"', "p")
    assert find_publication(connection, "p") == replace(PUBLICATION, name="p")
    delete_publication(connection, "p")
    assert list_publications(connection) == [EVERYTHING]
    assert find_publication(connection, "p") is None
    insert_publication(connection, Publication("p"), "ann")
    assert get_publication(connection, "p") == Publication("p")


def test_a_name_is_unique(connection):
    insert_publication(connection, PUBLICATION, "ann")
    insert_publication(connection, replace(EVERYTHING, name='p "q"'), "ann")
    for refused in (
        lambda: insert_publication(connection, Publication('P "q"'), "ann"),
        lambda: rename_publication(connection, 'p "q"', 'P "q"'),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert (caught.value.sqlstate, caught.value.message) == ("42710", 'publication "P "q"" already exists')


def test_an_unknown_publication_cannot_be_changed(connection):
    for missing in (
        lambda: get_publication(connection, "p"),
        lambda: replace_publication(connection, Publication("p")),
        lambda: rename_publication(connection, "p", "q"),
        lambda: delete_publication(connection, "p"),
    ):
        with pytest.raises(UsageError) as caught:
            missing()
        assert (caught.value.sqlstate, caught.value.message) == ("42704", 'publication "p" does not exist')
