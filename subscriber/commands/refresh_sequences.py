"""ALTER SUBSCRIPTION … REFRESH SEQUENCES: sets the target's sequences and counters to the values of
the publisher's sequences (rule D14).

::

    sequence of the publisher ──┬─▶ columns of the subscription's tables ──▶ what makes their values in the target
                                └─▶ the target's sequence of the same name (PostgreSQL)

One NOTICE for each sequence reports its old and new value, or why it is not set. As with
PostgreSQL's REFRESH SEQUENCES, the publisher's value is used even if it is lower; that is a
WARNING.

Sequences that a publication publishes are rows of the subscription
(:mod:`subscriber.commands.sequence_rows`). They get a state, and must be defined as at the
publisher.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import (
    RelationState,
    SubscriptionRelation,
    advance_sequences,
    relations_of,
    sequences_of,
)
from subscriber.commands.check_publications import warn_of_sequences
from subscriber.commands.notices import Notify, first_names, notice, warning
from subscriber.commands.reached_position import reached_position
from subscriber.commands.subscription_slots import connected
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.schema.shape import SequenceDefinition, SequencePosition
from subscriber.postgres.sql.quoting import quote_identifier
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from subscriber.targets import Target, TargetTable
from subscriber.targets.target_table import TargetSequence

_CATCH_UP_SECONDS: Final = 3.0
"""How long a receiver has to confirm WAL that the publisher has written while nothing is published,
in seconds.
"""
_POLL_SECONDS: Final = 0.2
STEP_BACK: Final = ", a step back"
"""The end of the first line about a sequence that was set to an earlier value."""
_AGAIN: Final = "Run the command again when everything has been applied; `subscriber status` shows the lag."


def refresh_sequences(
    target: Target, subscription: Subscription, settings: Settings, notify: Notify, *, as_postgresql: bool = False
) -> None:
    """``as_postgresql``: as PostgreSQL 19 does, a disabled subscription is refused (55000), and no
    NOTICE is given for sequences that are rows of the subscription.
    """
    if as_postgresql and not subscription.enabled:
        raise UsageError(
            "ALTER SUBSCRIPTION ... REFRESH SEQUENCES is not allowed for disabled subscriptions", sqlstate="55000"
        )
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
        rows = keys_of(sequences_of(connection, subscription.subid))
    with connected(subscription.conninfo, subscription.name) as publisher:
        # The position is read before the sequences. The sequences may therefore be further than the
        # WAL up to that position.
        _warn_if_behind(target, subscription, publisher, settings, notify)
        if subscription.options.origin == "none":
            warn_of_sequences(publisher, subscription.name, subscription.streamed_publications, notify)
        sequences = read_sequences(publisher, keys_of(relations), rows)
    _warn_of_unfinished(subscription, relations, notify)
    with target.begin() as connection:
        refresh = SequenceRefresh(target, connection, subscription, notify, rows, quiet=as_postgresql)
        refresh.run(sequences)
        advance_sequences(connection, subscription.subid, dict.fromkeys(rows) | refresh.synchronized)


def keys_of(relations: Iterable[SubscriptionRelation]) -> list[TableName]:
    return [(one.schema, one.name) for one in relations]


def read_sequences(
    publisher: PublisherClient, tables: Sequence[TableName], rows: Collection[TableName]
) -> list[PublishedSequence]:
    """The publisher's sequences. Each has an LSN that its value is not older than: that of its
    page, or before version 19 that of the WAL.
    """
    position = publisher.flushed_lsn()
    found = published_sequences(publisher.connection, tables, rows)
    return [replace(one, page_lsn=one.page_lsn or position) for one in found]


@dataclass(frozen=True, slots=True)
class UnsetSequence:
    """A sequence of a column that is not set. ``text`` says which, and why; ``hint`` what to do."""

    text: str
    hint: str | None = None
    name: str = ""


def sequences_left_alone(target: Target, subscription: Subscription) -> list[UnsetSequence]:
    """The sequences of columns that :func:`refresh_sequences` would not set. Nothing is set."""
    return _looked_at(target, subscription).left


def sequences_behind(target: Target, subscription: Subscription) -> list[str]:
    """What in the target would give out values again that the publisher has used, or may have used
    where it may not be read. Nothing is set. Rows in state i are left out: a worker sets them.
    """
    return _looked_at(target, subscription, with_pending=False).behind


def behind_in_words(subscription: str, behind: Sequence[str]) -> tuple[str, str]:
    """A message about :func:`sequences_behind`, and its hint.

    >>> behind_in_words("shop", ["public.orders.id"])[0]
    'in the target of "shop", 1 sequence does not follow that of the publisher: "public.orders.id"'
    """
    one = len(behind) == 1
    count = "1 sequence does not follow that" if one else f"{len(behind):,} sequences do not follow those"
    statement = f"ALTER SUBSCRIPTION {quote_identifier(subscription)} REFRESH SEQUENCES"
    hint = f"Sequences and counters are not replicated. Before an application inserts into the target, run: {statement}"
    return f'in the target of "{subscription}", {count} of the publisher: {first_names(behind)}', hint


def _looked_at(target: Target, subscription: Subscription, *, with_pending: bool = True) -> SequenceRefresh:
    with target.reporting(), target.engine.connect() as connection:
        tables = keys_of(relations_of(connection, subscription.subid))
        relations = sequences_of(connection, subscription.subid)
    rows = keys_of(relations)
    pending = [] if with_pending else keys_of(one for one in relations if one.state is RelationState.INIT)
    with connected(subscription.conninfo, subscription.name) as publisher:
        found = published_sequences(publisher.connection, tables, rows)
        sequences = [one for one in found if one.key not in pending]
    with target.reporting(), target.engine.connect() as connection:
        looking = SequenceRefresh(target, connection, subscription, lambda _text: None, rows, sets=False)
        looking.run(sequences)
    return looking


@dataclass(frozen=True, slots=True)
class _Place:
    """A sequence of the target that is set, and the column for which it makes values, if any."""

    sequence: TargetSequence
    column: str | None


class SequenceRefresh:
    """The execution of one command in its transaction. ``rows`` are the sequences that are rows of
    the subscription.

    Attributes:
        synchronized: the rows that were set, with the LSN that the value is not older than.
        unread: the rows that the role may not read at the publisher.
        left: the sequences that were not set although a column uses them.
        behind: what in the target was before the publisher's positions; without ``sets`` also what
            cannot be compared, because these may not be read.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        subscription: Subscription,
        notify: Notify,
        rows: Collection[TableName] = (),
        *,
        sets: bool = True,
        quiet: bool = False,
    ) -> None:
        self.synchronized: dict[TableName, LSN | None] = {}
        self.unread: list[TableName] = []
        self.left: list[UnsetSequence] = []
        self.behind: list[str] = []
        self._rows = frozenset(rows)
        self._mismatched: set[TableName] = set()
        self._sets = sets
        self._quiet = quiet
        self._target = target
        self._connection = connection
        self._names = subscription.options.map
        self._subscription_in_shell = shlex.quote(subscription.name)
        self._notify = notify
        self._moved: dict[str, SequencePosition] = {}
        self._tables: Mapping[TableName, TargetTable] = {}

    def run(self, sequences: Sequence[PublishedSequence]) -> None:
        """Set the sequences of the tables, and those that no table uses; report the others."""
        self.reflect(sequences)
        unused, foreign = [], []
        for sequence in sequences:
            name, is_row = self._named(sequence), sequence.key in self._rows
            if not sequence.columns and sequence.used and not is_row:
                foreign.append(name)
            elif sequence.position is None:
                self.unread += [sequence.key] if is_row else []
                script = " ".join(f"{grant};" for grant in sequence.grants)
                self._report_unset(
                    name, "the role of the subscription's CONNECTION may not read it", f"Run at the publisher: {script}"
                )
                self._record_unread(sequence, name)
            elif not self._carry_over(sequence, name, sequence.position) and (is_row or not sequence.columns):
                if is_row:
                    self._report_unset(
                        name, "the target has no sequence of this name, nor a column that takes values from it"
                    )
                else:
                    unused.append(name)
            elif is_row and sequence.key not in self._mismatched:
                self.synchronized[sequence.key] = sequence.page_lsn
        if unused:
            count = "1 sequence was" if len(unused) == 1 else f"{len(unused):,} sequences were"
            warning(
                self._notify,
                f"{count} not set: {first_names(unused)}",
                detail="No column takes values from them at the publisher, and the target has no sequences with these names.",
                hint="If an application calls nextval on them, it needs another source of values in the target.",
            )
        if foreign:
            one = len(foreign) == 1
            count, tables = (
                ("1 sequence was", "its table") if one else (f"{len(foreign):,} sequences were", "their tables")
            )
            notice(
                self._notify,
                f"{count} not set, because the subscription does not have {tables}: {first_names(foreign)}",
            )

    def reflect(self, sequences: Sequence[PublishedSequence]) -> None:
        """Read the target's tables whose columns take values from the sequences."""
        places = {self._names.in_target(schema, table) for one in sequences for schema, table, _ in one.columns}
        self._tables = self._target.shapes.reflect_all(self._connection, sorted(places))

    def has_place(self, sequence: PublishedSequence) -> bool:
        """Whether the target has anything that corresponds to a sequence."""
        return any(self._places(sequence, ""))

    def _record_unread(self, sequence: PublishedSequence, name: str) -> None:
        """A sequence that may not be read may be ahead of the target's."""
        if not self._sets:
            left = len(self.left)
            self.behind += [place.column or name for place in self._places(sequence, name)]
            del self.left[left:]

    def _carry_over(self, sequence: PublishedSequence, name: str, position: SequencePosition) -> bool:
        """Set what corresponds to a sequence in the target; returns whether there is any."""
        places: dict[str, _Place] = {}
        for place in self._places(sequence, name):
            places.setdefault(place.sequence.name, place)
        for place in places.values():
            label = f'sequence "{name}"' + (f' for column "{place.column}"' if len(places) > 1 and place.column else "")
            self._move(place, position, label, sequence, name)
        return bool(places)

    def _places(self, sequence: PublishedSequence, name: str) -> Iterator[_Place]:
        for schema, table, column in sequence.columns:
            place = self._names.in_target(schema, table)
            reflected = self._tables.get(place)
            qualified = ".".join((*place, column))
            if reflected is None:
                missing = f'table "{".".join(place)}"'
                self._report_unset(name, f"{missing} does not exist in the target", f"Create {missing} in the target.")
                continue
            found = self._target.sequences.of_column(self._connection, reflected, column)
            if found is None:
                self._report_unset(
                    name,
                    f'the target generates no values for column "{qualified}"',
                    f"Let the application set the column, or declare the column so that the target generates its values:"
                    f" `subscriber schema apply --before {self._subscription_in_shell}` does that where the target can.",
                )
            else:
                yield _Place(found, qualified)
        namesake = self._target.sequences.named(
            self._connection, *self._names.in_target(sequence.schema, sequence.name)
        )
        if namesake is not None:
            yield _Place(namesake, None)

    def _move(
        self, place: _Place, position: SequencePosition, label: str, sequence: PublishedSequence, name: str
    ) -> None:
        found = place.sequence
        is_row = sequence.key in self._rows
        obstacle = found.obstacle(position)
        if is_row and found.definition is not None and found.definition != sequence.definition:
            self._mismatched.add(sequence.key)
            alter = f"ALTER SEQUENCE {found.name} {in_sql(sequence.definition)};"
            self._report_unset(name, "its definition in the target differs", f"Run at the target: {alter}")
            return
        if obstacle is not None:
            self._mismatched.add(sequence.key)
            statement = self._target.sequences.widening(found, position)
            hint = (
                "The target cannot count like that: let the application set the column."
                if statement is None
                else f"Run at the target: {statement}"
            )
            self._report_unset(name, obstacle, hint)
            return
        sign = 1 if position.increment > 0 else -1
        moved = self._moved.get(found.name)
        if moved is not None and (position.next_value - moved.next_value) * sign <= 0:
            self._report_unset(
                name,
                "its counter in the target has just been set to a later value, from another sequence of the same column",
            )
            return
        before = found.position
        ahead = (position.next_value - before.next_value) * sign
        if ahead > 0:
            self.behind.append(place.column or name)
        if self._sets:
            self._target.sequences.set(self._connection, found, position)
        self._moved[found.name] = position
        if before.increment != position.increment:
            warning(
                self._notify,
                f"{label} counts in steps of {position.increment} at the publisher and of {before.increment} in the target",
                detail="Other programs may use the values between them.",
            )
        text = f"{label}: {before.last_value} → {position.last_value}"
        if moved is None and ahead < 0:
            warning(
                self._notify,
                f"{text}{STEP_BACK}",
                detail="Rows that other programs have inserted into the target may already have the next values.",
                hint="If the application has moved to the target already, set the sequence forward there, and do not run the command again.",
            )
        elif not (is_row and self._quiet):
            notice(self._notify, text)

    def _report_unset(self, name: str, reason: str, hint: str | None = None) -> None:
        text = f'sequence "{name}" was not set: {reason}'
        self.left.append(UnsetSequence(text, hint, name))
        warning(self._notify, text, hint=hint)

    @staticmethod
    def _named(sequence: PublishedSequence) -> str:
        return sequence.name if sequence.schema == "public" else f"{sequence.schema}.{sequence.name}"


