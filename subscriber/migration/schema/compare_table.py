"""Which objects of a publisher's table its target table lacks.

The comparison knows no database: the target's role ``objects`` translates expressions, shows how
the target would write them, and says what the target cannot have. An object is there, or it is
missing, or the target has another one in its place::

    compare_columns       columns, types, defaults, generated columns, identity
    compare_checks        CHECK constraints, those of enums and domains included
    compare_indexes       indexes, keys, exclusion constraints
    compare_foreign_keys  foreign keys
    compare_table         partitions, comments; everything in its order
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from subscriber.migration.schema.compare_checks import compare_checks
from subscriber.migration.schema.compare_columns import compare_column
from subscriber.migration.schema.compare_foreign_keys import compare_foreign_key
from subscriber.migration.schema.compare_indexes import compare_index
from subscriber.migration.schema.compared import Compared, Missing
from subscriber.targets.table_changes import NewComment, NewPartitions


def compare_table(both: Compared) -> Iterator[Missing]:
    """The objects that the target's table lacks, or has with another definition."""
    for column in both.objects.shape.columns:
        yield from compare_column(both, column)
    yield from compare_checks(both)
    yield from _partitions(both)
    for index in both.objects.indexes:
        yield from compare_index(both, index)
    for key in both.objects.shape.foreign_keys:
        yield from compare_foreign_key(both, key)
    yield from _comments(both)


def _partitions(both: Compared) -> Iterator[Missing]:
    objects = both.objects
    if not both.keeps_types or not objects.partition_key or both.found.partitioned:
        return
    partitions = []
    for one in objects.partitions:
        schema, name = both.names.local(one.schema, one.name)
        partitions.append(replace(one, schema=schema, name=name, parent=both.names.local(*one.parent)))
    change = NewPartitions(objects.partition_key, tuple(partitions))
    yield Missing("partitions", "", change, publisher_ddl=f"PARTITION BY {objects.partition_key}")


def _comments(both: Compared) -> Iterator[Missing]:
    objects, found = both.objects, both.found
    if objects.comment is not None and objects.comment != found.comment:
        yield Missing("comment", "", NewComment(objects.comment))
    for column, text in objects.column_comments.items():
        # A generated column may be built in the same run, before its comment.
        if found.column_comments.get(column) != text and both.table.column(column) is not None:
            yield Missing("comment", column, NewComment(text, column))
