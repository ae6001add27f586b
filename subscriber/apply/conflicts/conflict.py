"""Conflicts and apply errors in PostgreSQL's words (sections C.4 and C.8).

A missing row is counted, recorded, logged and skipped (C18). A violated constraint stops the
transaction (C22). The message names the relation, the index, the transaction and its finish LSN. It
shows the values of a row only if the subscription's option ``log_conflict_values`` is set. The
texts are those of PostgreSQL 18, which writes ``row`` where earlier minor releases wrote ``tuple``.

::

    conflict detected on relation "public.t": conflict=insert_exists          headline
    Key already exists in unique index "t_pkey", modified in transaction 779.     describe:
    Key (a)=(10); existing local row (10, x); remote row (10, y).                     one pair of lines for each key
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.targets import RowVersion

MISSING: Final = {"U": ConflictKind.UPDATE_MISSING, "D": ConflictKind.DELETE_MISSING}
EXISTS: Final = {"I": ConflictKind.INSERT_EXISTS, "U": ConflictKind.UPDATE_EXISTS}
ORIGIN_DIFFERS: Final = {"U": ConflictKind.UPDATE_ORIGIN_DIFFERS, "D": ConflictKind.DELETE_ORIGIN_DIFFERS}

_MISSING_ROWS: Final = {
    ConflictKind.UPDATE_MISSING: "Could not find the row to be updated.",
    ConflictKind.DELETE_MISSING: "Could not find the row to be deleted.",
}
_TOUCHED_ROWS: Final = {
    ConflictKind.UPDATE_ORIGIN_DIFFERS: "Updating the row that was modified",
    ConflictKind.DELETE_ORIGIN_DIFFERS: "Deleting the row that was modified",
}
_MESSAGE_TYPES: Final = {
    "I": "INSERT",
    "U": "UPDATE",
    "D": "DELETE",
    "T": "TRUNCATE",
    "B": "BEGIN",
    "C": "COMMIT",
    "O": "ORIGIN",
    "b": "BEGIN PREPARE",
    "P": "PREPARE",
    "K": "COMMIT PREPARED",
}
_ROW_BYTES: Final = 64
"""The number of bytes that are shown of each value of a row (rule C21)."""

RowText = tuple[str | None, ...]
"""Values as text; None is NULL. The values of a row are in the target's column order, and long
values are cut (:func:`row_text`).
"""


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """The place of a change in the publisher's transactions.

    Attributes:
        xid: the transaction's number at the publisher.
        final_lsn: the transaction's final LSN; errors show it, and SKIP takes it (C37, C40).
        timestamp: the transaction's commit time (microseconds since 2000-01-01 UTC).
        changes: how many changes of the transaction were applied before this change.
    """

    xid: int
    final_lsn: LSN
    timestamp: int
    changes: int = 0


NOWHERE: Final = ChangePlace(0, INVALID_LSN, 0)
"""The place of a change that does not come from the publisher."""


@dataclass(frozen=True, slots=True)
class ViolatedKey:
    """A unique index that already contains the new row's key.

    Attributes:
        index: the index's name.
        keys: the index's columns or expressions.
        values: the values of the keys in the new row; None where values are not to be shown.
        local_row: the existing row; None where values are not to be shown.
        version: which transaction wrote the existing row, as far as the target reports it.
    """

    index: str
    keys: tuple[str, ...]
    values: RowText | None = None
    local_row: RowText | None = None
    version: RowVersion | None = None


@dataclass(frozen=True, slots=True)
class SearchKey:
    """The key by which the row of an UPDATE or DELETE was searched.

    Attributes:
        columns: the key's columns; empty where the whole row was compared (replica identity full).
        values: the values of the key's columns, or of the whole row; None where values are not to
            be shown.
    """

    columns: tuple[str, ...]
    values: RowText | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict (section C.4).

    Attributes:
        kind: the kind, with its name in pg_stat_subscription_stats, such as ``insert_exists``.
        relation: ``schema.table`` at the target; the partition, where the target can report it.
        place: the change that has the conflict.
        violated: the keys that already exist, in the order of the target's indexes; empty where the
            target cannot report them.
        search: the key by which the row was searched; None for INSERT.
        remote_row: the publisher's row; None where values are not to be shown and for DELETE.
        local_row: the row that another origin has written (``…_origin_differs``).
        version: which transaction has written ``local_row``.
        hint: what to do if a key is refused although no row has it.
    """

    kind: ConflictKind
    relation: str
    place: ChangePlace
    violated: tuple[ViolatedKey, ...] = ()
    search: SearchKey | None = None
    remote_row: RowText | None = None
    local_row: RowText | None = None
    version: RowVersion | None = None
    hint: str | None = None


