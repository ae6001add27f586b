"""Output with canonical numbers, so that a server's and ours can be compared byte for byte.

Positions, transactions, OIDs and times differ from run to run. Each is replaced:

- A transaction or a time: by its rank among those of the output, so that their order stays.
- A relation, or a type that is not built in: by its place in the order in which they are named.
- A position: by its rank, where the end of a record is before the start of the next one, although
  both are one number if no record is between them. A server's WAL has records that no plugin sees.
- The position of a begin, which is that of the transaction's first record, by the next position
  that is visible; that of a closed block by the one before. For the same reason.

With ``debug_logical_replication_streaming = immediate`` a server streams a block for every record
of a command that changes catalogs, a dozen for a TRUNCATE. Such a block is empty. How many there
are depends on the catalogs' indexes and dependencies, which the Publisher does not have. So empty
blocks are left out, on both sides. A transaction that has no other blocks is left out whole, and so
is one of test_decoding's that was not streamed: whether it is depends on these records, too.

Everything else is kept: pgoutput's messages are decoded, get the canonical numbers, and are encoded
again. A message that does not become the same bytes without the replacement is an error. A time or
a position of an origin is given by the workload, so it is kept, too.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeAlias

from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from tests.workloads.runs import Run

Rows: TypeAlias = Sequence[tuple[int, int, bytes]]
"""Position, transaction and data: the rows of ``pg_logical_slot_peek_binary_changes``."""

Position: TypeAlias = tuple[int, int]
"""A position, and 0 for the end of a record or 1 for the start of one."""

_END, _START = 0, 1
_FIRST_NORMAL_OID: Final = 16384
_GIVEN_TIMES: Final = 631_152_000_000_000
"""Before 2020: such a time is given by the workload."""

_KINDS: Final[dict[str, str]] = {
    "final_lsn": "start", "commit_lsn": "start", "prepare_lsn": "start", "end_lsn": "end", "prepare_end_lsn": "end",
    "abort_lsn": "end", "lsn": "end", "origin_lsn": "kept",
    "xid": "xid", "subxid": "xid", "relation_id": "relation", "relation_ids": "relations", "type_oid": "type",
    "commit_timestamp": "time", "prepare_timestamp": "time", "rollback_timestamp": "time", "abort_timestamp": "time",
}  # fmt: skip
"""What the fields of messages are."""

_LOCATIONS: Final = {
    **dict.fromkeys("BbS", "next"), "E": "previous", **dict.fromkeys("IUDTRY", "start"), **dict.fromkeys("CKPrpcAM", "end"),
}  # fmt: skip
"""What the position of a row is, by the type of the message. That of an Origin is as before it."""

_LINES: Final = (
    (r"BEGIN|opening a streamed block", "next"),
    (r"closing a streamed block", "previous"),
    (r"table |streaming (change|truncate)", "start"),
    (r"", "end"),
)
_NUMBER: Final = re.compile(r"(?:(?<=^BEGIN )|(?<=^COMMIT )|(?<=, txid )|(?<= TXN ))\d+")
_TIME: Final = re.compile(r"(?<= \(at )[-0-9 :.]+(?=\+00\)$)")


@dataclass(slots=True)
class _Found:
    """The numbers of an output."""

    positions: set[Position] = field(default_factory=set)
    xids: set[int] = field(default_factory=set)
    times: set[Any] = field(default_factory=set)
    relations: dict[int, int] = field(default_factory=dict)
    types: dict[int, int] = field(default_factory=dict)

    def note(self, kind: str, value: Any) -> Any:
        """Note a number; the value is returned as it is."""
        match kind:
            case "start" | "end":
                self.positions.add((value, _START if kind == "start" else _END))
            case "xid" if value:
                self.xids.add(value)
            case "time" if not _is_given(value):
                self.times.add(value)
            case "relation":
                self.relations.setdefault(value, len(self.relations) + 1)
            case "relations":
                for one in value:
                    self.note("relation", one)
            case "type" if value >= _FIRST_NORMAL_OID:
                self.types.setdefault(value, _FIRST_NORMAL_OID + len(self.types))
        return value

    def numbers(self) -> Callable[[str, Any], Any]:
        """The function that returns the canonical number of a number."""
        positions, xids, times = sorted(self.positions), sorted(self.xids), sorted(self.times)

        def number(kind: str, value: Any) -> Any:
            match kind:
                case "start" | "end":
                    return bisect_left(positions, (value, _START if kind == "start" else _END)) + 1
                case "next":
                    return bisect_left(positions, (value, _START)) + 1
                case "previous":
                    return bisect_right(positions, (value, _START))
                case "xid" if value:
                    return bisect_left(xids, value) + 1
                case "time" if not _is_given(value):
                    return bisect_left(times, value) + 1
                case "relation":
                    return self.relations[value]
                case "relations":
                    return tuple(self.relations[one] for one in value)
                case "type" if value >= _FIRST_NORMAL_OID:
                    return self.types[value]
            return value

        return number


def _is_given(time: Any) -> bool:
    return time < _GIVEN_TIMES if isinstance(time, int) else str(time) < "2020"


def canonical(rows: Rows, run: Run) -> list[str]:
    """The output as lines: position, transaction, and the data; that of pgoutput in hex, with the
    type of the message.

    Raises:
        AssertionError: a message is not what our own protocol makes of it.
    """
    return (_messages if run.plugin == "pgoutput" else _lines)(rows, run)


@dataclass(frozen=True, slots=True)
class _Row:
    """A message: what its position is, the position, the transaction, and the message; of a change
    also the columns of its relation.
    """

    location: str
    lsn: int
    xid: int
    message: m.Message
    columns: tuple[m.RelationColumn, ...] = ()

    def mapped(self, number: Callable[[str, Any], Any]) -> _Row:
        message = _mapped(self.message, self.columns, number)
        return replace(self, lsn=number(self.location, self.lsn), xid=number("xid", self.xid), message=message)


def _messages(rows: Rows, run: Run) -> list[str]:
    decoded = _decoded(rows, run)
    if run.immediate:
        decoded = _without_empty_blocks(decoded)
    found = _Found()
    for row in decoded:
        row.mapped(found.note)
    number = found.numbers()
    canonical_rows = [row.mapped(number) for row in decoded]
    return [f"{row.lsn} {row.xid} {row.message.type_byte} {encode(row.message)[1:].hex()}" for row in canonical_rows]


def _decoded(rows: Rows, run: Run) -> list[_Row]:
    decoded = []
    columns: dict[int, tuple[m.RelationColumn, ...]] = {}
    in_stream, location = False, "end"
    for lsn, xid, data in rows:
        message = decode(data, in_stream=in_stream, write_abort_info=run.parallel)
        assert encode(message) == data
        in_stream = message.type_byte == "S" or (in_stream and message.type_byte != "E")
        location = location if message.type_byte == "O" else _LOCATIONS[message.type_byte]
        if isinstance(message, m.Relation):
            columns[message.relation_id] = message.columns
        changed: tuple[m.RelationColumn, ...] = ()
        if isinstance(message, m.Insert | m.Update | m.Delete):
            changed = columns[message.relation_id]
        decoded.append(_Row(location, lsn, xid, message, changed))
    return decoded


def _mapped(message: Any, columns: tuple[m.RelationColumn, ...], number: Callable[[str, Any], Any]) -> Any:
    changed = {}
    for one in fields(message):
        value = getattr(message, one.name)
        if value is not None and one.name in _KINDS:
            changed[one.name] = number(_KINDS[one.name], value)
        elif value is not None and one.name in {"old", "new"}:
            changed[one.name] = tuple(
                _array(datum, number) if column.type_oid >= _FIRST_NORMAL_OID else datum
                for column, datum in zip(columns, value, strict=True)
            )
    if isinstance(message, m.Relation):
        changed["columns"] = tuple(_mapped(column, (), number) for column in message.columns)
    return replace(message, **changed)


def _array(datum: m.ColumnValue, number: Callable[[str, Any], Any]) -> m.ColumnValue:
    """A value in the binary format of an array, which has the type of its elements."""
    if not isinstance(datum, m.BinaryValue) or len(datum.data) < 12:
        return datum
    dimensions, flags, element = struct.unpack_from(">iiI", datum.data)
    if not (0 <= dimensions <= 6 and flags in {0, 1}):
        return datum
    return m.BinaryValue(struct.pack(">iiI", dimensions, flags, number("type", element)) + datum.data[12:])


def _without_empty_blocks(rows: list[_Row]) -> list[_Row]:
    kept: list[_Row] = []
    streamed: set[int] = set()  # transactions with a block
    shown: set[int] = set()  # those with a block that is not empty
    origins: dict[int, list[_Row]] = {}
    block: list[_Row] | None = None
    for row in rows:
        if isinstance(row.message, m.StreamStart):
            streamed.add(row.xid)
            block = [row]
        elif block is None:
            if row.message.type_byte not in "cpA" or row.xid in shown or row.xid not in streamed:
                kept.append(row)
        elif isinstance(row.message, m.Origin):
            origins[row.xid] = [row]
        elif not isinstance(row.message, m.StreamStop):
            block.append(row)
        else:
            start, *changes = block
            block = None
            if changes:
                first = start.xid not in shown
                shown.add(start.xid)
                assert isinstance(start.message, m.StreamStart)
                begin = replace(start, message=replace(start.message, first_segment=first))
                kept += [begin, *(origins.get(start.xid, []) if first else []), *changes, row]
    assert block is None
    return kept


def _lines(rows: Rows, run: Run) -> list[str]:
    found = _Found()
    texts = [(lsn, xid, data.decode()) for lsn, xid, data in rows]
    if run.immediate:
        texts = _without_empty_text_blocks(texts)

    def location(text: str) -> str:
        return next(kind for pattern, kind in _LINES if re.match(pattern, text))

    for lsn, xid, text in texts:
        found.note(location(text), lsn)
        found.note("xid", xid)
        for one in _NUMBER.findall(text):
            found.note("xid", int(one))
        for one in _TIME.findall(text):
            found.note("time", _padded(one))
    number = found.numbers()
    lines = []
    for lsn, xid, text in texts:
        named = _NUMBER.sub(lambda one: str(number("xid", int(one[0]))), text)
        named = _TIME.sub(lambda one: str(number("time", _padded(one[0]))), named)
        lines.append(f"{number(location(text), lsn)} {number('xid', xid)} {named}")
    return lines


def _without_empty_text_blocks(texts: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    kept: list[tuple[int, int, str]] = []
    streamed: set[int] = set()
    shown: set[int] = set()
    for row in texts:
        _, xid, text = row
        if text.startswith("opening a streamed block"):
            streamed.add(xid)
        elif text.startswith("closing a streamed block") and kept[-1][2].startswith("opening a streamed block"):
            kept.pop()
            continue
        elif text.startswith("closing a streamed block"):
            shown.add(xid)
        elif xid in streamed - shown and text.startswith(("committing str", "preparing str", "aborting str")):
            continue
        elif text.startswith("COMMIT") and kept[-1][2].startswith("BEGIN"):
            kept.pop()
            continue
        kept.append(row)
    return kept


def _padded(time: str) -> str:
    """A time with six digits after the point, so that times compare as texts."""
    whole, _, fraction = time.partition(".")
    return f"{whole}.{fraction:0<6}"


def words(lines: Iterable[str], run: Run) -> list[str]:
    """Canonical lines of pgoutput for a reader, with the text in them."""
    if run.plugin != "pgoutput":
        return list(lines)
    found = []
    for line in lines:
        *head, data = line.split(" ")
        found.append(" ".join([*head, repr(bytes.fromhex(data))[2:-1]]))
    return found
