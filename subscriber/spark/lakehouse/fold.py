"""The fold of a change feed: what a table must be told to become what the publisher's table is.

The newest change of a key decides: an insert or a postimage is the row, a delete or a preimage
means that no row has this key any more. A preimage comes before its postimage, with a
``_sequence`` that is one less, so it counts only where the key has changed. A column that was not
sent (a TOASTed value that an UPDATE left alone) has the value that the row had before: in the same
batch, else in the table, under the key that the row had there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's documentation calls it so
from pyspark.sql.pandas.types import to_arrow_schema

from subscriber.base.errors import TargetRelationError
from subscriber.spark.feed.feed_schema import METADATA

_DESCRIBING: Final = frozenset(name for name, _ in METADATA)
"""The columns of a feed that are not the table's."""
_NEW: Final = ("insert", "update_postimage")


class LakehouseTable(Protocol):
    """A table of a lakehouse that stores the ``_commit_version`` up to which it has every change.
    ``merge_schema``: it gets the columns that it lacks.
    """

    @property
    def merge_schema(self) -> bool: ...

    @property
    def sql_name(self) -> str:
        """Its name in Spark SQL."""

    def columns(self) -> Sequence[str] | None:
        """The names of its columns; None if it does not exist yet."""

    def add_columns(self, schema: pa.Schema) -> None:
        """Add columns, in a commit of their own."""

    def applied(self) -> int | None:
        """The stored ``_commit_version``; None if nothing was applied yet."""


class Sink(LakehouseTable, Protocol):
    """A table that has the publisher's rows."""

    def read(self, columns: Sequence[str], keys: pa.Table) -> pa.Table:
        """These columns of the rows that have one of these keys, and perhaps of others."""

    def merge(self, rows: pa.Table, deleted: pa.Table, version: int) -> None:
        """Replace or insert ``rows`` by their key, delete the rows that have a key of ``deleted``
        (its columns are the key), and store ``version``, in one commit.
        """

    def overwrite(self, rows: pa.Table, version: int) -> None:
        """Replace all rows, and store ``version``, in one commit."""


class HistorySink(LakehouseTable, Protocol):
    """A table that rows are only appended to."""

    def append(self, rows: pa.Table, version: int) -> None:
        """Add ``rows``, and store ``version``, in one commit."""


def apply_changes(batch: DataFrame, table: Sink, *, keys: Sequence[str]) -> None:
    """Apply a micro-batch of a change feed to a table, exactly once: ``table`` skips the commits
    that it has. ``keys`` are the columns of the publisher's replica identity.

    TargetRelationError: ``table`` lacks a column, or a column was not sent and ``table`` has no row
    to take its value from.
    """
    changes = _not_applied(batch, table).persist()
    try:
        version, truncated, incomplete = changes.agg(
            F.max("_commit_version"),
            F.max(F.when(_is("truncate"), _position())),
            F.max(_is(*_NEW) & (F.size("_unchanged") > 0)),
        ).collect()[0]
        if version is None:  # every commit was applied before
            return
        _prepare_columns(batch, [name for name in batch.columns if name not in _DESCRIBING], table)
        rest = changes
        if truncated is not None:
            rest = rest.where(_position() > F.struct(*(F.lit(part).cast("long") for part in truncated)))
        filled = fill_unchanged(rest, keys) if incomplete else rest
        newest = _in_utc(newest_changes(filled, keys).toArrow())
    finally:
        changes.unpersist()
    has_row = pc.is_in(newest["_change_type"], pa.array(_NEW))
    rows, deleted = newest.filter(has_row), newest.filter(pc.invert(has_row))
    if incomplete:
        rows = _fill_from_table(rows, table, keys)
    rows = rows.select([name for name in batch.columns if name not in _DESCRIBING])
    if truncated is not None:
        table.overwrite(rows, version)
    else:
        table.merge(rows, deleted.select(list(keys)), version)


def append_changes(batch: DataFrame, table: HistorySink) -> None:
    """Append the rows of a micro-batch to a table as they are, exactly once. TargetRelationError:
    ``table`` lacks a column.
    """
    rows = _in_utc(_not_applied(batch, table).toArrow())
    if rows.num_rows:
        _prepare_columns(batch, batch.columns, table)
        table.append(rows, pc.max(rows["_commit_version"]).as_py())


def _prepare_columns(batch: DataFrame, names: Sequence[str], table: LakehouseTable) -> None:
    """Add the columns of the batch that the table lacks, or refuse them."""
    known = table.columns()
    missing = [] if known is None else [name for name in names if name not in known]
    if not missing:
        return
    columns = batch.select(*map(_named, missing)).schema
    if table.merge_schema:
        # The rows that are there have NULL in them.
        added = [one.with_nullable(True) for one in to_arrow_schema(columns, timezone="UTC")]
        table.add_columns(pa.schema(added))
        return
    written = ", ".join(f"{_quoted(one.name)} {one.dataType.simpleString().upper()}" for one in columns)
    raise TargetRelationError(
        f'the table {table.sql_name} has no column "{missing[0]}"',
        column=missing[0],
        hint=f"Run ALTER TABLE {table.sql_name} ADD COLUMNS ({written}); or give the sink merge_schema=True, which adds columns. Rows that"
        " the feed does not have again are NULL there: if the publisher's column has a DEFAULT, copy the table again.",
    )


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _not_applied(batch: DataFrame, table: LakehouseTable) -> DataFrame:
    applied = table.applied()
    return batch if applied is None else batch.where(F.col("_commit_version") > applied)


