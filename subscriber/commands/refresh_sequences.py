"""ALTER SUBSCRIPTION … REFRESH SEQUENCES: sets the target's sequences and counters to the values of
the publisher's sequences (rule D14).

::

    sequence of the publisher ──┬─▶ columns of the subscription's tables ──▶ what makes their values in the target
                                └─▶ the target's sequence of the same name (PostgreSQL)

One NOTICE for each sequence reports its old and new value. A sequence that is not set is reported
with the reason: otherwise an application that inserts into the target later would get values that
rows already have, without an explanation. As with PostgreSQL's REFRESH SEQUENCES, the publisher's
value is used even if it is lower. A sequence that goes back is reported with a WARNING.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog import RelationState, Subscription, SubscriptionRelation
from subscriber.commands.notices import Notify, first_names, notice, warning
from subscriber.commands.publisher_connection import connected
from subscriber.commands.reached_position import reached_position
from subscriber.lsn import format_lsn
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.sequences import PublishedSequence
from subscriber.schema.relation_names import written_identifier
from subscriber.schema.shape import SequencePosition
from subscriber.settings import Settings
from subscriber.targets import Target
from subscriber.targets.target_table import TargetSequence

_CATCH_UP_SECONDS: Final = 3.0
"""How long a receiver has to confirm WAL that the publisher has written while nothing is published,
in seconds.
"""
_POLL_SECONDS: Final = 0.2
STEP_BACK: Final = ", a step back"
"""The end of the first line about a sequence that was set to an earlier value."""
_AGAIN: Final = "Run the command again when everything has been applied; `subscriber status` shows the lag."


def refresh_sequences(target: Target, subscription: Subscription, settings: Settings, notify: Notify) -> None:
    """Set the target's sequences and auto-increment values from the publisher's.

    Raises:
        PublisherError: the publisher could not be queried.
    """
    with target.reporting(), target.engine.connect() as connection:
        relations = catalog.relations_of(connection, subscription.subid)
    with connected(subscription.conninfo, subscription.name) as publisher:
        # The position is read before the sequences. The sequences may therefore be further than the
        # WAL up to that position.
        _warn_if_behind(target, subscription, publisher, settings, notify)
        sequences = publisher.sequences([(relation.schema, relation.name) for relation in relations])
    _warn_of_unfinished(subscription, relations, notify)
    with target.begin() as connection:
        _Refresh(target, connection, subscription, notify).run(sequences)


@dataclass(frozen=True, slots=True)
class UnsetSequence:
    """A sequence of a column that is not set.

    Attributes:
        text: the sequence, and why.
        hint: what to do about it; None if there is nothing to say.
    """

    text: str
    hint: str | None = None


def sequences_left_alone(target: Target, subscription: Subscription) -> list[UnsetSequence]:
    """The sequences of columns that :func:`refresh_sequences` would not set. Nothing is set.

    Raises:
        PublisherError: the publisher could not be queried.
    """
    return _looked_at(target, subscription).left


def sequences_behind(target: Target, subscription: Subscription) -> list[str]:
    """What in the target would give out values again that the publisher has used, until
    :func:`refresh_sequences` sets it: columns, and sequences of no column. Those whose sequence at
    the publisher may not be read are included. Nothing is set.

    Raises:
        PublisherError: the publisher could not be queried.
        TargetError: the target could not be queried.
    """
    return _looked_at(target, subscription).behind


def behind_in_words(subscription: str, behind: Sequence[str]) -> tuple[str, str]:
    """A message about :func:`sequences_behind`, and its hint.

    >>> behind_in_words("shop", ["public.orders.id"])[0]
    'in the target of "shop", 1 sequence does not follow that of the publisher: "public.orders.id"'
    """
    one = len(behind) == 1
    count = "1 sequence does not follow that" if one else f"{len(behind):,} sequences do not follow those"
    statement = f"ALTER SUBSCRIPTION {written_identifier(subscription)} REFRESH SEQUENCES"
    hint = f"Sequences and counters are not replicated. Before an application inserts into the target, run: {statement}"
    return f'in the target of "{subscription}", {count} of the publisher: {first_names(behind)}', hint


def _looked_at(target: Target, subscription: Subscription) -> _Refresh:
    """The command without its effects and messages."""
    with target.reporting(), target.engine.connect() as connection:
        relations = catalog.relations_of(connection, subscription.subid)
    with connected(subscription.conninfo, subscription.name) as publisher:
        sequences = publisher.sequences([(relation.schema, relation.name) for relation in relations])
    with target.reporting(), target.engine.connect() as connection:
        looking = _Refresh(target, connection, subscription, lambda _text: None, sets=False)
        looking.run(sequences)
    return looking


@dataclass(frozen=True, slots=True)
class _Place:
    """A sequence of the target that is set, and the column for which it makes values; the column is
    None for a sequence of the same name.
    """

    sequence: TargetSequence
    column: str | None


class _Refresh:
    """The execution of one command in its transaction.

    Attributes:
        left: the sequences that were not set although a column uses them.
        behind: the columns and sequences of the target that were before the publisher's positions;
            without ``sets`` also those for which these may not be read.
    """

    def __init__(
        self,
        target: Target,
        connection: sa.Connection,
        subscription: Subscription,
        notify: Notify,
        *,
        sets: bool = True,
    ) -> None:
        self.left: list[UnsetSequence] = []
        self.behind: list[str] = []
        self._sets = sets
        self._target = target
        self._connection = connection
        self._names = subscription.options.map
        self._subscription_in_shell = shlex.quote(subscription.name)
        self._notify = notify
        self._moved: dict[str, SequencePosition] = {}

    def run(self, sequences: Sequence[PublishedSequence]) -> None:
        """Set the sequences of the subscription's tables and those that no table uses; report the
        others.

        Raises:
            TargetError: a sequence of the target could not be set.
        """
        unused, foreign = [], []
        for sequence in sequences:
            name = self._named(sequence)
            if not sequence.columns and sequence.used:
                foreign.append(name)
            elif sequence.position is None:
                script = " ".join(f"{grant};" for grant in sequence.grants)
                self._leave(
                    name, "the role of the subscription's CONNECTION may not read it", f"Run at the publisher: {script}"
                )
                self._note_unread(sequence, name)
            elif not self._carry_over(sequence, name, sequence.position) and not sequence.columns:
                unused.append(name)
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

    def _note_unread(self, sequence: PublishedSequence, name: str) -> None:
        """A sequence that may not be read may be ahead of the target's."""
        if not self._sets:
            left = len(self.left)
            self.behind += [place.column or name for place in self._places(sequence, name)]
            del self.left[left:]

    def _carry_over(self, sequence: PublishedSequence, name: str, position: SequencePosition) -> bool:
        """Set everything in the target that corresponds to a sequence; returns whether there is
        any.
        """
        places: dict[str, _Place] = {}
        for place in self._places(sequence, name):
            places.setdefault(place.sequence.name, place)
        for place in places.values():
            label = f'sequence "{name}"' + (f' for column "{place.column}"' if len(places) > 1 and place.column else "")
            self._move(place, position, label, name)
        return bool(places)

    def _places(self, sequence: PublishedSequence, name: str) -> Iterator[_Place]:
        for schema, table, column in sequence.columns:
            place = self._names.local(schema, table)
            reflected = self._target.shapes.reflect(self._connection, *place)
            qualified = ".".join((*place, column))
            if reflected is None:
                missing = f'table "{".".join(place)}"'
                self._leave(name, f"{missing} does not exist in the target", f"Create {missing} in the target.")
                continue
            found = self._target.sequences.of_column(self._connection, reflected, column)
            if found is None:
                self._leave(
                    name,
                    f'the target generates no values for column "{qualified}"',
                    f"Let the application set the column, or declare the column so that the target generates its values:"
                    f" `subscriber schema apply --before {self._subscription_in_shell}` does that where the target can.",
                )
            else:
                yield _Place(found, qualified)
        namesake = self._target.sequences.named(self._connection, *self._names.local(sequence.schema, sequence.name))
        if namesake is not None:
            yield _Place(namesake, None)

    def _move(self, place: _Place, position: SequencePosition, label: str, name: str) -> None:
        found = place.sequence
        obstacle = found.obstacle(position)
        if obstacle is not None:
            statement = self._target.sequences.widening(found, position)
            hint = (
                "The target cannot count like that: let the application set the column."
                if statement is None
                else f"Run at the target: {statement}"
            )
            self._leave(name, obstacle, hint)
            return
        sign = 1 if position.increment > 0 else -1
        moved = self._moved.get(found.name)
        if moved is not None and (position.next_value - moved.next_value) * sign <= 0:
            self._leave(
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
        else:
            notice(self._notify, text)

    def _leave(self, name: str, reason: str, hint: str | None = None) -> None:
        text = f'sequence "{name}" was not set: {reason}'
        self.left.append(UnsetSequence(text, hint))
        warning(self._notify, text, hint=hint)

    @staticmethod
    def _named(sequence: PublishedSequence) -> str:
        return sequence.name if sequence.schema == "public" else f"{sequence.schema}.{sequence.name}"


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
    target: Target, subscription: Subscription, publisher: Publisher, settings: Settings, notify: Notify
) -> None:
    """Warn if rows whose values come from a sequence may not be in the target yet."""
    end = publisher.flushed_lsn()
    has_receiver = subscription.slot_name is not None and _is_received(publisher, subscription.slot_name)
    deadline = time.monotonic() + (_CATCH_UP_SECONDS if has_receiver else 0.0)
    while (reached := reached_position(target, subscription, settings).reached) < end:
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


def _is_received(publisher: Publisher, slot: str) -> bool:
    found = publisher.slot(slot)
    return found is not None and found.active_pid is not None
