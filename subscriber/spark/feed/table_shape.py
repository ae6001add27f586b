"""Finds in a journal how a table was described, and compares descriptions.

Changes are described by the last relation message before them (rule C1). Each segment has the
messages that it needs from earlier ones, so the first segment with a change of the table says how
the table was at that place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.quoting import quote_qualified_name
from subscriber.postgres.types.oids import declared_type
from subscriber.spark.feed.feed_publications import FeedPublications
from subscriber.stream.journal.builder import rows_of
from subscriber.stream.journal.message_rows import described_relations, opened
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import Segment
from subscriber.stream.journal.storage import Storage


class NoChanges(UsageError):
    """A journal has no change of a table."""


def table_shapes(
    journal: JournalReader, table: TableName, start: LSN, publications: FeedPublications
) -> Iterator[Relation]:
    """How the table's changes after ``start`` are described, in their order. Without changes there:
    how its last change up to ``start`` is. Raises NoChanges.
    """
    seen: set[str] = set()
    end = journal.next_range(start, None, publications.end)[0]
    ahead = ((planned.segment, planned.end) for planned in journal.plan(start, end))
    entries = (entry for entry in reversed(journal.listed()) if entry.end <= start)
    behind = ((part, entry.end) for entry in entries for part in reversed(entry.segments))

    def shapes_in(segment: Segment, end: LSN) -> Iterator[Relation]:
        relations = described(journal.storage, segment)
        shapes = chain.from_iterable(publications.shapes(one, segment.begin, end) for one in relations)
        return _of_table(shapes, table, seen)

    found = False
    for segment, end in ahead:
        for relation in shapes_in(segment, end):
            found = True
            yield relation
    for segment, end in () if found else behind:
        shapes = list(shapes_in(segment, end))
        if shapes:
            yield shapes[-1]
            return
    if not found:
        raise NoChanges(
            f'the journal has no change of the table "{".".join(table)}"',
            sqlstate="42P01",
            detail=f"It has changes of {', '.join(sorted(seen))}." if seen else "It has no changes of tables.",
            hint='Give the publisher\'s connection string with option("connection", "…"): it then describes the table.'
            " Or start the query after the first change of the table.",
        )


def _of_table(relations: Iterable[Relation], table: TableName, seen: set[str]) -> Iterator[Relation]:
    for relation in relations:
        if (relation.namespace, relation.name) == table:
            yield relation
        seen.add(quote_qualified_name(relation.namespace, relation.name))


def described(storage: Storage, segment: Segment) -> Iterator[Relation]:
    """The relation messages of a segment: those that its first changes need, then those within."""
    with opened(storage, segment) as file:
        batches = chain((described_relations(file),), map(file.get_batch, range(file.num_record_batches)))
        for messages in (batch.column("message") for batch in batches):
            for row in rows_of(messages, b"R"):
                relation = decode(messages[row].as_py())
                assert isinstance(relation, Relation)
                yield relation


def shape_text(relation: Relation) -> str:
    """The columns as CREATE TABLE would have them.

    >>> from subscriber.postgres.protocol.messages import RelationColumn
    >>> shape_text(Relation(1, "public", "t", "d", (RelationColumn(1, "a", 23, -1), RelationColumn(0, "b", 1700, 655366))))
    'a integer, b numeric(10,2)'
    """
    return ", ".join(
        f"{column.name} {declared_type(column.type_oid, column.type_modifier)}" for column in relation.columns
    )
