"""Conflicts and apply errors in PostgreSQL's words (sections C.4 and C.8).

The message shows the values of a row only if the subscription's option ``log_conflict_values`` is
set. The texts are those of PostgreSQL 18, which writes ``row`` where earlier minor releases wrote
``tuple``, or those of 19::

    conflict detected on relation "public.t": conflict=insert_exists     headline
    Key already exists in unique index "t_pkey", modified in transaction 779.     describe, 18:
    Key (a)=(10); existing local row (10, x); remote row (10, y).                   two lines a key
    Could not apply remote change: remote row (10, y).                            describe, 19:
    Key already exists in unique index "t_pkey", modified in transaction 779:       a line a key
    key (a)=(10), local row (10, x).

The policy is PostgreSQL's: skip a change whose row is missing, change a row that another origin has
written, stop at a key that exists (rules C18-C22). With CONFLICT RESOLVER, a batch stops at every
conflict that a resolver decides (:class:`StoppingPolicy`), and
:mod:`subscriber.apply.writing.resolving_writer` carries out what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol, Self

from subscriber.base.errors import ConflictError, NotSupportedError, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn
from subscriber.catalog.own_tables import ConflictKind
from subscriber.postgres.schema.conflict_resolvers import ConflictResolvers
from subscriber.targets import RowVersion

MISSING: Final = {"U": ConflictKind.UPDATE_MISSING, "D": ConflictKind.DELETE_MISSING}
EXISTS: Final = {"I": ConflictKind.INSERT_EXISTS, "U": ConflictKind.UPDATE_EXISTS}
ORIGIN_DIFFERS: Final = {"U": ConflictKind.UPDATE_ORIGIN_DIFFERS, "D": ConflictKind.DELETE_ORIGIN_DIFFERS}

_MISSING_ROWS: Final = {
    ConflictKind.UPDATE_MISSING: "Could not find the row to be updated",
    ConflictKind.DELETE_MISSING: "Could not find the row to be deleted",
}
_TOUCHED_ROWS: Final = {
    ConflictKind.UPDATE_DELETED: "The row to be updated was deleted",
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
_IN_SENTENCE: Final = 19
"""The version that writes the values into the sentence, and no longer below it (rule C21)."""
_ROW_BYTES: Final = 64
"""The number of bytes that are shown of each value of a row (rule C21)."""

RowText = tuple[str | None, ...]
"""Values as text; None is NULL. The values of a row are in the target's column order, and long
values are cut (:func:`row_text`).
"""


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """The place of a change in the publisher's transactions. Errors show ``final_lsn``, and SKIP
    takes it (C37, C40). ``timestamp`` is the commit time (microseconds since 2000-01-01 UTC);
    ``changes`` of the transaction were applied before.
    """

    xid: int
    final_lsn: LSN
    timestamp: int
    changes: int = 0


NOWHERE: Final = ChangePlace(0, INVALID_LSN, 0)
"""The place of a change that does not come from the publisher."""


@dataclass(frozen=True, slots=True)
class ViolatedKey:
    """A unique index that has the new row's key. Values are None where they are not to be shown."""

    index: str
    keys: tuple[str, ...]
    values: RowText | None = None
    local_row: RowText | None = None
    version: RowVersion | None = None


