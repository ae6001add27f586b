"""The messages as data: their type bytes, what is absent, and what no log may show."""

from __future__ import annotations

import copy
import pickle

import pytest

from subscriber.postgres.protocol import messages as m

TYPE_BYTES = {
    m.Begin: "B",
    m.Commit: "C",
    m.Origin: "O",
    m.Relation: "R",
    m.Type: "Y",
    m.Insert: "I",
    m.Update: "U",
    m.Delete: "D",
    m.Truncate: "T",
    m.LogicalMessage: "M",
    m.StreamStart: "S",
    m.StreamStop: "E",
    m.StreamCommit: "c",
    m.StreamAbort: "A",
    m.BeginPrepare: "b",
    m.Prepare: "P",
    m.CommitPrepared: "K",
    m.RollbackPrepared: "r",
    m.StreamPrepare: "p",
}
"""The page "Logical Replication Message Formats" of PostgreSQL's manual."""

SECRET = m.TextValue(b"secret")


@pytest.mark.parametrize(("message", "letter"), TYPE_BYTES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_the_type_byte_is_that_of_the_manual(message, letter):
    assert message.type_byte == letter


def test_every_message_of_the_protocol_has_a_class():
    assert set(m.Message.__args__) == set(TYPE_BYTES)


@pytest.mark.parametrize("absent", m.Absence, ids=str)
def test_an_absent_value_is_true_and_stays_itself(absent):
    """absence_is_typed: neither a test for truth nor a process boundary turns it into another."""
    assert absent
    assert pickle.loads(pickle.dumps(absent)) is absent
    assert copy.deepcopy(absent) is absent


def test_the_letters_of_absence_are_those_of_tuple_data():
    """A11: 'n' is NULL, 'u' is an unchanged TOASTed value."""
    assert (m.NULL.value, m.UNCHANGED.value) == ("n", "u")
    assert (repr(m.NULL), repr(m.UNCHANGED)) == ("NULL", "UNCHANGED")


@pytest.mark.parametrize(
    "shown",
    [
        SECRET,
        m.BinaryValue(b"secret"),
        m.Insert(relation_id=1, new=(SECRET,)),
        m.Update(relation_id=1, old_kind="O", old=(SECRET,), new=(SECRET,)),
        m.Delete(relation_id=1, old_kind="K", old=(SECRET,)),
        m.LogicalMessage(transactional=True, lsn=1, prefix="p", content=b"secret"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_of_a_row_is_in_a_repr(shown):
    """names_are_data: reprs are written to logs."""
    assert "secret" not in repr(shown)


@pytest.mark.parametrize(
    "value", [m.TextValue(b"secret"), m.BinaryValue(b"secret")], ids=lambda one: type(one).__name__
)
def test_the_repr_of_a_value_is_its_size(value):
    assert repr(value) == f"{type(value).__name__}(<6 bytes>)"


@pytest.mark.parametrize(("flags", "is_identity"), [(0, False), (1, True), (2, False), (3, True)])
def test_bit_0_of_a_columns_flags_marks_the_replica_identity(flags, is_identity):
    """A8: LOGICALREP_IS_REPLICA_IDENTITY"""
    assert m.RelationColumn(flags, "a", type_oid=23, type_modifier=-1).is_identity == is_identity


def test_a_relation_is_named_with_its_schema():
    relation = m.Relation(relation_id=1, namespace="my schema", name="T", replica_identity="d", columns=())
    assert relation.qualified_name == "my schema.T"
