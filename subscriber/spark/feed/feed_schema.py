"""The columns of the typed feed: those of the table, then those that describe the change.

The feed's schema is that of the table at the query's start, because Spark fixes a query's schema
there. A change of the table at another shape fits if nothing of it would be lost: its columns are
columns of the schema, with the same Spark type (:meth:`FeedSchema.fits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType, TimestampType

from subscriber.base.errors import UsageError
from subscriber.base.lsn import format_lsn
from subscriber.postgres.protocol.messages import Relation
from subscriber.spark.feed.spark_types import OnUnsupported, SparkType, spark_type
from subscriber.spark.feed.table_shape import shape_text

METADATA: Final[tuple[tuple[str, DataType], ...]] = (
    ("_change_type", StringType()),
    ("_commit_version", LongType()),
    ("_commit_timestamp", TimestampType()),
    ("_sequence", LongType()),
    ("_xid", LongType()),
    ("_commit_lsn", StringType()),
    ("_origin", StringType()),
    ("_unchanged", ArrayType(StringType())),
)
"""The columns that describe a change. docs/spark.md says what they mean."""

DESCRIBING: Final = tuple(StructField(name, one) for name, one in METADATA)

Converted = tuple[dict[str, pa.Array], tuple[str, int] | None]


class RowSchema(Protocol):
    """What the rows of a feed are: of one table (:class:`FeedSchema`) or of several (``json_rows``)."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def as_text(self) -> bool: ...
    @property
    def row_columns(self) -> Sequence[str]: ...
    @property
    def spark(self) -> StructType: ...
    @property
    def arrow(self) -> pa.Schema: ...
    def wants(self, relation: Relation) -> bool: ...
    def fits(self, relation: Relation) -> bool: ...
    def changed(self, relation: Relation, lsn: int) -> UsageError: ...
    def absent(self, relation: Relation, columns: Mapping[str, pa.Array]) -> list[str]: ...
    def values(self, relation: Relation, columns: Mapping[str, pa.Array], count: int) -> Converted: ...
    def truncated(self, relation: Relation) -> dict[str, pa.Array]: ...


def check_given(schema: RowSchema, given: StructType) -> None:
    """Refuse a schema of the user."""
    if [(one.name, one.dataType) for one in given] != [(one.name, one.dataType) for one in schema.spark]:
        raise UsageError(
            'format "pgoutput" has a schema of its own',
            hint="Leave out .schema(...), and change columns with select and cast.",
        )


@dataclass(frozen=True)
class FeedSchema:
    """A table's columns as rows of the feed have them. ``relation`` is the table's description. With
    ``evolves``, each start of the query takes the columns that were added meanwhile.
    """

    relation: Relation
    unsupported: OnUnsupported
    evolves: bool = False

    @cached_property
    def types(self) -> dict[str, SparkType]:
        return _types(self.relation, self.unsupported)

    as_text: ClassVar[bool] = False

    @property
    def names(self) -> tuple[str, ...]:
        """The qualified names of the tables."""
        return (self.relation.qualified_name,)

    @property
    def row_columns(self) -> Sequence[str]:
        """The columns that do not describe the change."""
        return tuple(self.types)

    @cached_property
    def spark(self) -> StructType:
        columns = [StructField(name, one.type) for name, one in self.types.items()]
        return StructType([*columns, *DESCRIBING])

    @cached_property
    def arrow(self) -> pa.Schema:
        return to_arrow_schema(self.spark, timezone="UTC")

    def check_names(self) -> None:
        """Refuse a table with a column that is named as one which describes the change."""
        reserved = {name for name, _ in METADATA}
        for name in self.types:
            if name.lower() in reserved:
                raise UsageError(
                    f'column "{name}" has the name of a column that describes the change',
                    relation=self.relation.qualified_name,
                    column=name,
                    hint="Rename the column at the publisher, or leave it out by a column list of the publication.",
                )

    def wants(self, relation: Relation) -> bool:
        return (relation.namespace, relation.name) == (self.relation.namespace, self.relation.name)

    def absent(self, relation: Relation, columns: Mapping[str, pa.Array]) -> list[str]:
        """The columns that were not sent, also those that the table does not have at this place."""
        del relation
        return [name for name in self.types if name not in columns]

    def values(self, relation: Relation, columns: Mapping[str, pa.Array], count: int) -> Converted:
        """Spark's values; then the column and the row of the first that it cannot hold."""
        del relation, count
        converted, first = {}, None
        for name, values in columns.items():
            converted[name], bad = self.types[name].convert(values)
            if bad is not None and first is None:
                first = name, int(bad.argmax())
        return converted, first

    def truncated(self, relation: Relation) -> dict[str, pa.Array]:
        del relation
        return {}

    def fits(self, relation: Relation) -> bool:
        """Whether nothing of the table's changes would be lost at this shape."""
        if relation.columns == self.relation.columns:
            return True
        types = _types(relation, self.unsupported)
        return all(name in self.types and self.types[name].type == one.type for name, one in types.items())

    def with_columns_of(self, relation: Relation) -> FeedSchema | None:
        """This schema at a later shape of the table; None unless columns were only added."""
        later = replace(self, relation=relation)
        return later if later.fits(self.relation) else None

    def changed(self, relation: Relation, lsn: int) -> UsageError:
        return UsageError(
            f'the table "{relation.qualified_name}" has another shape from {format_lsn(lsn)} on',
            sqlstate="55000",
            detail=f"The query has the columns ({shape_text(self.relation)}), the table there ({shape_text(relation)}).",
            hint="Start the query again: it then has the new columns."
            if self.evolves and self.with_columns_of(relation)
            else f'Start the query again with option("startingVersion", "{lsn}"): it then has the new columns, '
            "and continues where its checkpoint ends.",
            relation=relation.qualified_name,
            lsn=lsn,
        )


def _types(relation: Relation, unsupported: OnUnsupported) -> dict[str, SparkType]:
    return {column.name: spark_type(column.type_oid, column.type_modifier, unsupported) for column in relation.columns}