@dataclass(frozen=True, slots=True)
class SearchKey:
    """The key by which the row of an UPDATE or DELETE was searched; without columns, by the whole
    row, whose columns are ``row_columns``. ``values`` is None where values are not to be shown.
    """

    columns: tuple[str, ...]
    values: RowText | None = None
    row_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflict (section C.4).

    Attributes:
        relation: ``schema.table`` at the target; the partition, where the target can report it.
        violated: the keys that already exist, in the order of the target's indexes; empty where the
            target cannot report them.
        search: the key by which the row was searched; None for INSERT.
        remote_row: the publisher's row; None where values are not to be shown and for DELETE.
        local_row: the row that another origin has written (``…_origin_differs``).
        version: which transaction has written ``local_row``.
        columns: the names of the columns of rows, where values are to be shown.
        hint: what to do if a key is refused although no row has it.
        resolution: the resolver that has decided about it; None for PostgreSQL's default.
        applied: whether the change was applied, or a row in its place; None without a resolver.
    """

    kind: ConflictKind
    relation: str
    place: ChangePlace
    violated: tuple[ViolatedKey, ...] = ()
    search: SearchKey | None = None
    remote_row: RowText | None = None
    local_row: RowText | None = None
    version: RowVersion | None = None
    columns: tuple[str, ...] = ()
    hint: str | None = None
    resolution: str | None = None
    applied: bool | None = None


# Messages -----------------------------------------------------------------------------------------


def headline(kind: ConflictKind, relation: str, resolution: str | None = None) -> str:
    """The first line of the message (rule C19), with the resolver as in the proposed patch."""
    resolved = "" if resolution is None else f", resolution={resolution}"
    return f'conflict detected on relation "{relation}": conflict={kind}{resolved}'


def describe(conflict: Conflict, version: int = 18) -> str:
    """The lines of the message's DETAIL in the words of a major version of PostgreSQL (rules C20,
    C21); empty where nothing more is known. The last line says what a resolver has done.
    """
    found = _describe(conflict, version)
    return found if conflict.applied is None else f"{found}\n{_OUTCOMES[conflict.applied]}".lstrip()


_OUTCOMES: Final = {True: "The remote change is applied.", False: "The remote change is ignored."}


def _describe(conflict: Conflict, version: int) -> str:
    in_sentence = version >= _IN_SENTENCE
    lines = _with_colon if in_sentence else _lines
    if conflict.kind in _MISSING_ROWS:
        return lines(_MISSING_ROWS[conflict.kind], _row_parts(conflict))
    if conflict.kind is ConflictKind.UPDATE_DELETED and in_sentence:
        missing = _with_colon(_MISSING_ROWS[ConflictKind.UPDATE_MISSING], _row_parts(conflict))
        deleted = _TOUCHED_ROWS[conflict.kind] + _modified(conflict.version, "by a different origin")
        return f"{missing}\n{deleted}."
    if conflict.kind in _TOUCHED_ROWS:
        sentence = _TOUCHED_ROWS[conflict.kind] + _modified(conflict.version, "by a different origin")
        return lines(sentence, [*_local_row(conflict.local_row, in_sentence), *_row_parts(conflict)])
    found = []
    if in_sentence and conflict.violated:
        found.append(_with_colon("Could not apply remote change", _row_parts(conflict)))
    for key in conflict.violated:
        modified = _modified(key.version, "by origin")
        sentence = f'Key already exists in unique index "{key.index}"{modified and f", modified{modified}"}'
        parts = [f"key {_named(key.keys, key.values)}", *_local_row(key.local_row, in_sentence)]
        found.append(lines(sentence, parts if in_sentence else [*parts, *_row_parts(conflict)]))
    return "\n".join(found)


def _local_row(row: RowText | None, in_sentence: bool) -> list[str]:
    return [] if row is None else [f"{'' if in_sentence else 'existing '}local row {_row(row)}"]


def _row_parts(conflict: Conflict) -> list[str]:
    parts = [] if conflict.remote_row is None else [f"remote row {_row(conflict.remote_row)}"]
    search = conflict.search
    if search is not None and search.columns:
        parts.append(f"replica identity {_named(search.columns, search.values)}")
    elif search is not None:
        parts.append("replica identity full" + ("" if search.values is None else f" {_row(search.values)}"))
    return parts


def _modified(version: RowVersion | None, by_origin: str) -> str:
    """Which transaction modified the row, as in `` in transaction 779`` (rule C20)."""
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
    return f" {who}{f' in transaction {version.transaction}' if version.transaction else ''} at {version.at}"


def _lines(sentence: str, parts: Sequence[str]) -> str:
    if not parts:
        return f"{sentence}."
    text = "; ".join(parts)
    return f"{sentence}.\n{text[0].upper()}{text[1:]}."


def _with_colon(sentence: str, parts: Sequence[str]) -> str:
    return f"{sentence}: {', '.join(parts)}." if parts else f"{sentence}."


def _named(columns: Sequence[str], values: RowText | None) -> str:
    names = f"({', '.join(columns)})"
    return names if values is None else f"{names}=({', '.join(_text(value) for value in values)})"


def _row(values: RowText) -> str:
    return f"({', '.join(map(_text, values))})"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def row_text(values: Iterable[str | None]) -> RowText:
    """A row as it is shown and stored; long values are cut (rule C21)."""
    return tuple(None if value is None else _cut(value) for value in values)


def _cut(text: str) -> str:
    data = text[: _ROW_BYTES + 1].encode()
    return text if len(data) <= _ROW_BYTES else data[:_ROW_BYTES].decode(errors="ignore") + "..."


def error_context(origin: str, message_type: str, relation: str | None, column: str | None, at: str) -> str:
    """The CONTEXT line of an apply error (rule C37); ``at`` is :func:`transaction_context`."""
    text = f'processing remote data for replication origin "{origin}"'
    if message_type in _MESSAGE_TYPES:
        text += f' during message type "{_MESSAGE_TYPES[message_type]}"'
    if relation is not None:
        text += f' for replication target relation "{relation}"'
        if column is not None:
            text += f' column "{column}"'
    return text + at


def transaction_context(xid: int, final_lsn: LSN, version: int = 18) -> str:
    """The end of the CONTEXT line: the transaction's number, and the LSN that SKIP takes."""
    return f" in transaction {xid}, finished at {format_lsn(final_lsn, version)}"


# What an error carries ----------------------------------------------------------------------------

_UNIQUE_VIOLATION: Final = "23505"


@dataclass(frozen=True, slots=True)
class ApplyFailure:
    """The additional data that an applier attaches to an error (:attr:`SubscriberError.failure`).

    The batch can be committed up to ``applied_before``, where the last transaction before the
    failing one finished; None when no change caused the error: then the whole batch is to be tried
    again. With ``at_commit``, the target refused the whole transaction at its commit, and would
    refuse it again.
    """

    applied_before: LSN | None = None
    conflict: Conflict | None = None
    at_commit: bool = False

    @classmethod
    def of(cls, error: SubscriberError) -> Self:
        """The data that ``error`` carries; an empty object if no applier raised it."""
        return error.failure if isinstance(error.failure, cls) else cls()