def in_sql(definition: SequenceDefinition | None) -> str:
    """The options of CREATE and ALTER SEQUENCE.

    >>> in_sql(SequenceDefinition("bigint", 1, 5, 1, 9, False))
    'AS bigint START 1 INCREMENT 5 MINVALUE 1 MAXVALUE 9 NO CYCLE'
    """
    assert definition is not None
    cycle = "CYCLE" if definition.cycles else "NO CYCLE"
    return (
        f"AS {definition.type_name} START {definition.start} INCREMENT {definition.increment}"
        f" MINVALUE {definition.least} MAXVALUE {definition.greatest} {cycle}"
    )


def _warn_of_unfinished(subscription: Subscription, relations: Sequence[SubscriptionRelation], notify: Notify) -> None:
    names = [one.qualified_name for one in relations if one.state is not RelationState.READY]
    if names:
        count = "1 table is" if len(names) == 1 else f"{len(names):,} tables are"
        warning(
            notify,
            f'{count} not ready in subscription "{subscription.name}": {first_names(names)}',
            detail="More rows may still be copied into them.",
            hint=_AGAIN,
        )


def _warn_if_behind(
    target: Target, subscription: Subscription, publisher: PublisherClient, settings: Settings, notify: Notify
) -> None:
    """Warn if rows whose values come from a sequence may not be in the target yet."""
    end = publisher.flushed_lsn()
    has_receiver = subscription.slot_name is not None and _is_received(publisher, subscription.slot_name)
    deadline = time.monotonic() + (_CATCH_UP_SECONDS if has_receiver else 0.0)
    while (reached := reached_position(target, subscription, settings).position) < end:
        if time.monotonic() > deadline:
            warning(
                notify,
                f'subscription "{subscription.name}" is behind: it has everything up to {format_lsn(reached)},'
                f" and the publisher is at {format_lsn(end)}",
                detail=None if has_receiver else "No receiver is connected to its slot: is `subscriber run` running?",
                hint=_AGAIN,
            )
            return
        time.sleep(_POLL_SECONDS)


def _is_received(publisher: PublisherClient, slot: str) -> bool:
    found = publisher.slot(slot)
    return found is not None and found.active_pid is not None
