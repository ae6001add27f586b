"""Changes of a table → rows of the typed feed, column by column, on the executors.

::

    read_rows ──▶ ordered (_sequence, _origin) ──▶ only the table's ──▶ FrameDecoder ──▶ publish ──▶ groups ──▶ images ──▶ rows
                                                                                        (emulated publications)

A group of changes becomes one or two *images*: the old rows, which leave the table, and the new
rows, which enter it. Images have the schema's columns; a column that was not sent is NULL and named
in ``_unchanged``. Values that the new row does not have, because they are large and unchanged, come
from the old row where that has them.

``_sequence`` is twice the change's number in its transaction, and one more for a new row. It is the
same whenever a journal is read, also after segments were merged. In a transaction of several
segments the number counts within the segment, whose own number is in the upper half.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from subscriber.base.errors import SubscriberError, UnsupportedValue, UsageError
from subscriber.base.lsn import INVALID_LSN, MAX_LSN, format_lsn
from subscriber.postgres.protocol.changes import ChangeGroup, Controls, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.messages import Origin, Relation
from subscriber.postgres.publication.publishing import Compiled, Publishing, compiled
from subscriber.postgres.types.oids import declared_type
from subscriber.spark.feed.feed_options import FeedOptions
from subscriber.spark.feed.feed_publications import SERVER_PUBLICATIONS, FeedPublications
from subscriber.spark.feed.feed_schema import METADATA, RowSchema
from subscriber.stream.decode.decode_frames import FrameDecoder
from subscriber.stream.decode.publish import publish
from subscriber.stream.journal.builder import rows_of
from subscriber.stream.journal.message_rows import opened
from subscriber.stream.journal.segment import Segment
from subscriber.stream.journal.storage import Storage

INSERT, DELETE = "insert", "delete"
PREIMAGE, POSTIMAGE = "update_preimage", "update_postimage"
TRUNCATE: Final = "truncate"

_PART: Final = 32
"""The bit of a change's number at which the number of its segment begins."""
_HEAD: Final = 4
"""Rows at the beginning of a transaction among which its origin is: after Begin."""
_CHANGES: Final = np.frombuffer(b"IUDT", np.uint8)
_ROW_CHANGES: Final = np.frombuffer(b"IUD", np.uint8)
_NUMBER: Final = "number"
_ORIGIN: Final = "origin"
_DESCRIBED: Final = ["finish_lsn", "commit_timestamp", "xid", _ORIGIN]

Rows = NDArray[np.int64]


def ordered(batches: Iterable[pa.RecordBatch], segment: Segment, origin: str | None) -> Iterator[pa.RecordBatch]:
    """The rows of a segment with two more columns: the number of the change in its transaction, and
    the transaction's origin. ``origin`` is that of a transaction in several segments.
    """
    is_divided = segment.parts > 1
    count = (segment.part - 1) << _PART if is_divided else 0
    for batch in batches:
        types = message_types(batch)
        numbers = count + np.cumsum(np.isin(types, _CHANGES))
        if not is_divided:
            begins = np.flatnonzero((types == ord("B")) | (types == ord("b")))
            before = np.concatenate(([0], numbers[begins]))
            numbers = numbers - before[np.searchsorted(begins, np.arange(len(types)), side="right")]
        if len(numbers):
            count = int(numbers[-1])
        origins, origin = _origins(batch, types, origin, is_divided=is_divided)
        yield batch.append_column(_NUMBER, pa.array(numbers, pa.int64())).append_column(_ORIGIN, origins)


def message_types(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    """The type byte of each message."""
    action = batch.column("action")
    _, offsets, data = action.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[action.offset])
    return np.frombuffer(data, np.uint8)[begin : begin + len(action)]


def _origins(
    batch: pa.RecordBatch, types: NDArray[np.uint8], origin: str | None, *, is_divided: bool
) -> tuple[pa.StringArray, str | None]:
    """The origin of each row's transaction, and that of the last row."""
    marks = np.flatnonzero(np.isin(types, np.frombuffer(b"BbO", np.uint8)))
    named = marks[types[marks] == ord("O")]
    if is_divided or (not named.size and origin is None):
        return _repeated(origin, len(types)), origin
    found: list[str | None] = [origin]
    messages = batch.column("message")
    for row in marks.tolist():
        message = decode(messages[row].as_py()) if types[row] == ord("O") else None
        found.append(message.name if isinstance(message, Origin) else None)
    which = np.searchsorted(marks, np.arange(len(types)), side="right")
    return pa.array(found, pa.string()).take(pa.array(which)), found[-1]


