"""The source of our own query: the same journal and the same plan as ``format("pgoutput")``, read as frames that apply takes.

::

    partition ──▶ read_rows ──▶ decode_frames ──▶ encode ──▶ frame                  one Python task of an executor
                                                  └─ SubscriberError ──▶ error

A task reads its segments, decodes them and publishes what is in them before anything leaves its Python. The public format and a
``mapInArrow`` behind it would give the same frames; but then every message passes the JVM as a row of its own, into one Python process
and out of another, which is most of the time that a batch takes.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from subscriber.errors import SubscriberError
from subscriber.pipeline.frames import decode_frames
from subscriber.pipeline.source import PgoutputSource, PgoutputStreamReader, is_true
from subscriber.publication.publishing import Publishing

FRAME_SCHEMA: Final = pa.schema([pa.field("frame", pa.binary()), pa.field("error", pa.binary())])
"""``frame``: an encoded Frame; ``error``: the pickled error that ended the partition instead."""


class FrameSource(PgoutputSource):
    """``format("pgoutput_frames")``; see the module. Two options more than :class:`PgoutputSource`:

    ``asText``      true: every value in PostgreSQL's own text, for a target that parses it itself; default: false
    ``publishing``  what the changes are published by, as :func:`as_option` writes it; default: the server has done that
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "pgoutput_frames"

    def schema(self) -> str:
        """That of :data:`FRAME_SCHEMA`."""
        return "frame binary, error binary"

    def open_reader(self, **plan: Any) -> FrameStreamReader:
        """What reads by these arguments, and by the options."""
        text = self.options.get("publishing")
        publishing = None if text is None else pickle.loads(base64.b64decode(text))  # noqa: S301 - our own query's
        return FrameStreamReader(as_text=is_true(self.options.get("asText")), publishing=publishing, **plan)


class FrameStreamReader(PgoutputStreamReader):
    """Plans as its base does; :meth:`read` decodes."""

    def __init__(self, *, as_text: bool, publishing: Publishing | None, **plan: Any) -> None:
        super().__init__(**plan)
        self._as_text = as_text
        self._publishing = publishing

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The frames of one partition: :data:`FRAME_SCHEMA`, a row each."""
        return encode_frames(super().read(partition), as_text=self._as_text, publishing=self._publishing)


def encode_frames(
    batches: Iterable[pa.RecordBatch], *, as_text: bool, publishing: Publishing | None = None
) -> Iterator[pa.RecordBatch]:
    """Decode a partition and encode its frames: :data:`FRAME_SCHEMA`.

    An error, the journal's too, is the last row: Spark would flatten what is raised into text.
    """
    try:
        for frame in decode_frames(batches, as_text=as_text, publishing=publishing):
            yield _row(frame.encode(), None)
    except SubscriberError as error:
        yield _row(None, pickle.dumps(error))


def as_option(publishing: Publishing) -> str:
    """A Publishing as a source's option, which is text."""
    return base64.b64encode(pickle.dumps(publishing)).decode()


def _row(frame: bytes | None, error: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array([frame], pa.binary()), pa.array([error], pa.binary())], schema=FRAME_SCHEMA)