def newest_changes(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The last change of each key."""
    newest_first = Window.partitionBy(*map(_named, keys)).orderBy(_position().desc())
    numbered = changes.withColumn("__number", F.row_number().over(newest_first))
    return numbered.where("__number = 1").drop("__number")


def fill_unchanged(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Fill columns that were not sent with the value that the row had earlier in the batch.

    ``_unchanged`` then has the columns whose value only the table has, in the row with the key
    ``__stored_key``. Every old row must be in the batch: it has the key that the row had before.
    """
    # A life of a key begins when a row gets it, by an insert or by a change of the row's key. Its
    # name is the position where it begins; None if the row had the key before the batch.
    by_key = Window.partitionBy(*map(_named, keys)).orderBy(_position())
    had_key = F.coalesce(F.lag(_position()).over(by_key) == _position(-1), F.lit(False))
    lives = (
        changes.withColumn("__key", F.struct(*map(_named, keys)))
        .withColumn("__begin", F.when(_is(*_NEW) & ~had_key, _position()))
        .withColumn("__life", F.last("__begin", ignorenulls=True).over(by_key))
    )
    row = F.coalesce("__first", F.struct("__life", "__key"))
    stored = F.when(row["__life"].isNull(), row["__key"])
    followed = (
        lives.join(_origins(lives), "__life", "left")
        .withColumn("__stored_key", stored)
        .withColumn("__row", F.struct(row["__life"], F.col("__stored_key")))
    )
    # The changes of one row in order, whatever its key was. A value may be NULL, so it is wrapped.
    by_row = Window.partitionBy("__row").orderBy(_position())
    filled, missing = {}, []
    for name in changes.columns:
        if name not in _DESCRIBING:
            is_sent = ~F.array_contains("_unchanged", name)
            last = F.last(F.when(is_sent, F.struct(_named(name).alias("value"))), ignorenulls=True).over(by_row)
            filled[name] = last["value"]
            missing.append(F.when(last.isNull(), F.lit(name)))
    filled["_unchanged"] = F.array_compact(F.array(*missing))
    return followed.withColumns(filled).select(*map(_named, changes.columns), "__stored_key")


def _origins(lives: DataFrame) -> DataFrame:
    """For each life that a change of the key began: ``__first`` has the first life of its row, and
    the key of that life.
    """
    before = lives.where(~_is(*_NEW)).select(_position(1).alias("__life"), F.struct("__life", "__key").alias("__first"))
    steps = lives.where("__begin IS NOT NULL").select("__life").join(before, "__life").orderBy("__life")
    found = steps.toArrow()
    lives_before = pa.Table.from_struct_array(found["__first"])["__life"].to_pylist()
    first_step: dict[tuple[int, ...], int] = {}  # of a row, for each of its lives, in their order
    for number, (life, life_before) in enumerate(zip(found["__life"].to_pylist(), lives_before, strict=True)):
        first_step[tuple(life.values())] = first_step.get(tuple((life_before or {}).values()), number)
    followed = found.set_column(
        1, found.schema.field(1), found["__first"].take(pa.array(first_step.values(), pa.int64()))
    )
    return lives.sparkSession.createDataFrame(followed, steps.schema)


def _fill_from_table(rows: pa.Table, table: Sink, keys: Sequence[str]) -> pa.Table:
    """``rows`` with the values that only ``table`` has."""
    unchanged = rows["_unchanged"].to_pylist()
    numbers = [number for number, names in enumerate(unchanged) if names]
    if not numbers:
        return rows
    columns = sorted({name for number in numbers for name in unchanged[number]})
    stored_keys = pa.Table.from_struct_array(rows["__stored_key"].take(numbers))
    stored = table.read([*keys, *columns], stored_keys.drop_null())
    number_stored = {key: len(rows) + number for number, key in enumerate(_tuples(stored, keys))}
    number_of: dict[int, int] = {}
    for number, key in zip(numbers, _tuples(stored_keys, keys), strict=True):
        if key not in number_stored:
            column = unchanged[number][0]
            raise TargetRelationError(
                f'a value of column "{column}" was not sent, and the table has no row to take it from',
                column=column,
                hint="Begin with startingSnapshot, or ALTER TABLE ... REPLICA IDENTITY FULL at the publisher.",
            )
        number_of[number] = number_stored[key]
    for name in columns:
        places = np.arange(len(rows))
        for number, place in number_of.items():
            if name in unchanged[number]:
                places[number] = place
        both = pa.chunked_array([*rows[name].chunks, *stored[name].cast(rows.schema.field(name).type).chunks])
        rows = rows.set_column(rows.column_names.index(name), name, both.take(places))
    return rows


def _in_utc(table: pa.Table) -> pa.Table:
    """``table`` with UTC as the time zone of every timestamp: Spark names that of its session."""
    fields = [field.with_type(_type_in_utc(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _type_in_utc(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_type_in_utc(type_.value_type)))
    return type_


def _tuples(table: pa.Table, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in keys), strict=True)


def _is(*change_types: str) -> Column:
    return F.col("_change_type").isin(*change_types)


def _position(offset: int = 0) -> Column:
    """The place of a change in the feed, or the place ``offset`` changes after it in its commit."""
    return F.struct("_commit_version", (F.col("_sequence") + offset).alias("_sequence"))


def _named(column: str) -> Column:
    """The column of exactly this name, whatever its characters."""
    return F.col("`" + column.replace("`", "``") + "`")