# Messages -----------------------------------------------------------------------------------------


def headline(kind: ConflictKind, relation: str) -> str:
    """The first line of the message (rule C19)."""
    return f'conflict detected on relation "{relation}": conflict={kind}'


def describe(conflict: Conflict) -> str:
    """The lines of the message's DETAIL (rules C20, C21); empty where nothing more is known."""
    if conflict.kind in _MISSING_ROWS:
        return _lines(_MISSING_ROWS[conflict.kind], _row_parts(conflict))
    if conflict.kind in _TOUCHED_ROWS:
        local = [] if conflict.local_row is None else [f"existing local row {_row(conflict.local_row)}"]
        sentence = _TOUCHED_ROWS[conflict.kind] + _modified(conflict.version, "by a different origin") + "."
        return _lines(sentence, [*local, *_row_parts(conflict)])
    return "\n".join(_describe_key(conflict, key) for key in conflict.violated)


def _describe_key(conflict: Conflict, key: ViolatedKey) -> str:
    modified = _modified(key.version, "by origin")
    parts = [f"key {_named(key.keys, key.values)}"]
    if key.local_row is not None:
        parts.append(f"existing local row {_row(key.local_row)}")
    sentence = f'Key already exists in unique index "{key.index}"{modified and f", modified{modified}"}.'
    return _lines(sentence, [*parts, *_row_parts(conflict)])


def _row_parts(conflict: Conflict) -> list[str]:
    parts = [] if conflict.remote_row is None else [f"remote row {_row(conflict.remote_row)}"]
    search = conflict.search
    if search is not None and search.columns:
        parts.append(f"replica identity {_named(search.columns, search.values)}")
    elif search is not None:
        parts.append("replica identity full" + ("" if search.values is None else f" {_row(search.values)}"))
    return parts


def _modified(version: RowVersion | None, by_origin: str) -> str:
    """Which transaction modified the row, as far as that is known. The text starts with a space: ``
    in transaction 779`` (rule C20).
    """
    if version is None:
        return ""
    if version.at is None:
        return f" in transaction {version.transaction}"
    match version.origin:
        case None:
            who = "locally"
        case "":
            who = "by a non-existent origin"
        case origin:
            who = f'{by_origin} "{origin}"'
    return f" {who} in transaction {version.transaction} at {version.at}"


def _lines(sentence: str, parts: Sequence[str]) -> str:
    if not parts:
        return sentence
    text = "; ".join(parts)
    return f"{sentence}\n{text[0].upper()}{text[1:]}."


def _named(columns: Sequence[str], values: RowText | None) -> str:
    names = f"({', '.join(columns)})"
    return names if values is None else f"{names}=({', '.join(_text(value) for value in values)})"


def _row(values: RowText) -> str:
    return f"({', '.join(map(_text, values))})"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def row_text(values: Iterable[str | None]) -> RowText:
    """A row as it is shown and stored. Long values are cut (rule C21), so that the size of a
    conflict is limited.
    """
    return tuple(None if value is None else _cut(value) for value in values)


def _cut(text: str) -> str:
    data = text[: _ROW_BYTES + 1].encode()
    return text if len(data) <= _ROW_BYTES else data[:_ROW_BYTES].decode(errors="ignore") + "..."


def error_context(origin: str, message_type: str, relation: str | None, column: str | None, at: str) -> str:
    """The CONTEXT line of an apply error (rule C37); ``at`` is the result of
    :func:`transaction_context`.
    """
    text = f'processing remote data for replication origin "{origin}"'
    if message_type in _MESSAGE_TYPES:
        text += f' during message type "{_MESSAGE_TYPES[message_type]}"'
    if relation is not None:
        text += f' for replication target relation "{relation}"'
        if column is not None:
            text += f' column "{column}"'
    return text + at


def transaction_context(xid: int, final_lsn: LSN) -> str:
    """The end of the CONTEXT line: the transaction's number, and the LSN that SKIP takes."""
    return f" in transaction {xid}, finished at {format_lsn(final_lsn)}"
