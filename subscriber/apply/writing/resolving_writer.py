"""Carries out what CONFLICT RESOLVER says, one change at a time.

::

    run of changes ─▶ written inside a savepoint, by a policy that stops at conflicts that resolvers decide
          │ stops
          ▼
    its halves, and their halves ─▶ the one change that has a conflict:
          1. another origin has written its row       apply · keep · a row
          2. rows are in its way, by unique keys      apply: they make room · keep · a row
          3. its row does not exist                   apply: UPDATE becomes INSERT · skip

A target without savepoints is asked about the conflicts of each change before it is written. This
writes batches in the publisher's order: a batch that may be reordered is applied again in that
order when it has a conflict (:class:`~subscriber.apply.reorder.OrderMatters`). So both paths leave
the same rows, and a batch without conflicts costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from subscriber.apply.conflicts.collisions import KeyLookup, OwnRow, RowInTheWay, refined
from subscriber.apply.conflicts.conflict import EXISTS, ChangePlace, Conflict, as_conflict
from subscriber.apply.conflicts.resolver_functions import RowAsTexts, RowsInConflict, ask_resolver, wrong_answer
from subscriber.apply.conflicts.row_conflicts import RowConflicts
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.apply.statements.identity import RowIdentity
from subscriber.base.errors import (
    ConflictError,
    DataException,
    NotSupportedError,
    ProtocolError,
    SubscriberError,
    TargetUnavailable,
)
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.schema.conflict_resolvers import LAST_UPDATE_WINS, ConflictResolvers
from subscriber.postgres.types.arrays import output_text
from subscriber.postgres.types.registry import decode_column
from subscriber.targets import RowVersion, Target, UniqueIndex

Found = Sequence[tuple[Conflict, int]]
"""Conflicts that did not stop a run, each with the number of times that it occurred."""

_ZERO: Final[sa.ColumnClause[int]] = sa.literal_column("0")
_ONE: Final[sa.ColumnClause[int]] = sa.literal_column("1")
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNIQUE_VIOLATION: Final = "23505"
_SERIALIZATION_FAILURE: Final = "40001"
_APPLIED: Final = {"apply": True, "apply_remote": True, "keep": False, "keep_local": False, "skip": False}


@dataclass(frozen=True, slots=True)
class _Decision:
    """The conflict as it is recorded, whether the change is applied, and a row in its place."""

    conflict: Conflict
    applied: bool
    row: RowAsTexts | None = None
    local: RowAsTexts | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a resolver can ask about a conflict: the rows, and who wrote those of the target."""

    remote: Callable[[], RowAsTexts | None]
    local: Callable[[], RowAsTexts | None]
    versions: Sequence[RowVersion | None] = ()
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _Room:
    """An UPDATE after rows in its way were removed; None if it is left out."""

    change: ChangeGroup | None
    conflicts: Found = ()


