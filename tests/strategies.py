"""Hypothesis strategies for all protocol messages. All property tests share them. They create what
a publisher can send: LSNs are set, a GID is not too long, a K tuple may contain UNCHANGED.

They make what a publisher can send: LSNs are set, a gid fits, a K tuple may hold UNCHANGED. Use
``messages(in_stream=...)`` for any message, the single ones for a kind.
"""

from __future__ import annotations

import string
from typing import Any, Final

from hypothesis import strategies as st

from subscriber.postgres.protocol import envelope as e
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import GID_SIZE

u16: Final = st.integers(0, 0xFFFF)
u32: Final = st.integers(0, 0xFFFF_FFFF)
oids: Final = st.integers(1, 0xFFFF_FFFF)
xids: Final = st.integers(1, 0xFFFF_FFFF)
lsns: Final = st.integers(1, 0xFFFF_FFFF_FFFF_FFFF)
any_lsns: Final = st.integers(0, 0xFFFF_FFFF_FFFF_FFFF)
timestamps: Final = st.integers(-(2**63), 2**63 - 1)

texts: Final = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
"""Any string that a message can contain: no NUL, no lone surrogate."""

names: Final = st.one_of(st.text(string.ascii_lowercase + '_"$ é', min_size=1, max_size=10), texts.filter(bool))
"""An identifier."""

namespaces: Final = st.one_of(st.just("pg_catalog"), st.just("public"), names)
gids: Final = texts.filter(lambda text: len(text.encode()) < GID_SIZE)
values: Final = st.binary(max_size=12)

column_values: Final[st.SearchStrategy[m.ColumnValue]] = st.one_of(
    st.sampled_from(m.Absence), st.builds(m.TextValue, values), st.builds(m.BinaryValue, values)
)
"""A column of a tuple: NULL, UNCHANGED, text or binary."""


def tuples(*, size: int | None = None) -> st.SearchStrategy[m.TupleData]:
    """Tuples of ``size`` columns, or of up to five."""
    lower, upper = (0, 5) if size is None else (size, size)
    return st.lists(column_values, min_size=lower, max_size=upper).map(tuple)


relation_columns: Final = st.builds(
    m.RelationColumn, st.sampled_from((0, 1)), names, oids, st.integers(-(2**31), 2**31 - 1)
)

_prepared: Final[tuple[st.SearchStrategy[Any], ...]] = (lsns, lsns, timestamps, xids, gids)

stream_aborts: Final = st.one_of(
    st.builds(m.StreamAbort, xids, xids), st.builds(m.StreamAbort, xids, xids, any_lsns, timestamps)
)

transaction_messages: Final[st.SearchStrategy[m.Message]] = st.one_of(
    st.builds(m.Begin, lsns, timestamps, xids),
    st.builds(m.Commit, any_lsns, any_lsns, timestamps),
    st.builds(m.Origin, any_lsns, texts),
    st.builds(m.StreamStart, xids, st.booleans()),
    st.builds(m.StreamStop),
    st.builds(m.StreamCommit, xids, any_lsns, any_lsns, timestamps),
    stream_aborts,
    st.builds(m.BeginPrepare, *_prepared),
    st.builds(m.Prepare, *_prepared),
    st.builds(m.CommitPrepared, *_prepared),
    st.builds(m.RollbackPrepared, lsns, lsns, timestamps, timestamps, xids, gids),
    st.builds(m.StreamPrepare, *_prepared),
)
"""Messages that have the same bytes inside and outside of a stream block (rule A4)."""


def _with_old(kind: m.OldKind | None, xid: st.SearchStrategy[int | None]) -> st.SearchStrategy[m.Message]:
    old = st.none() if kind is None else tuples()
    return st.builds(m.Update, oids, st.just(kind), old, tuples(), xid)


def updates(*, in_stream: bool = False) -> st.SearchStrategy[m.Message]:
    """Updates without an old tuple, with the old key, and with the whole old row."""
    xid = _xid(in_stream)
    return st.one_of(_with_old(None, xid), _with_old("K", xid), _with_old("O", xid))


def changes(*, in_stream: bool = False) -> st.SearchStrategy[m.Message]:
    """Insert, Update, Delete and Truncate."""
    xid = _xid(in_stream)
    return st.one_of(
        st.builds(m.Insert, oids, tuples(), xid),
        updates(in_stream=in_stream),
        st.builds(m.Delete, oids, st.sampled_from(("K", "O")), tuples(), xid),
        st.builds(m.Truncate, st.lists(oids, max_size=4).map(tuple), st.booleans(), st.booleans(), xid),
    )


def relations(*, in_stream: bool = False) -> st.SearchStrategy[m.Message]:
    """Relation descriptions of up to five columns."""
    columns = st.lists(relation_columns, max_size=5).map(tuple)
    return st.builds(m.Relation, oids, namespaces, names, st.sampled_from("dnfi"), columns, _xid(in_stream))


def messages(*, in_stream: bool = False) -> st.SearchStrategy[m.Message]:
    """Any message, in the form that it has inside or outside of a stream block (rule A3)."""
    xid = _xid(in_stream)
    return st.one_of(
        transaction_messages,
        changes(in_stream=in_stream),
        relations(in_stream=in_stream),
        st.builds(m.Type, oids, namespaces, names, xid),
        st.builds(m.LogicalMessage, st.booleans(), any_lsns, texts, values, xid),
    )


def _xid(in_stream: bool) -> st.SearchStrategy[int | None]:
    return xids if in_stream else st.none()


server_envelopes: Final[st.SearchStrategy[e.ServerEnvelope]] = st.one_of(
    st.builds(e.XLogData, any_lsns, any_lsns, timestamps, values),
    st.builds(e.Keepalive, any_lsns, timestamps, st.booleans()),
    st.builds(e.PrimaryStatusUpdate, any_lsns, any_lsns, any_lsns, timestamps),
)

client_envelopes: Final[st.SearchStrategy[e.ClientEnvelope]] = st.one_of(
    st.builds(e.StandbyStatusUpdate, any_lsns, any_lsns, any_lsns, timestamps, st.booleans()),
    st.builds(e.PrimaryStatusRequest, timestamps),
)
