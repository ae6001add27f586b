"""Random histories through receiver, journal and change feed: the fold of the feed equals the
publisher's tables after each micro-batch. The histories are those of
:mod:`tests.property.test_histories`, with streamed, prepared and rolled back transactions.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from subscriber.base.lsn import parse_lsn
from subscriber.base.settings import Settings
from subscriber.stream.receive.walreceiver import WalReceiver
from tests.change_feeds import FoldedTable, Row, feed_reader
from tests.frames import transaction
from tests.journals import publish, writing
from tests.property.test_apply import KEYED, Publisher
from tests.property.test_histories import Wal, Walsender, histories, wal_of
from tests.streams import ScriptedStream, journal_at

pytestmark = pytest.mark.slow


def received(wal: Wal, folder: Path, segment_bytes: int, pauses: frozenset[int]) -> None:
    script: list[bytes | None] = []
    for number, each in enumerate(Walsender(wal, 0).frames(())):
        script += [None, each] if number in pauses else [each]
    stream = ScriptedStream(script)
    options = Settings(journal="", segment_bytes=segment_bytes, wal_receiver_timeout=0)
    with journal_at(folder, applied=1) as journal:
        WalReceiver(stream, journal, options, clock=lambda: 0.0).run(lambda: stream.ended)


def has_changes(wal: Wal, relation_id: int) -> bool:
    finished = [event.transaction for event in wal.events if event.what == "finish"]
    kinds = ("plain", "streamed", "prepared", "streamed prepared")
    changes = [change for one in finished if one.kind in kinds for change in one.changes]
    return any(getattr(change, "relation_id", None) == relation_id for change in changes)


def check(wal: Wal, folder: Path, table: FoldedTable, name: str, part: int, **options: str) -> None:
    """Read micro-batches with one reader after another, as after a crash, and each twice."""
    offset: dict[str, Any] | None = None
    places: list[tuple[int, int]] = []
    while True:
        reader = feed_reader(folder, name, truncate="event", **options)
        reader.prepareForTriggerAvailableNow()
        offset = offset or reader.initialOffset()
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset:
            break
        rows = read(reader, offset, end)
        assert read(reader, offset, end) == rows
        state: Any = wal.state_at(parse_lsn(end["lsn"]))
        if options.get("deduplicationMode") is None:
            places += [(row["_commit_version"], row["_sequence"]) for row in rows]
        elif not {"maxBytesPerTrigger", "maxRowsPerTrigger"}.isdisjoint(options):
            fill_moved(rows, state[0])
        table.fold(rows)
        assert (table.rows or +table.bag) == (
            {(key,): (key, *values) for key, values in state[0].items()} if part == 0 else state[1]
        )
        offset = end
    assert places == sorted(set(places))


def fill_moved(rows: Iterable[Row], truth: Mapping[Any, Sequence[Any]]) -> None:
    """Give net inserts the large value that was not sent: a row from before the batch has moved to
    another key.
    """
    for row in rows:
        if row["_change_type"] == "insert" and row["_unchanged"]:
            assert row["_unchanged"] == ["big"]
            row["big"], row["_unchanged"] = truth[row["k"]][1], []


def read(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    return [row for one in reader.partitions(start, end) for batch in reader.read(one) for row in batch.to_pylist()]


limits: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    ({}, {"maxBytesPerTrigger": "1"}, {"maxRowsPerTrigger": "1"}, {"maxRowsPerTrigger": "3"}, {"partitionBytes": "1"})
)
parts: st.SearchStrategy[int] = st.sampled_from((1, 300, 10**6))
pauses = st.frozensets(st.integers(0, 60), max_size=8)


MOVED_LATER = [("plain", [([(word, 0, to, None)], False, 0)]) for word, to in (("put", 0), ("move", 1))]
"""A row that gets another key in a later micro-batch; its large value is not sent then."""


@settings(max_examples=60)
@given(histories, limits, parts, pauses, st.booleans())
@example(history=MOVED_LATER, limit={"maxBytesPerTrigger": "1"}, segment_bytes=1, breaks=frozenset(), net=True)
def test_the_fold_of_the_feed_is_the_publisher_s_table(history: Sequence[Any], limit, segment_bytes, breaks, net):
    wal = wal_of(history)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        received(wal, folder, segment_bytes, breaks)
        mode = {"deduplicationMode": "netChanges"} if net else {}
        if has_changes(wal, 1):
            check(wal, folder, FoldedTable(("k", "v", "big"), ("k",)), "public.keyed", 0, **limit, **mode)
        if has_changes(wal, 2):
            check(wal, folder, FoldedTable(("a", "b")), "public.bag", 1, **limit)


WORDS = ("put", "put", "put", "move", "remove", "touch", "touch")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rows", ["1", "4", "1000"])
def test_net_changes_of_busy_rows_make_the_same_table(tmp_path, seed, rows):
    """Many changes of few keys, so that rows come, go and change their keys within a batch."""
    chance = random.Random(seed)
    publisher, states = Publisher(), {}
    with writing(tmp_path) as journal:
        for number in range(2, 22):
            end = number * 0x100
            steps = [
                (chance.choice(WORDS), chance.randrange(5), chance.randrange(5), f"{number}.{step}")
                for step in range(6)
            ]
            changes = [change for step in steps if (change := publisher.run(*step)) is not None]
            publish(journal, end, transaction(end, KEYED, *changes, xid=number))
            states[end] = dict(publisher.keyed)
    plain, net = (FoldedTable(("k", "v", "big"), ("k",)) for _ in range(2))
    for table, options in ((plain, {}), (net, {"deduplicationMode": "netChanges"})):
        reader = feed_reader(tmp_path, "public.keyed", maxRowsPerTrigger=rows, **options)
        reader.prepareForTriggerAvailableNow()
        offset: dict[str, Any] = reader.initialOffset()
        while (to := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
            found, truth = read(reader, offset, to), states[parse_lsn(to["lsn"])]
            if options:
                kinds = Counter((row["k"], row["_change_type"] in ("insert", "update_postimage")) for row in found)
                assert max(kinds.values(), default=1) == 1
                if rows != "1000":
                    fill_moved(found, truth)
            table.fold(found)
            assert table.rows == {(key,): (key, *values) for key, values in truth.items()}
            offset = to
