"""The sequences of the old publisher are set forward before an application goes back to it.

::

    target (PostgreSQL)                                     old publisher
    sequence of a column, or of the same name  ─ ahead? ─▶  setval

The way back brings rows, and a row does not move the sequence that made its key
(:mod:`subscriber.publisher.reverse_replication`). Without this the old publisher would make keys
again that came back with rows. A sequence is never set back, so this can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from subscriber.publisher.reverse_replication import TableName, read_write
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection
from subscriber.schema.shape import SequencePosition


@dataclass(slots=True)
class SetForward:
    """What was done at the old publisher.

    Attributes:
        done: a line for each sequence that was set.
        left: a line for each sequence that should have been set and was not, with what to run.
    """

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def set_forward(publisher: Connection, target: Connection, tables: Sequence[TableName]) -> SetForward:
    """Set the old publisher's sequences to the target's positions where those are ahead.

    Args:
        publisher: to the old publisher, in autocommit mode; it may be fenced.
        target: to the target.
        tables: schema and name of the tables of the subscription.

    Raises:
        psycopg.Error: a query failed.
    """
    there = published_sequences(target, tables)
    read_write(publisher)
    result = SetForward()
    for sequence in published_sequences(publisher, tables):
        name = sql.Identifier(sequence.schema, sequence.name).as_string(publisher)
        counterparts = list(_counterparts(sequence, there))
        unread = [(one.grants, "target") for one in counterparts if one.grants]
        if counterparts and sequence.grants:
            unread.append((sequence.grants, "publisher"))
        result.left += [
            f"sequence {name} was not set forward, because the role may not read it at the {where}"
            f" ({'; '.join(grants)}): set it yourself before the application writes"
            for grants, where in unread
        ]
        position = _furthest(sequence.position, counterparts)
        if position is None:
            continue
        try:
            publisher.execute("SELECT setval(%s::regclass, %s, %s)", (name, position.last_value, position.is_called))
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.NumericValueOutOfRange) as error:
            values = (
                sql.Literal(value).as_string(publisher) for value in (name, position.last_value, position.is_called)
            )
            result.left.append(
                f"sequence {name} was not set forward: {error_of(error).message}. Before the application writes, run at"
                f" the publisher: SELECT setval({', '.join(values)});"
            )
        else:
            result.done.append(f"sequence {name} is set forward to {position.last_value}")
    return result


def _counterparts(sequence: PublishedSequence, there: Sequence[PublishedSequence]) -> Iterator[PublishedSequence]:
    """The target's sequences for the same columns, or of the same name."""
    if sequence.used and not sequence.columns:
        return  # only other tables use it
    columns, name = set(sequence.columns), (sequence.schema, sequence.name)
    for one in there:
        if columns & set(one.columns) or (one.schema, one.name) == name:
            yield one


def _furthest(here: SequencePosition | None, counterparts: Sequence[PublishedSequence]) -> SequencePosition | None:
    """The position in the target that is furthest ahead; None if none is ahead, or if the sequence
    may not be read.
    """
    if here is None:
        return None
    sign = 1 if here.increment > 0 else -1
    ahead = [
        one.position
        for one in counterparts
        if one.position is not None
        and one.position.increment * sign > 0
        and (one.position.next_value - here.next_value) * sign > 0
    ]
    return max(ahead, key=lambda position: position.next_value * sign, default=None)
