"""What the descriptions of a journal amount to, and what they do not tell."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.postgres.logical_decoding import Datum, HistoricCatalog
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.messages import NULL, UNCHANGED
from subscriber.stream.replay_journal import ReplayedCatalog
from tests.journals import T

MOOD, POSITIVE, LOST = 16500, 16501, 16502


def column(name: str, type_oid: int, *, key: bool = False, modifier: int = -1) -> m.RelationColumn:
    return m.RelationColumn(int(key), name, type_oid, modifier)


def described(*messages: m.Relation | m.Type) -> tuple[HistoricCatalog, list[str]]:
    missing: list[str] = []
    catalog = ReplayedCatalog(HistoricCatalog(), missing)
    for message in messages:
        catalog.describe(message)
    change = catalog.take_change()
    assert change is not None
    return HistoricCatalog().apply(change), missing


def test_a_relation_is_what_its_description_says():
    catalog, missing = described(
        m.Relation(77, "S", "T", "i", (column("a", 23, key=True), column("b", 1700, modifier=655366)))
    )
    relation = catalog.relation(77)
    assert (relation.qualified_name, relation.replica_identity) == ("S.T", "i")
    assert relation.identity_columns == {"a"}
    assert [one.type_name for one in relation.columns] == ["integer", "numeric(10,2)"]
    assert relation.is_logically_logged
    assert missing == []


@pytest.mark.parametrize("identity", ["d", "n", "f", "i"])
def test_every_replica_identity_is_kept(identity):
    catalog, _ = described(m.Relation(77, "s", "t", identity, (column("a", 23),)))
    assert catalog.relation(77).replica_identity == identity


def test_a_description_that_is_repeated_changes_nothing():
    catalog = ReplayedCatalog(HistoricCatalog(), [])
    mood = m.Type(MOOD, "public", "mood")
    for message in (mood, T):
        catalog.describe(message)
    assert catalog.take_change() is not None
    for message in (mood, T):
        catalog.describe(message)
    assert catalog.take_change() is None


def test_a_table_that_replaces_another_of_its_name_drops_it():
    catalog, _ = described(T, m.Relation(99, "public", "t", "d", T.columns))
    assert set(catalog.relations) == {99}
    assert catalog.tables.tables["public", "t"].oid == 99


def test_a_type_has_the_name_that_was_sent_which_may_be_that_of_its_base_type():
    """A13."""
    catalog, missing = described(m.Type(MOOD, "public", "mood"), m.Type(MOOD + 1, "other", "Mood"))
    assert catalog.type_description(MOOD).sql == "mood"
    assert catalog.type_description(MOOD + 1).sql == 'other."Mood"'
    assert missing[0] == 'type 16500 is called "public.mood", which is the name of its base type if it is a domain'


@pytest.mark.parametrize("schema", ["", "pg_catalog"])
def test_a_domain_over_a_built_in_type_has_no_name_but_a_base_type(schema):
    """A13."""
    catalog, missing = described(m.Type(POSITIVE, schema, "int4"))
    found = catalog.type_description(POSITIVE)
    assert (found.sql, found.name, found.base) == ("???", "???", 23)
    assert missing == ['type 16501 is a domain over "int4", and its name was not sent']


def test_an_array_has_the_name_of_its_elements_with_brackets():
    """PostgreSQL calls the array type of mood "_mood", and prints it as "mood[]". The type of the
    elements may be described before it, after it, or not at all.
    """
    names = ("m", MOOD), ("ms", MOOD + 100)
    mood, moods = m.Type(MOOD, "public", "mood"), m.Type(MOOD + 100, "public", "_mood")
    for types, columns in (((mood, moods), names), ((moods, mood), names[::-1]), ((moods,), names[1:])):
        relation = m.Relation(77, "public", "t", "d", tuple(column(*one) for one in columns))
        catalog, _ = described(*types, relation)
        found = {one.name: one.type_name for one in catalog.relation(77).columns}
        assert found == ({"m": "mood", "ms": "mood[]"} if mood in types else {"ms": "mood[]"})
    elsewhere, _ = described(m.Type(MOOD, "S s", "_mood"), m.Relation(77, "public", "t", "d", (column("a", MOOD),)))
    assert elsewhere.relation(77).columns[0].type_name == '"S s".mood[]'


def test_a_type_that_was_described_before_the_journal_has_no_name_until_it_is_described_again():
    relation = m.Relation(77, "s", "t", "d", (column("a", 23), column("b", LOST)))
    catalog, missing = described(relation)
    assert catalog.type_description(LOST).sql == "???"
    assert missing == ['the name of type 16502, which column "b" of "s.t" has, was sent before the journal begins']
    catalog, _ = described(relation, m.Type(LOST, "public", "mood"))
    assert catalog.type_description(LOST).sql == "mood"


def test_a_row_has_text_whatever_form_it_came_in():
    """A11, A12."""
    catalog = ReplayedCatalog(HistoricCatalog(), [])
    types = {"n": 23, "t": 25, "b": 16, "d": 1082, "x": 25, "nothing": 25}
    catalog.describe(m.Relation(77, "s", "t", "d", tuple(column(name, oid) for name, oid in types.items())))
    row = catalog.row(
        77,
        (m.BinaryValue(b"\0\0\0\5"), m.TextValue(b"x"), m.BinaryValue(b"\1"), m.BinaryValue(b"\0\0\0\1"), UNCHANGED, NULL),
    )  # fmt: skip
    assert row.values == (
        Datum(b"5", b"\0\0\0\5"), Datum(b"x"), Datum(b"t", b"\1"), Datum(b"2000-01-02", b"\0\0\0\1"), UNCHANGED, NULL,
    )  # fmt: skip


def test_a_binary_value_of_a_type_that_cannot_be_read_is_an_error_and_not_a_guess():
    catalog = ReplayedCatalog(HistoricCatalog(), [])
    catalog.describe(m.Type(MOOD, "public", "mood"))
    catalog.describe(m.Relation(77, "s", "t", "d", (column("a", MOOD),)))
    with pytest.raises(NotSupportedError) as caught:
        catalog.row(77, (m.BinaryValue(b"secret"),))
    assert (caught.value.relation, caught.value.column) == ("s.t", "a")
    assert "secret" not in str(caught.value)
