"""Publications in the catalog: what is stored is read back, in every database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber import catalog
from subscriber.errors import UsageError
from subscriber.publication.definition import Publication, TableEntry
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
EVERYTHING = Publication("everything", all_tables=True, excepted=(("s", "t"), ("public", "t")), publish=frozenset())


@pytest.fixture(params=["sqlite", "duckdb"])
def connection(request, tmp_path):
    with open_target(f"{request.param}:///{tmp_path / 'target.db'}") as target:
        catalog.ensure_catalog(target.engine)
        with target.begin() as opened:
            yield opened


def test_what_was_inserted_is_read_back(connection):
    catalog.insert_publication(connection, PUBLICATION, "ann")
    catalog.insert_publication(connection, EVERYTHING, "Bob")
    assert catalog.get_publication(connection, 'P "q"') == PUBLICATION
    assert catalog.list_publications(connection) == [PUBLICATION, EVERYTHING]
    assert catalog.owners_of_publications(connection) == {'P "q"': "ann", "everything": "Bob"}


def test_a_publication_is_replaced_with_its_members(connection):
    catalog.insert_publication(connection, PUBLICATION, "ann")
    catalog.insert_publication(connection, EVERYTHING, "ann")
    changed = replace(PUBLICATION, tables=PUBLICATION.tables[::-1][:2], schemas=(), via_root=False)
    catalog.replace_publication(connection, changed)
    assert catalog.list_publications(connection) == [changed, EVERYTHING]


def test_a_publication_is_renamed_and_deleted(connection):
    catalog.insert_publication(connection, PUBLICATION, "ann")
    catalog.insert_publication(connection, EVERYTHING, "ann")
    catalog.rename_publication(connection, 'P "q"', "p")
    assert catalog.find_publication(connection, "p") == replace(PUBLICATION, name="p")
    catalog.delete_publication(connection, "p")
    assert catalog.list_publications(connection) == [EVERYTHING]
    assert catalog.find_publication(connection, "p") is None
    catalog.insert_publication(connection, Publication("p"), "ann")
    assert catalog.get_publication(connection, "p") == Publication("p")


def test_a_name_is_unique(connection):
    catalog.insert_publication(connection, PUBLICATION, "ann")
    catalog.insert_publication(connection, replace(EVERYTHING, name='p "q"'), "ann")
    for refused in (
        lambda: catalog.insert_publication(connection, Publication('P "q"'), "ann"),
        lambda: catalog.rename_publication(connection, 'p "q"', 'P "q"'),
    ):
        with pytest.raises(UsageError) as caught:
            refused()
        assert (caught.value.sqlstate, caught.value.message) == ("42710", 'publication "P "q"" already exists')


def test_an_unknown_publication_cannot_be_changed(connection):
    for missing in (
        lambda: catalog.get_publication(connection, "p"),
        lambda: catalog.replace_publication(connection, Publication("p")),
        lambda: catalog.rename_publication(connection, "p", "q"),
        lambda: catalog.delete_publication(connection, "p"),
    ):
        with pytest.raises(UsageError) as caught:
            missing()
        assert (caught.value.sqlstate, caught.value.message) == ("42704", 'publication "p" does not exist')
