"""Several runs of transactions as one segment, and one of them back out of it.

::

    runs        (0/100, 0/180]  R B I C   (0/180, 0/200]  B U C B I C     R is needed by the second run
    merge       (0/100, 0/200]  R B I C B U C B I C
    extract     (0/180, 0/200]  B U C B I C, with R in its metadata       equal to what was merged

The law of this module is that ``extract`` gives back what ``merge`` was given, byte for byte. A
reader that has planned a segment which was merged meanwhile therefore reads the same rows, in the
same batches.

A segment's metadata has the relation messages that its rows need from earlier segments. Those of
all runs become the metadata of the merged segment, where they stand before all rows. So a run whose
metadata contradicts the descriptions before it is not merged: between the runs, a connection has
brought a description that is in no segment.

Both functions are pure: the files are in :mod:`subscriber.journal.compaction` and
:mod:`subscriber.journal.segment_file`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from subscriber.journal.builder import FINISH_KEY, RELATIONS_KEY, described, rows_of, sealed
from subscriber.lsn import LSN
from subscriber.protocol.decode import decode
from subscriber.protocol.messages import Commit, LogicalMessage, Relation


def merge(runs: Sequence[pa.Table]) -> tuple[pa.Table, int]:
    """The first runs as one segment.

    Args:
        runs: segments of consecutive entries, at least one.

    Returns:
        The segment, and the number of runs in it: those before the first one that cannot follow.
    """
    before: dict[int, Relation] = {}
    known: dict[int, Relation] = {}
    count = 0
    for run in runs:
        needed = _by_id(described_before(run.schema.metadata))
        if any(known.get(key, relation) != relation for key, relation in needed.items()):
            break
        before |= {key: relation for key, relation in needed.items() if key not in known}
        known |= needed
        known |= _by_id(_relations_in(run))
        count += 1
    table = pa.concat_tables([run.replace_schema_metadata() for run in runs[:count]]).combine_chunks()
    finish = base64.b64decode(runs[count - 1].schema.metadata[FINISH_KEY])
    return sealed(table, [before[key] for key in sorted(before)], finish), count


def extract(merged: pa.Table, begin: LSN, end: LSN) -> pa.Table:
    """The segment of the transactions that finished in (``begin``, ``end``]; it may be empty."""
    rows = merged.replace_schema_metadata()
    ends = list(_ends(rows))
    first = max((row + 1 for row, lsn in ends if lsn <= begin), default=0)
    last = max((row + 1 for row, lsn in ends if lsn <= end), default=0)
    if first >= last:
        return rows.slice(0, 0).replace_schema_metadata({RELATIONS_KEY: b"[]"})
    relations = _by_id([*described_before(merged.schema.metadata), *_relations_in(rows.slice(0, first))])
    inside = rows.slice(first, last - first)
    return described(inside, relations, inside["message"][-1].as_py())[0]


def described_before(metadata: Mapping[bytes, bytes]) -> list[Relation]:
    """The relation messages that a segment needs from earlier segments."""
    return list(_relations(base64.b64decode(text) for text in json.loads(metadata[RELATIONS_KEY])))


def _ends(rows: pa.Table) -> Iterator[tuple[int, LSN]]:
    """The last row of each transaction (and of each message between transactions), with the LSN at
    which it finished.
    """
    for row in _rows_of(rows, b"CM"):
        match decode(rows["message"][row].as_py()):
            case Commit(end_lsn=lsn) | LogicalMessage(transactional=False, lsn=lsn):
                yield row, LSN(lsn)


def _relations_in(rows: pa.Table) -> Iterator[Relation]:
    return _relations(rows["message"][row].as_py() for row in _rows_of(rows, b"R"))


def _rows_of(rows: pa.Table, types: bytes) -> list[int]:
    return rows_of(rows["message"].chunk(0), types) if rows.num_rows else []


def _relations(messages: Iterable[bytes]) -> Iterator[Relation]:
    for message in messages:
        relation = decode(message)
        assert isinstance(relation, Relation)
        yield relation


def _by_id(relations: Iterable[Relation]) -> dict[int, Relation]:
    return {relation.relation_id: relation for relation in relations}
