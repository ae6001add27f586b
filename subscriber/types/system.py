"""Types for positions and transactions of the server: pg_lsn, tid, xid8 and snapshots."""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Final

import pyarrow as pa

from subscriber.lsn import format_lsn
from subscriber.types.equality import NONE
from subscriber.types.family import as_text, family, packed
from subscriber.types.form import Form, invalid_syntax, without_modifier
from subscriber.types.wire import BadWire, Wire, value_by_value

_TID: Final = re.compile(r"\(([0-9]+),([0-9]+)\)")
_SNAPSHOT: Final = re.compile(r"([0-9]+):([0-9]+):((?:[0-9]+(?:,[0-9]+)*)?)")
_LSN: Final = re.compile(r"([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})")


def _lsn(wire: Wire) -> str:
    """Layout: the position u64.

    The text is that of servers up to version 18. Version 19 writes leading zeros in the low half.
    """
    return format_lsn(wire.number("Q"))


def pg_lsn_in(text: str) -> int:
    """The input function of pg_lsn.

    Raises:
        DataException: 22P02, the text is not an LSN.
    """
    match = _LSN.fullmatch(text)
    if match is None:
        raise invalid_syntax("pg_lsn")
    return int(match[1], 16) << 32 | int(match[2], 16)


def _row(wire: Wire) -> str:
    """Layout: block u32, offset u16."""
    return "({},{})".format(*wire.numbers("IH"))


def _tid_in(text: str) -> tuple[int, ...]:
    match = _TID.fullmatch(text)
    if match is None:
        raise invalid_syntax("tid")
    return int(match[1]), int(match[2])


def _xid8_in(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**64):
        raise invalid_syntax("xid8")
    return int(text)


def _transaction(wire: Wire) -> str:
    """Layout: epoch and xid u64."""
    return str(wire.number("Q"))


def _snapshot(wire: Wire) -> str:
    """Layout: number of transactions in progress i32, xmin u64, xmax u64, the transactions in
    progress u64 each, in ascending order.
    """
    running = wire.number("i")
    xmin, xmax = wire.numbers("QQ")
    if not 0 < xmin <= xmax or running < 0:
        raise BadWire
    transactions = [wire.number("Q") for _ in range(running)]
    if transactions != sorted(transactions) or any(not xmin <= xid <= xmax for xid in transactions):
        raise BadWire
    return f"{xmin}:{xmax}:{','.join(map(str, transactions))}"


def _snapshot_send(text: str) -> bytes:
    match = _SNAPSHOT.fullmatch(text)
    if match is None:
        raise invalid_syntax("pg_snapshot")
    running = [int(one) for one in match[3].split(",") if one]
    return struct.pack(f">iQQ{len(running)}Q", len(running), int(match[1]), int(match[2]), *running)


FAMILIES: Final = (
    family(
        "pg_lsn",
        (3220,),
        pa.string(),
        as_text,
        value_by_value("pg_lsn", _lsn),
        Form(without_modifier(pg_lsn_in), format_lsn, pa.uint64()),
        send=partial(packed, "Q", pg_lsn_in),
    ),
    family("tid", (27,), pa.string(), as_text, value_by_value("tid", _row), send=partial(packed, "IH", _tid_in)),
    family(
        "xid8", (5069,), pa.string(), as_text, value_by_value("xid8", _transaction), send=partial(packed, "Q", _xid8_in)
    ),
    *(
        family(name, (oid,), pa.string(), as_text, value_by_value(name, _snapshot), equality=NONE, send=_snapshot_send)
        for name, oid in (("pg_snapshot", 5038), ("txid_snapshot", 2970))
    ),
)