class ResolvingWriter:
    """Resolves the conflicts of one batch. ``write`` writes a run, and stops at conflicts."""

    def __init__(  # noqa: PLR0913 - what a ChangeWriter has
        self,
        target: Target,
        connection: sa.Connection,
        statements: ChangeStatements,
        relations: RelationMap,
        conflicts: RowConflicts,
        resolvers: ConflictResolvers,
        group: Callable[[int], ChangeGroup],
        write: Callable[[ChangeRun, ChangePlace], Found],
        *,
        version: int,
        show_values: bool,
    ) -> None:
        self._target = target
        self._connection = connection
        self._statements = statements
        self._relations = relations
        self._conflicts = conflicts
        self._resolvers = resolvers
        self._group = group
        self._write = write
        self._version = version
        self._shows_values = show_values

    def write(self, run: ChangeRun, place: ChangePlace) -> Found:
        """Apply a run in order. ConflictError: a resolver says so, or there is no resolver."""
        if self._target.capabilities.savepoints:
            return self._write_parts(run, place)
        group = self._group(run.group)
        return [
            one
            for number in range(run.start, run.stop)
            for one in self._write_one(group.slice(number, number + 1), _later(place, number - run.start))
        ]

    def _write_parts(self, run: ChangeRun, place: ChangePlace) -> Found:
        found = self._attempt(run, place)
        if found is not None:
            return found
        if run.stop - run.start == 1:
            return self._write_one(self._group(run.group).slice(run.start, run.stop), place)
        middle = (run.start + run.stop) // 2
        return [
            *self._write_parts(ChangeRun(run.group, run.start, middle), place),
            *self._write_parts(ChangeRun(run.group, middle, run.stop), _later(place, middle - run.start)),
        ]

    def _attempt(self, run: ChangeRun, place: ChangePlace) -> Found | None:
        """Write a run, or nothing of it if it has a conflict."""
        with self._target.reporting():
            savepoint = self._connection.begin_nested()
        try:
            found = self._write(run, place)
        except SubscriberError as error:
            # After a lost connection the savepoint does not exist. That must not hide the error.
            with suppress(SQLAlchemyError):
                savepoint.rollback()
            if isinstance(error, ConflictError):
                return None
            raise
        with self._target.reporting():
            savepoint.commit()
        return found

    def _write_one(self, change: ChangeGroup, place: ChangePlace) -> Found:
        local = self._relations.open(change.relation)
        if change.action == "I":
            return self._insert(local, change, place)
        identity = self._statements.identity(local)
        resolved: list[tuple[Conflict, int]] = []
        for differs, _ in self._conflicts.find_others(change, place):
            decision = self._decide(differs, self._rows_of(local, change, identity, [differs.version]))
            resolved.append((decision.conflict, 1))
            if not decision.applied:
                return resolved
            if decision.row is not None:
                change = self._with_row(local, change, decision)
        if change.action == "U":
            room = self._make_room(local, change, identity, place)
            resolved += room.conflicts
            if room.change is None:
                return resolved
            change = room.change
        return [*resolved, *self._change(local, change, place)]

    # A row that does not exist --------------------------------------------------------------------

    def _change(self, local: TargetRelation, change: ChangeGroup, place: ChangePlace) -> Found:
        """Execute an UPDATE or DELETE of one row."""
        statement = self._statements.statement(change)
        found = self._statements.change(statement, self._statements.bind(statement, change), change)
        if found or self._conflicts.is_suppressed(change):
            return ()
        complete = None if change.action == "D" else _complete(local, change)
        sent = change if complete is None else complete
        rows = _Rows(lambda: _sent(sent), lambda: None, is_complete=complete is not None)
        decision = self._decide(self._conflicts.missing(change, place), rows)
        if not decision.applied:
            return [(decision.conflict, 1)]
        if decision.row is not None:
            sent = self._with_row(local, sent, decision, complete=True)
        return [(decision.conflict, 1), *self._insert(local, replace(sent, action="I", old_kind=None, old=None), place)]

    # Rows in the way ------------------------------------------------------------------------------

    def _insert(self, local: TargetRelation, change: ChangeGroup, place: ChangePlace) -> Found:
        look = self._look_at(local, change)
        found = self._in_the_way(look, None)
        if not found:
            statement = self._statements.statement(change)
            self._statements.execute(statement, self._statements.bind(statement, change), count=False)
            return ()
        decision = self._decide_about_keys(look, found, None, None, place)
        if decision.applied:
            written = look
            if decision.row is not None:
                written = self._look_at(local, self._with_row(local, change, decision))
            self._overwrite(look, found, written)
        return [(decision.conflict, 1)]

    def _make_room(
        self, local: TargetRelation, change: ChangeGroup, identity: RowIdentity, place: ChangePlace
    ) -> _Room:
        """Remove the rows in the way of an UPDATE."""
        look = self._look_at(local, change)
        with self._target.reporting():
            own = look.own_row(identity)
        found = [] if own is None else self._in_the_way(look, own)
        if not found:
            return _Room(change)
        decision = self._decide_about_keys(look, found, own, identity, place)
        if not decision.applied:
            return _Room(None, [(decision.conflict, 1)])
        if decision.row is not None:
            return _Room(self._with_row(local, change, decision), [(decision.conflict, 1)])
        for condition in _conditions(look, found, own):
            self._delete(look, condition)
        return _Room(change, [(decision.conflict, 1)])

    def _look_at(self, local: TargetRelation, change: ChangeGroup) -> KeyLookup:
        """Locks the rows that it finds: nobody changes them before the change is written."""
        return KeyLookup(self._target, self._connection, local, change, locks=True)

    def _in_the_way(self, look: KeyLookup, own: OwnRow | None) -> list[tuple[UniqueIndex, RowInTheWay]]:
        with self._target.reporting():
            return look.rows_in_the_way(own)

    def _overwrite(self, look: KeyLookup, found: Sequence[tuple[UniqueIndex, RowInTheWay]], written: KeyLookup) -> None:
        """Let the first row in the way have the new values, without the other rows in the way."""
        index = found[0][0]
        first, *others = _conditions(look, found, None)
        for other in others:
            # The same row may be in the way by several keys. NULLs in a key are not equal to it.
            self._delete(look, sa.and_(other, sa.case((first, _ZERO), else_=_ONE) == _ONE))
        table, matching = look.local.table, self._target.matching
        values = {}
        for column in look.local.columns:
            name = column.name
            if name not in written.sent:
                continue
            keeps = name in index.keys and written.sent[name] == look.sent[name]
            if column.identity_always and not keeps:
                raise ConflictError(
                    f'column "{name}" of the row in the way cannot be updated: it is GENERATED ALWAYS AS IDENTITY',
                    sqlstate="428C9",
                    column=name,
                    hint="Change or delete the row, or use another resolver.",
                )
            if not column.identity_always and not (
                keeps and matching.found_as_written(look.types[name], table, column)
            ):
                values[name] = sa.bindparam(None, written.sent[name], type_=sa.types.NullType(), unique=True)
        if values:
            update = self._target.writing.or_fail(table, sa.update(look.table).where(first).values(values))
            self._execute(matching.own_rows(table, update, look.table))

    def _delete(self, look: KeyLookup, condition: sa.ColumnElement[bool]) -> None:
        statement = sa.delete(look.table).where(condition)
        self._execute(self._target.matching.own_rows(look.local.table, statement, look.table))

    def _execute(self, statement: sa.Update | sa.Delete) -> None:
        with self._target.reporting():
            found = self._connection.execute(statement).rowcount
        if isinstance(statement, sa.Update) and found == 0:
            raise TargetUnavailable("another session has changed the row of a conflict; the batch is tried again")

    def _decide_about_keys(
        self,
        look: KeyLookup,
        found: Sequence[tuple[UniqueIndex, RowInTheWay]],
        own: OwnRow | None,
        identity: RowIdentity | None,
        place: ChangePlace,
    ) -> _Decision:
        with self._target.reporting():
            collisions = look.collisions(found, own, identity, values=self._shows_values)
        kind = EXISTS["I" if own is None else "U"]
        conflict = refined(Conflict(kind, look.local.qualified_name, place), collisions)
        assert conflict is not None
        kept = {} if own is None else self._as_sent(look.local, own.texts)
        names = [column.name for column in look.local.table.columns]
        rows = _Rows(
            lambda: {**kept, **_sent(look.change)},
            lambda: self._as_sent(look.local, dict(zip(names, found[0][1].columns, strict=True))),
            [key.version for key in conflict.violated],
        )
        return self._decide(conflict, rows)

    def _rows_of(
        self,
        local: TargetRelation,
        change: ChangeGroup,
        identity: RowIdentity,
        versions: Sequence[RowVersion | None],
    ) -> _Rows:
        def stored() -> RowAsTexts:
            with self._target.reporting():
                own = self._look_at(local, change).own_row(identity)
            return {} if own is None else self._as_sent(local, own.texts)

        def remote() -> RowAsTexts | None:
            return None if change.new is None else {**stored(), **_sent(change)}

        return _Rows(remote, stored, versions)

    # Decisions ------------------------------------------------------------------------------------

    def _decide(self, conflict: Conflict, rows: _Rows) -> _Decision:
        """What happens to a change; raises ConflictError if it stops its transaction."""
        resolver, row, local = self._resolvers.of(conflict.kind), None, None
        answer = resolver
        if resolver == LAST_UPDATE_WINS:
            answer = "apply" if self._is_last(conflict, rows.versions) else "keep"
        elif ":" in resolver:
            shown = self._shown(conflict, rows)
            asked, local = ask_resolver(resolver, shown), shown.local
            answer, row = (asked, None) if isinstance(asked, str) else ("apply", asked)
        if answer in ("apply_or_skip", "apply_or_error"):
            answer = "apply" if rows.is_complete else answer.removeprefix("apply_or_")
        elif answer == "apply" and row is None and not rows.is_complete:
            answer = "error"
        if self._resolvers.decides(conflict.kind):
            conflict = replace(conflict, resolution=resolver)
        if answer == "error":
            sqlstate = _UNIQUE_VIOLATION if conflict.violated else _SERIALIZATION_FAILURE
            raise as_conflict(ConflictError(conflict.kind, sqlstate=sqlstate), conflict, self._version)
        applied = _APPLIED[answer]
        if conflict.resolution is not None:
            conflict = replace(conflict, applied=applied)
        return _Decision(conflict, applied, row, local)

    def _is_last(self, conflict: Conflict, versions: Sequence[RowVersion | None]) -> bool:
        """Whether the publisher's transaction committed after those that wrote the target's rows.
        Rows of this batch, and of times that are not recorded any more, were written before.
        """
        origins = self._target.origins
        if origins is None or not origins.are_tracked(self._connection):
            raise NotSupportedError(
                f"{LAST_UPDATE_WINS} needs track_commit_timestamp in the target",
                hint="Turn it on there, or choose another resolver with ALTER SUBSCRIPTION ... CONFLICT RESOLVER.",
            )
        remote = _time(conflict.place)
        return all(remote >= at for at in map(_written_at, versions) if at is not None)

    def _shown(self, conflict: Conflict, rows: _Rows) -> RowsInConflict:
        version = rows.versions[0] if rows.versions else conflict.version
        return RowsInConflict(
            str(conflict.kind),
            str(conflict.relation),
            rows.remote(),
            rows.local(),
            _time(conflict.place),
            _written_at(version),
        )

    # Values ---------------------------------------------------------------------------------------

    def _as_sent(self, local: TargetRelation, texts: RowAsTexts) -> RowAsTexts:
        """Values of the target in the form of the publisher's, where the target has another one."""
        if self._target.capabilities.postgresql_text:
            return texts
        types = {column.name: column.type_oid for column in local.remote.columns}
        return {name: _spelled(types.get(name), text) for name, text in texts.items()}

    def _with_row(
        self, local: TargetRelation, change: ChangeGroup, decision: _Decision, *, complete: bool = False
    ) -> ChangeGroup:
        """The change that writes the row of a function. ConflictResolverError: it has an unknown
        column, or changes one that is not published, or lacks one that an INSERT needs.
        """
        assert decision.row is not None
        assert decision.conflict.resolution is not None
        resolver, row = decision.conflict.resolution, dict(decision.row)
        columns = {column.name: (number, column.type_oid) for number, column in enumerate(local.remote.columns, 1)}
        for name in row.keys() & {column.name for column in local.table.columns} - columns.keys():
            if row.pop(name) != (decision.local or {}).get(name):
                raise wrong_answer(resolver, f'a row with another value in "{name}", which is not published')
        for name in row.keys() - columns.keys():
            raise wrong_answer(resolver, f'a row with the unknown column "{name}"')
        for name in columns.keys() - row.keys() if complete else ():
            raise wrong_answer(resolver, f'a row without the column "{name}"')
        try:
            new = pa.RecordBatch.from_arrays([self._typed(columns[name], row[name]) for name in row], names=list(row))
        except (DataException, ProtocolError):
            raise wrong_answer(resolver, "a text that is not a value of its column's type") from None
        if change.action == "I":
            return replace(change, new=new, binary=frozenset())
        old, kind = change.old, change.old_kind
        if old is None:
            assert change.new is not None
            keys = [column.name for column in local.remote.columns if column.is_identity]
            old, kind = change.new.select([name for name in change.new.schema.names if name in keys]), "K"
        return replace(change, action="U", old=old, old_kind=kind, new=new, binary=frozenset())

    def _typed(self, column: tuple[int, int], text: str | None) -> pa.Array:
        number, type_oid = column
        texts = pa.array([text], pa.string())
        if self._target.capabilities.postgresql_text:
            return texts
        return decode_column(type_oid, texts.cast(pa.binary()), binary=False, column=number)


