"""Sequences as rows of a subscription (rule D14): those of publications FOR ALL SEQUENCES.

::

    CREATE SUBSCRIPTION, REFRESH PUBLICATION ──▶ i ──the worker sets the value──▶ r, with the LSN that the value is from
    REFRESH SEQUENCES ─────────────────────────▶ r, or i where it could not be set

Nothing is replicated afterwards. So a sequence in state r may be behind the publisher's, which
``subscriber status`` finds by comparing.

What corresponds to a sequence of the publisher is found as for every sequence
(:mod:`subscriber.commands.refresh_sequences`): the target's sequence of the same name, or the
counter of a column. A sequence to which nothing corresponds is no row, except in PostgreSQL, where
the command is refused, as PostgreSQL refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from subscriber.base.errors import TargetRelationError, UsageError
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import (
    RelationState,
    advance_sequences,
    record_relation_error,
    relations_of,
    sequences_of,
)
from subscriber.commands.notices import Notify, first_names, warning
from subscriber.commands.refresh_sequences import SequenceRefresh, keys_of, read_sequences
from subscriber.commands.subscription_slots import connected
from subscriber.postgres.schema.relation_names import TableName
from subscriber.publisher.sequences import PublishedSequence
from subscriber.targets import Connection, Target


def follow_sequences(
    target: Target,
    connection: Connection,
    subscription: Subscription,
    sequences: Sequence[PublishedSequence],
    notify: Notify,
) -> list[TableName]:
    """The published sequences that become rows of a subscription; a WARNING names the others.

    Raises:
        UsageError: 42P01, a PostgreSQL target has no such sequence, and ``create_tables`` is not
            given; 42809, the target has a table of the name.
    """
    looking = SequenceRefresh(target, connection, subscription, _say_nothing, sets=False)
    looking.reflect(sequences)
    followed, absent = [], []
    for one in sequences:
        if looking.has_place(one):
            followed.append(one.key)
            continue
        place = subscription.options.map.in_target(*one.key)
        relation = ".".join(place)
        if target.shapes.reflect(connection, *place) is not None:
            message = f'relation "{relation}" type mismatch: source "sequence", target "table"'
            raise UsageError(message, sqlstate="42809", relation=relation)
        if target.capabilities.postgresql_types and not subscription.options.create_tables:
            raise UsageError(f'relation "{relation}" does not exist', sqlstate="42P01", relation=relation)
        absent.append(relation)
    if absent:
        count = "1 sequence is" if len(absent) == 1 else f"{len(absent):,} sequences are"
        warning(
            notify,
            f"{count} not synchronized: {first_names(absent)}",
            detail="The target has no sequences of these names, nor columns that take values from them.",
            hint="Run ALTER SUBSCRIPTION ... REFRESH PUBLICATION when it has.",
        )
    return followed


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why some sequences cannot be synchronized: PostgreSQL's words for one and for several."""

    one: str
    several: str
    hint: str
    sequences: Sequence[TableName]

    def __str__(self) -> str:
        names = ", ".join(f'"{".".join(key)}"' for key in self.sequences)
        return f"{self.one if len(self.sequences) == 1 else self.several} ({names})"


def synchronize_sequences(
    target: Target, subscription: Subscription, write: Callable[[], AbstractContextManager[Connection]]
) -> list[str]:
    """Set the sequences in state i to the publisher's values. Returns PostgreSQL's warnings for
    those that stay in state i. ``write`` opens a transaction of the target.
    """
    with target.reporting(), target.engine.connect() as connection:
        tables = keys_of(relations_of(connection, subscription.subid))
        rows = keys_of(one for one in sequences_of(connection, subscription.subid) if one.state is RelationState.INIT)
    with connected(subscription.conninfo, subscription.name) as publisher:
        sequences = [one for one in read_sequences(publisher, tables, rows) if one.key in rows]
    with write() as connection:
        refresh = SequenceRefresh(target, connection, subscription, _say_nothing, rows)
        refresh.run(sequences)
        advance_sequences(connection, subscription.subid, refresh.synchronized)
        problems = list(_problems(refresh, rows, sequences))
        for problem in problems:
            error = TargetRelationError(str(problem), sqlstate="55000", hint=problem.hint)
            for schema, name in problem.sequences:
                record_relation_error(connection, subscription.subid, schema, name, error.report())
    return [str(problem) for problem in problems]


def _problems(
    refresh: SequenceRefresh, rows: Sequence[TableName], sequences: Sequence[PublishedSequence]
) -> Iterator[_Problem]:
    there = {one.key for one in sequences}
    left = [key for key in rows if key in there and key not in refresh.synchronized and key not in refresh.unread]
    hints = " ".join(dict.fromkeys(one.hint for one in refresh.left if one.hint is not None))
    for problem in (
        _Problem(
            "mismatched or renamed sequence on subscriber", "mismatched or renamed sequences on subscriber", hints, left
        ),
        _Problem(
            "insufficient privileges on publisher sequence",
            "insufficient privileges on publisher sequences",
            hints,
            refresh.unread,
        ),
        _Problem(
            "missing sequence on publisher",
            "missing sequences on publisher",
            "ALTER SUBSCRIPTION ... REFRESH PUBLICATION removes it from the subscription.",
            [key for key in rows if key not in there],
        ),
    ):
        if problem.sequences:
            yield problem


def _say_nothing(text: str) -> None:
    pass
