"""Finds in a journal how a table was described, and compares descriptions.

Changes are described by the last relation message before them (rule C1). Each segment has the
messages that it needs from earlier ones, so the first segment with a change of the table says how
the table was at that place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.quoting import quote_qualified_name
from subscriber.postgres.types.oids import declared_type
from subscriber.stream.journal.builder import rows_of
from subscriber.stream.journal.message_rows import checked, described_relations, opened
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import Segment
from subscriber.stream.journal.storage import Storage


def table_shape(journal: JournalReader, table: TableName, start: LSN) -> Relation:
    """How the table's first change after ``start`` is described; without one, its last change up to
    there. UsageError: the journal has no change of the table.
    """
    seen: set[str] = set()
    ahead = (planned.segment for planned in journal.plan(start, journal.latest(start)))
    found = next(_of_table(_described(journal.storage, ahead), table, seen), None)
    if found is None:
        behind = (
            part for entry in reversed(journal.listed()) if entry.end <= start for part in reversed(entry.segments)
        )
        for segment in behind:
            of_segment = list(_of_table(_described(journal.storage, (segment,)), table, seen))
            if of_segment:
                found = of_segment[-1]
                break
    if found is None:
        raise UsageError(
            f'the journal has no change of the table "{".".join(table)}" after {format_lsn(start)}',
            sqlstate="42P01",
            detail=f"It has changes of {', '.join(sorted(seen))}." if seen else "It has no changes of tables.",
            hint="Start the query after the first change of the table.",
        )
    return found


def _of_table(relations: Iterable[Relation], table: TableName, seen: set[str]) -> Iterator[Relation]:
    for relation in relations:
        if (relation.namespace, relation.name) == table:
            yield relation
        seen.add(quote_qualified_name(relation.namespace, relation.name))


def _described(storage: Storage, segments: Iterable[Segment]) -> Iterator[Relation]:
    """The relation messages of segments: those that the first change needs, then those within."""
    for segment in segments:
        with opened(storage, segment) as file:
            batches = chain((described_relations(file),), checked(file, segment))
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