def _conditions(
    look: KeyLookup, found: Sequence[tuple[UniqueIndex, RowInTheWay]], own: OwnRow | None
) -> list[sa.ColumnElement[bool]]:
    """For each row in the way the condition that finds it."""
    return [sa.and_(*(look.conditions(index, own) or [sa.false()])) for index, _ in found]


def _later(place: ChangePlace, changes: int) -> ChangePlace:
    return replace(place, changes=place.changes + changes)


def _time(place: ChangePlace) -> datetime:
    return _EPOCH + timedelta(microseconds=place.timestamp)


def _written_at(version: RowVersion | None) -> datetime | None:
    return None if version is None or version.at is None else datetime.fromisoformat(version.at)


def _sent(change: ChangeGroup) -> Mapping[str, str | None]:
    batch = change.new
    if batch is None:
        return {}
    return {name: output_text(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _spelled(type_oid: int | None, text: str | None) -> str | None:
    if type_oid is None or text is None:
        return text
    try:
        return output_text(decode_column(type_oid, pa.array([text.encode()], pa.binary()), binary=False, column=1)[0])
    except (DataException, ProtocolError):
        return text


def _complete(local: TargetRelation, change: ChangeGroup) -> ChangeGroup | None:
    """The UPDATE with all values of its row; None if values were not sent, as they are large and
    unchanged. With REPLICA IDENTITY FULL the old row has them.
    """
    assert change.new is not None
    columns = dict(zip(change.new.schema.names, change.new.columns, strict=True))
    if change.old is not None and change.old_kind == "O":
        columns = {**dict(zip(change.old.schema.names, change.old.columns, strict=True)), **columns}
    names = [column.name for column in local.remote.columns]
    if not columns.keys() >= set(names):
        return None
    return replace(change, new=pa.RecordBatch.from_arrays([columns[name] for name in names], names=names))