def with_failure(error: SubscriberError, **fields: Any) -> SubscriberError:
    """A copy of ``error`` with this :class:`ApplyFailure`; a transient error unchanged."""
    if error.transient:
        return error
    return error.replace(failure=replace(ApplyFailure.of(error), **fields))


def violation(error: SubscriberError, action: str, relation: str, place: ChangePlace) -> Conflict | None:
    """The conflict of a unique violation of an INSERT or UPDATE (rule C22). The database has named
    at most one of the violated keys: :meth:`Applier.examine` finds all of them.
    """
    if error.sqlstate != _UNIQUE_VIOLATION or action not in EXISTS or ApplyFailure.of(error).conflict is not None:
        return None
    return Conflict(EXISTS[action], relation, place)


def as_conflict(error: SubscriberError, conflict: Conflict, version: int = 18) -> SubscriberError:
    """A copy of ``error`` with ``conflict``, PostgreSQL's message (rule C19) and DETAIL."""
    detail = describe(conflict, version) or error.detail
    message = headline(conflict.kind, conflict.relation)
    worded = error.replace(message=message, detail=detail, hint=conflict.hint or error.hint)
    return with_failure(worded, conflict=conflict)


def placed(
    error: SubscriberError,
    origin: str,
    message_type: str,
    xid: int,
    final_lsn: LSN,
    *,
    relation: str | None = None,
    version: int = 18,
) -> SubscriberError:
    """``error`` with its place in the stream (rule C37), unless it is transient. ``final_lsn`` may
    be the LSN of a PREPARE; ``relation`` is the target's name.
    """
    if error.transient:
        return error
    place = transaction_context(xid, final_lsn, version)
    context = error_context(origin, message_type, relation, error.column, place)
    return error.replace(lsn=final_lsn, xid=xid, context=context)


@contextmanager
def failing_at(origin: str, message_type: str, xid: int, final_lsn: LSN, version: int = 18) -> Iterator[None]:
    """Add the place of a message to errors of the block, as :func:`placed` does."""
    try:
        yield
    except SubscriberError as error:
        raise placed(error, origin, message_type, xid, final_lsn, version=version) from None


# The policy ---------------------------------------------------------------------------------------

_SERIALIZATION_FAILURE: Final = "40001"
"""PostgreSQL's SQLSTATE of conflicts that violate no key."""


class Resolution(StrEnum):
    """What happens to a change that has a conflict."""

    APPLY_REMOTE = "apply_remote"
    """The change is applied nevertheless."""
    SKIP = "skip"
    """The change is left out."""
    ERROR = "error"
    """The transaction of the change stops."""


class ConflictPolicy(Protocol):
    """Decides about conflicts."""

    @property
    def version(self) -> int:
        """The major version of PostgreSQL in whose words conflicts and errors are reported."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """Decide what happens to the change."""


_POSTGRESQL: Final[Mapping[ConflictKind, Resolution]] = {
    ConflictKind.INSERT_EXISTS: Resolution.ERROR,
    ConflictKind.UPDATE_ORIGIN_DIFFERS: Resolution.APPLY_REMOTE,
    ConflictKind.UPDATE_EXISTS: Resolution.ERROR,
    ConflictKind.UPDATE_DELETED: Resolution.SKIP,
    ConflictKind.UPDATE_MISSING: Resolution.SKIP,
    ConflictKind.DELETE_ORIGIN_DIFFERS: Resolution.APPLY_REMOTE,
    ConflictKind.DELETE_MISSING: Resolution.SKIP,
    ConflictKind.MULTIPLE_UNIQUE_CONFLICTS: Resolution.ERROR,
}


@dataclass(frozen=True, slots=True)
class PostgreSQLPolicy:
    version: int = 18

    def resolve(self, conflict: Conflict) -> Resolution:
        return _POSTGRESQL[conflict.kind]


POSTGRESQL_POLICY: Final = PostgreSQLPolicy()


@dataclass(frozen=True, slots=True)
class StoppingPolicy:
    """Stops at the conflicts that a resolver decides, so that they are looked at one by one."""

    version: int
    resolvers: ConflictResolvers

    def resolve(self, conflict: Conflict) -> Resolution:
        return Resolution.ERROR if self.resolvers.decides(conflict.kind) else _POSTGRESQL[conflict.kind]


def stopped_by(
    conflict: Conflict, policy: ConflictPolicy, refused: SubscriberError | None = None
) -> SubscriberError | None:
    """The error by which a conflict stops its transaction, if any; ``refused`` is the target's."""
    resolution = policy.resolve(conflict)
    if resolution is Resolution.ERROR:
        return as_conflict(
            refused or ConflictError(conflict.kind, sqlstate=_SERIALIZATION_FAILURE), conflict, policy.version
        )
    if resolution is _POSTGRESQL[conflict.kind]:
        return None
    return NotSupportedError(f'resolution "{resolution}" is not supported for conflict "{conflict.kind}"')