def divided_origin(storage: Storage, segment: Segment) -> str | None:
    """The origin of a transaction in several segments. The first has it or, if the transaction was
    streamed, the second.
    """
    for part in range(1, min(segment.parts, 2) + 1):
        with opened(storage, replace(segment, part=part)) as file:
            head = file.get_batch(0).column("message").slice(0, _HEAD)
            head.validate(full=True)
            for row in rows_of(head, b"O"):
                message = decode(head[row].as_py())
                assert isinstance(message, Origin)
                return message.name
    return None


@dataclass(slots=True)
class FeedTables:
    """Which tables of the journal have changes of the feed, as far as they were described in the
    batches that were given to :meth:`changes`, in their order.
    """

    schema: RowSchema
    publications: FeedPublications
    _names: set[str] = field(default_factory=set)

    def changes(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether each row of the journal is of such a table."""
        names = batch.column("relation")
        if self.publications.history is not None:
            self._names.update(relation.qualified_name for relation in self._described(batch))
            return pc.is_in(names, pa.array(sorted(self._names), pa.string()))
        wanted = self.schema.names
        return pc.is_in(names, pa.array(wanted, pa.string())) if wanted else pc.is_valid(names)

    def _described(self, batch: pa.RecordBatch) -> Iterator[Relation]:
        messages = batch.column("message")
        for row in rows_of(messages, b"R"):
            relation = decode(messages[row].as_py())
            assert isinstance(relation, Relation)
            # A description may have come from before, so it holds at several places.
            if any(map(self.schema.wants, self.publications.shapes(relation, INVALID_LSN, MAX_LSN))):
                yield relation


class Image(NamedTuple):
    """Rows of one kind: their rows in the batch, their columns, and the names of absent columns."""

    change_type: str
    rows: Rows
    enters: bool
    columns: dict[str, pa.Array]
    unchanged: Sequence[str]


@dataclass(slots=True)
class FeedRows:
    """Makes the rows of one partition, which must be read from its beginning."""

    schema: RowSchema
    options: FeedOptions
    key: Sequence[str] = ()
    publications: FeedPublications = SERVER_PUBLICATIONS
    _decoder: FrameDecoder = field(init=False)
    _tables: FeedTables = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = FrameDecoder(as_text=self.schema.as_text)
        self._tables = FeedTables(self.schema, self.publications)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The feed's rows of a batch of :func:`ordered`, in the publisher's order.

        UsageError: the table has another shape, or was truncated. UnsupportedValue: Spark's type
        cannot hold a value. Errors have relation, column and LSN.
        """
        batch = self._of_tables(batch)
        history = self.publications.history
        if history is None:
            return self._made(batch, None)
        divided = history.divided(batch.column("finish_lsn").to_numpy())
        made = [self._made(batch.slice(part.start, part.stop - part.start), one) for part, one in divided]
        return pa.concat_batches(made) if made else pa.RecordBatch.from_pylist([], self.schema.arrow)

    def _made(self, batch: pa.RecordBatch, publishing: Publishing | None) -> pa.RecordBatch:
        frame = self._decoder.decode(batch.column("message"), batch.column("lsn"))
        if publishing is not None:
            frame = self._published(frame, compiled(publishing), batch)
        images: list[Image] = []
        for group in frame.groups:
            if self.schema.wants(group.relation):
                images += self._images(group, batch)
        images += self._truncates(frame.controls, batch)
        return self._assembled(images, batch)

    def snapshot_rows(self, relation: Relation, values: pa.RecordBatch, lsn: int, first: int) -> pa.RecordBatch:
        """Rows of a table in a snapshot at ``lsn``, as inserts, numbered from ``first`` on."""
        count = values.num_rows
        described = pa.RecordBatch.from_pydict(
            {
                "finish_lsn": np.full(count, lsn, np.int64),
                "lsn": np.full(count, lsn, np.int64),
                "commit_timestamp": pa.nulls(count, pa.timestamp("us", "UTC")),
                "xid": pa.nulls(count, pa.int64()),
                _ORIGIN: pa.nulls(count, pa.string()),
                _NUMBER: np.arange(first, first + count, dtype=np.int64),
            }
        )
        group = ChangeGroup(relation, "I", None, np.arange(count, dtype=np.int32), None, values)
        return self._assembled(list(self._images(group, described)), described)

    def _published(self, frame: Frame, programs: Compiled, batch: pa.RecordBatch) -> Frame:
        """What is published of the tables. A filter of another table may fail."""
        groups = (
            group for group in frame.groups if any(map(self.schema.wants, programs.published_relations(group.relation)))
        )
        *_, published = publish(replace(frame, groups=tuple(groups)), programs, batch.column("lsn").to_numpy())
        return published

    def _of_tables(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the changes of other tables, which need not be decoded."""
        unneeded = np.isin(message_types(batch), _ROW_CHANGES)
        unneeded &= ~self._tables.changes(batch).to_numpy(zero_copy_only=False)
        return batch.filter(pa.array(~unneeded)) if unneeded.any() else batch

    def _images(self, group: ChangeGroup, batch: pa.RecordBatch) -> Iterator[Image]:
        rows = group.positions.astype(np.int64)
        if not self.schema.fits(group.relation):
            raise self.schema.changed(group.relation, batch.column("finish_lsn")[int(rows[0])].as_py())
        old, new = _columns(group.old), _columns(group.new)
        if group.action == "I":
            # A column that the table did not have then has no earlier value: it is NULL.
            yield self._image(INSERT, group, rows, new, batch)._replace(unchanged=())
        elif group.action == "D":
            yield self._image(DELETE, group, rows, old, batch)
        else:
            # The old row has what the new one lacks: the value is unchanged.
            new = {**{name: values for name, values in old.items() if name not in new}, **new}
            if group.old_kind is None:  # the key is unchanged
                old = {one.name: new[one.name] for one in group.relation.columns if one.is_identity and one.name in new}
            yield from self._updates(group, rows, old, new, batch)

    def _updates(
        self,
        group: ChangeGroup,
        rows: Rows,
        old: dict[str, pa.Array],
        new: dict[str, pa.Array],
        batch: pa.RecordBatch,
    ) -> Iterator[Image]:
        split = np.full(len(rows), not self.options.compute_updates)
        if self.options.split_key_changes and group.old_kind is not None:
            split |= _key_changed(self.key, old, new, len(rows))
        for chosen, kinds in (
            (np.flatnonzero(~split), (PREIMAGE, POSTIMAGE)),
            (np.flatnonzero(split), (DELETE, INSERT)),
        ):
            if chosen.size:
                for kind, columns in zip(kinds, (old, new), strict=True):
                    taken = columns if chosen.size == len(rows) else _taken(columns, chosen)
                    yield self._image(kind, group, rows[chosen], taken, batch)

    def _image(
        self,
        change_type: str,
        group: ChangeGroup,
        rows: Rows,
        columns: dict[str, pa.Array],
        batch: pa.RecordBatch,
    ) -> Image:
        converted, unsupported = self.schema.values(group.relation, columns, len(rows))
        if unsupported is not None and self.options.unsupported == "fail":
            name, row = unsupported
            raise self._unsupported(group.relation, name, int(batch.column("lsn")[int(rows[row])].as_py()))
        absent = self.schema.absent(group.relation, columns)
        return Image(change_type, rows, change_type in (INSERT, POSTIMAGE), converted, absent)

    def _unsupported(self, relation: Relation, name: str, lsn: int) -> SubscriberError:
        column = next(one for one in relation.columns if one.name == name)
        declared = declared_type(column.type_oid, column.type_modifier)
        return UnsupportedValue(
            f'Spark\'s type {self.schema.spark[name].dataType.simpleString()} cannot hold a value of column "{name}", '
            f"which is {declared}",
            sqlstate="22003",
            hint='Read such columns as strings, with option("unsupportedValues", "string"), or such values as NULL, with "null".',
            relation=relation.qualified_name,
            column=name,
            lsn=lsn,
        )

    def _truncates(self, controls: Controls, batch: pa.RecordBatch) -> Iterator[Image]:
        for number, named in sorted(controls.relations.items()):
            for relation in filter(self.schema.wants, named):
                row = int(controls.positions[number])
                if self.options.truncate == "error":
                    raise self._truncated(relation, int(batch.column("finish_lsn")[row].as_py()))
                if self.options.truncate == "event":
                    yield Image(TRUNCATE, np.array([row], np.int64), False, self.schema.truncated(relation), [])

    def _truncated(self, relation: Relation, lsn: int) -> UsageError:
        return UsageError(
            f'the table "{relation.qualified_name}" was truncated by the transaction that ends at {format_lsn(lsn)}',
            sqlstate="55000",
            hint='Read TRUNCATE as a row, with option("truncate", "event"), or leave it out, with "ignore".',
            relation=relation.qualified_name,
            lsn=lsn,
        )

    def _assembled(self, images: Sequence[Image], batch: pa.RecordBatch) -> pa.RecordBatch:
        """The images as one batch, in the order of their changes."""
        schema = self.schema.arrow
        if not images:
            return pa.RecordBatch.from_pylist([], schema)
        rows = np.concatenate([image.rows for image in images])
        sequence = batch.column(_NUMBER).to_numpy()[rows] * 2
        sequence += np.concatenate([np.full(len(image.rows), image.enters) for image in images])
        place = rows * 2 + (sequence & 1)
        order = None if len(images) == 1 else pa.array(np.argsort(place, kind="stable"))
        taken = batch.select(_DESCRIBED).take(pa.array(rows))
        values = {
            "_change_type": pa.concat_arrays([_repeated(image.change_type, len(image.rows)) for image in images]),
            "_commit_version": taken.column("finish_lsn"),
            "_commit_timestamp": taken.column("commit_timestamp"),
            "_sequence": pa.array(sequence),
            "_xid": taken.column("xid"),
            "_commit_lsn": _lsn_texts(taken.column("finish_lsn")),
            "_origin": taken.column(_ORIGIN),
            "_unchanged": pa.concat_arrays([_repeated_list(image.unchanged, len(image.rows)) for image in images]),
        }
        assert len(values) == len(METADATA)
        arrays = []
        for one in schema:
            array = values.get(one.name)
            if array is None:
                parts = [image.columns.get(one.name) for image in images]
                filled = [
                    pa.nulls(len(image.rows), one.type) if part is None else part.cast(one.type)
                    for image, part in zip(images, parts, strict=True)
                ]
                array = filled[0] if len(filled) == 1 else pa.concat_arrays(filled)
            arrays.append(array.cast(one.type) if order is None else array.take(order).cast(one.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(batch: pa.RecordBatch | None) -> dict[str, pa.Array]:
    return {} if batch is None else dict(zip(batch.schema.names, batch.columns, strict=True))


def _taken(columns: dict[str, pa.Array], rows: NDArray[np.int64]) -> dict[str, pa.Array]:
    indices = pa.array(rows)
    return {name: values.take(indices) for name, values in columns.items()}


def _key_changed(
    key: Sequence[str], old: dict[str, pa.Array], new: dict[str, pa.Array], count: int
) -> NDArray[np.bool_]:
    changed = np.zeros(count, np.bool_)
    for name in key:
        if name in old and name in new:
            differs = pc.fill_null(pc.not_equal(old[name], new[name]), False)
            changed |= differs.to_numpy(zero_copy_only=False)
    return changed


def _repeated(text: str | None, count: int) -> pa.StringArray:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _repeated_list(texts: Sequence[str], count: int) -> pa.ListArray:
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(len(texts)))
    values = pa.array(np.tile(np.arange(len(texts)), count))
    return pa.ListArray.from_arrays(offsets, pa.array(list(texts), pa.string()).take(values))


def _lsn_texts(lsns: pa.Int64Array) -> pa.StringArray:
    distinct, which = np.unique(lsns.to_numpy(), return_inverse=True)
    return pa.array([format_lsn(lsn) for lsn in distinct.tolist()], pa.string()).take(pa.array(which.reshape(-1)))
