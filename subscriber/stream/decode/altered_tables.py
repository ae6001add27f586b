"""Finds in a journal where the publisher's tables were altered
(:mod:`subscriber.postgres.publication.earlier_tables`). The whole journal is read, but only if a
table is published otherwise than when the tables were read before.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Begin, BeginPrepare, Relation, Truncate
from subscriber.postgres.publication.earlier_tables import TableChange, place_of
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.journal.builder import rows_of
from subscriber.stream.journal.message_rows import FROM_BEFORE, read_finish, read_messages
from subscriber.stream.journal.reader import JournalReader

_ID_AT: Final = slice(1, 5)
_CHANGES: Final = b"IUD"


def placed(publishing: Publishing, journal: JournalReader) -> Publishing:
    """The publications, with the places up to where earlier facts of their tables hold. The journal
    must have everything that was sent before the tables were read.
    """
    wanted = frozenset(one.oid for one in publishing.earlier if one.ends is None)
    begin = journal.control().begin
    walk = _Walk(wanted)
    if wanted:
        walk.read(journal)
    earlier = [
        replace(one, ends=place_of(one, walk.changes.get(one.oid, ()), walk.begins)) if one.ends is None else one
        for one in publishing.earlier
    ]
    return replace(publishing, earlier=tuple(one for one in earlier if one.ends is not None and one.ends[1] > begin))


class _Walk:
    """Collects the changes of some tables, and the begin and ID of each transaction, in order."""

    def __init__(self, wanted: Container[int]) -> None:
        self.changes: dict[int, list[TableChange]] = {}
        self.begins: list[tuple[int, int]] = []
        self._wanted = wanted
        self._described: set[int] = set()
        self._xid = 0
        self._has_begun = True

    def read(self, journal: JournalReader) -> None:
        begin = journal.control().begin
        for reading in journal.plan(begin, journal.latest(begin)):
            self._xid = reading.segment.xid
            for batch in read_messages(journal.storage, reading, read_finish(journal.storage, reading)):
                self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> None:
        lsns = batch.column("lsn").to_numpy(zero_copy_only=False)
        messages = batch.column("message")
        for row in rows_of(messages, b"BbRT" + _CHANGES):
            lsn = int(lsns[row])
            message = messages[row].as_buffer().to_pybytes()
            if lsn > 0 and not self._has_begun:
                self.begins.append((lsn, self._xid))  # the Begin message of a streamed transaction has no LSN
                self._has_begun = True
            for oid in self._named(message, lsn):
                change = TableChange(lsn, self._xid, oid in self._described)
                self.changes.setdefault(oid, []).append(change)
                self._described.discard(oid)

    def _named(self, message: bytes, lsn: int) -> Iterator[int]:
        """The wanted tables that a message changes."""
        if message[0] in _CHANGES:
            oid = int.from_bytes(message[_ID_AT])
            if oid in self._wanted:
                yield oid
            return
        match decode(message):
            case Begin(xid=xid) | BeginPrepare(xid=xid):
                self._xid = xid
                self._has_begun = lsn > 0
                if lsn > 0:
                    self.begins.append((lsn, xid))
            case Relation(relation_id=oid) if lsn != FROM_BEFORE:
                self._described.add(oid)
            case Truncate(relation_ids=oids):
                yield from (oid for oid in oids if oid in self._wanted)
