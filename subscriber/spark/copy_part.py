"""What a task of the initial copy does: it reads a range of a table, and sends its blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from subscriber.base.errors import SubscriberError
from subscriber.postgres.protocol.messages import Relation
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyRange
from subscriber.spark.result_files import ResultFile, take_result, write_result
from subscriber.stream.decode.blocks import LoadBlock, Transforms, load_block


@dataclass(frozen=True, slots=True)
class BlockFile:
    """A :class:`LoadBlock` whose data is in a file."""

    file: ResultFile
    rows: int
    size: int


def read_part(
    reader: CopyReader,
    relation: Relation,
    transforms: Transforms,
    part: CopyRange,
    most_bytes: int,
    folder: Path | None,
    nothing: Iterable[object],
) -> Iterator[LoadBlock | BlockFile | CopyRange | SubscriberError]:
    """The blocks of a range, and then the rest of it, or the error that ended it: as an object,
    because Spark would convert an exception into text. ``folder`` is one of this machine, or None.
    """
    # Spark reuses a Python worker only if the worker has read its input to the end, even if the
    # input is empty.
    deque(nothing, maxlen=0)
    try:
        for item in reader.read_range(part, most_bytes):
            if isinstance(item, CopyRange):
                yield item
            else:
                yield _sent(load_block(relation, reader.copy_format, item, transforms), folder)
    except SubscriberError as error:
        yield error


def _sent(block: LoadBlock, folder: Path | None) -> LoadBlock | BlockFile:
    file = None if folder is None else write_result(folder, lambda file: file.write(block.data))
    return block.compressed() if file is None else BlockFile(file, block.rows, block.size)


def received(item: LoadBlock | BlockFile) -> LoadBlock:
    return LoadBlock(bytes(take_result(item.file)), item.rows, item.size) if isinstance(item, BlockFile) else item
