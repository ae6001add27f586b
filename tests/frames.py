"""Frames for tests, built from messages without a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.types.registry import family_of

OIDS = {
    "bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "json": 114, "float4": 700, "float8": 701,
    "varchar": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "interval": 1186, "numeric": 1700,
    "uuid": 2950, "jsonb": 3802, "int4[]": 1007, "numeric[]": 1231, "bpchar": 1042, "time": 1083, "bit": 1560, "money": 790,
}  # fmt: skip


ACTIONS: dict[type, Literal["I", "U", "D"]] = {m.Insert: "I", m.Update: "U", m.Delete: "D"}


def relation(
    name: str, columns: Mapping[str, str], key: Sequence[str] = (), *, identity: str = "d", oid: int = 16384
) -> m.Relation:
    """A relation message: ``relation("public.t", {"a": "int4", "b": "text"}, key=["a"])``."""
    namespace, _, table = name.rpartition(".")
    described = tuple(
        m.RelationColumn(int(column in key or identity == "f"), column, OIDS[type_name], -1)
        for column, type_name in columns.items()
    )
    return m.Relation(oid, namespace or "public", table, identity, described)


def values(*texts: str | bytes | m.Absence | None) -> tuple[m.ColumnValue, ...]:
    """A tuple of text values. None is NULL; ``UNCHANGED`` stays as it is."""
    return tuple(_value(text) for text in texts)


def _value(text: str | bytes | m.Absence | None) -> m.ColumnValue:
    if text is None:
        return m.NULL
    if isinstance(text, m.Absence):
        return text
    return m.TextValue(text if isinstance(text, bytes) else text.encode())


def transaction(
    finish: int, *changes: m.Message, xid: int = 731, timestamp: int = 1_000_000, commit_lsn: int | None = None
) -> list[m.Message]:
    """Begin, the changes, Commit; ``finish`` is the end LSN, eight bytes after the commit LSN."""
    commit_lsn = finish - 8 if commit_lsn is None else commit_lsn
    return [m.Begin(LSN(commit_lsn), timestamp, xid), *changes, m.Commit(LSN(commit_lsn), LSN(finish), timestamp)]


def prepared(finish: int, *changes: m.Message, xid: int = 731, gid: str = "g") -> list[m.Message]:
    """Begin Prepare, the changes, Prepare, and a Commit Prepared with the end LSN ``finish``."""
    start, end = LSN(finish - 100), LSN(finish - 90)
    return [
        m.BeginPrepare(start, end, 1, xid, gid),
        *changes,
        m.Prepare(start, end, 1, xid, gid),
        m.CommitPrepared(LSN(finish - 8), LSN(finish), 2, xid, gid),
    ]


def finishes_of(messages: Iterable[m.Message], *, two_phase: bool = False) -> dict[int, LSN]:
    """The end LSN of each prepared transaction: that of its COMMIT PREPARED, or with ``two_phase``
    that of its PREPARE.
    """
    last = m.Prepare if two_phase else m.CommitPrepared
    return {message.xid: LSN(message.end_lsn) for message in messages if isinstance(message, last)}


def frame(
    relations: Iterable[m.Relation],
    messages: Iterable[m.Message],
    *,
    text: bool = False,
    finishes: Mapping[int, LSN] | None = None,
    binary: Iterable[str] = (),
) -> Frame:
    """One frame of ``messages``.

    Args:
        relations: those that the messages name.
        messages: the messages in their order.
        text: every column keeps PostgreSQL's text.
        finishes: :func:`finishes_of` the whole stream; None: of these messages.
        binary: the columns that are to pass for such as came in binary form.
    """
    by_id = {shape.relation_id: shape for shape in relations}
    messages = list(messages)
    finishes = finishes_of(messages) if finishes is None else finishes
    controls: list[Control] = []
    groups: dict[tuple[object, ...], list[tuple[int, m.Insert | m.Update | m.Delete]]] = {}
    for position, message in enumerate(messages):
        if isinstance(message, m.Insert | m.Update | m.Delete):
            groups.setdefault(_shape(message), []).append((position, message))
        else:
            named = tuple(by_id[i] for i in message.relation_ids) if isinstance(message, m.Truncate) else ()
            finish = finishes[message.xid] if isinstance(message, m.BeginPrepare) else LSN(0)
            controls.append(Control(position, encode(message), named, finish))
    made = (_group(by_id, members, text=text) for members in groups.values())
    return Frame(tuple(replace(group, binary=frozenset(binary)) for group in made), Controls.of(controls))


def _shape(change: m.Insert | m.Update | m.Delete) -> tuple[object, ...]:
    new = None if isinstance(change, m.Delete) else tuple(value is m.UNCHANGED for value in change.new)
    return type(change), change.relation_id, None if isinstance(change, m.Insert) else change.old_kind, new


def _group(
    by_id: Mapping[int, m.Relation], members: Sequence[tuple[int, m.Insert | m.Update | m.Delete]], *, text: bool
) -> ChangeGroup:
    first = members[0][1]
    shape = by_id[first.relation_id]
    old_kind = None if isinstance(first, m.Insert) else first.old_kind
    olds = [change.old for _, change in members if not isinstance(change, m.Insert) and change.old is not None]
    news = [change.new for _, change in members if not isinstance(change, m.Delete)]
    old_columns = [i for i, column in enumerate(shape.columns) if old_kind == "O" or column.is_identity]
    new_columns = [i for i in range(len(shape.columns)) if news and news[0][i] is not m.UNCHANGED]
    return ChangeGroup(
        relation=shape,
        action=ACTIONS[type(first)],
        old_kind=old_kind,
        positions=np.array([position for position, _ in members], np.int32),
        old=_batch(shape, olds, old_columns, text=text) if old_kind else None,
        new=_batch(shape, news, new_columns, text=text) if news else None,
    )


def _batch(
    shape: m.Relation, tuples: Sequence[Sequence[m.ColumnValue]], columns: Sequence[int], *, text: bool
) -> pa.RecordBatch:
    arrays = []
    for index in columns:
        raw = pa.array([_data(row[index]) for row in tuples], pa.binary())
        decoded = raw.cast(pa.string()) if text else family_of(shape.columns[index].type_oid).decode_text(raw)
        arrays.append(decoded)
    return pa.RecordBatch.from_arrays(arrays, names=[shape.columns[index].name for index in columns])


def _data(value: m.ColumnValue) -> bytes | None:
    return value.data if isinstance(value, m.TextValue) else None
