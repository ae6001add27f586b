"""Random histories of a real publisher: the fold of each table's change feed is the table, after
every micro-batch, and so is the fold of its net changes at the end.

The histories are those by which :mod:`tests.conformance.test_random_histories` tests apply, and
what is compared is the same. So the feed has exactly the rows that ``subscriber run`` applies.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from subscriber.base.lsn import parse_lsn
from subscriber.postgres.types.float_text import double_text
from subscriber.spark.feed.table_shape import NoChanges
from tests.change_feeds import FoldedTable, feed_reader
from tests.conformance.test_random_histories import TABLES, History, history_of
from tests.random_seed import random_seed

COLUMNS: Final = {
    "keyed": ("id", "code", "name", "big", "amount"),
    "pair": ("a", "b", "v"),
    "bag": ("a", "b", "c", "d"),
    "wide": ("id", "one", "two", "n"),
    "indexed": ("a", "k", "c"),
    "typed": ("id", "o", "n", "f", "d", "t", "u", "y"),
    "parted": ("id", "v", "n"),
    "full_keyed": ("id", "v", "big", "n"),
}
KEYS: Final = {
    "keyed": ("id",),
    "pair": ("a", "b"),
    "wide": ("id",),
    "indexed": ("k",),
    "typed": ("id",),
    "parted": ("id",),
}
"""The columns of the replica identity, where it is not FULL."""


def text(value: Any) -> str | None:
    """The text that PostgreSQL writes for one of Spark's values."""
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case bytes():
            return f"\\x{value.hex()}"
        case float():
            return double_text(value)
        case datetime():
            return value.isoformat(" ")
        case _:
            return str(value)


def contents(table: FoldedTable) -> Counter[tuple[str | None, ...]]:
    rows = Counter(table.rows.values()) if table.key else +table.bag
    return Counter({tuple(map(text, row)): count for row, count in rows.items()})


def check(history: History, journal: Path, name: str, source: random.Random, mode: dict[str, str]) -> int:
    """Read the table's feed in random batches, with a new reader for each, as after a crash. Only
    the offset's JSON is kept, which is what Spark's checkpoint has.
    """
    table = FoldedTable(COLUMNS[name], KEYS.get(name, ()))
    offset, batches = "", 0
    while True:
        limit = source.choice(
            [{"maxBytesPerTrigger": "1"}, {"maxRowsPerTrigger": "20"}, {"maxBytesPerTrigger": "100000"}, {}]
        )
        limit = {} if mode else limit
        options = {"truncate": "event", "partitionBytes": source.choice(["1", "100000"]), **limit, **mode}
        try:
            reader = feed_reader(journal, f"public.{name}", **options)
        except NoChanges:  # a random history may leave a table out
            assert not offset
            assert not any(state[name] for state in history.states)
            return 0
        reader.prepareForTriggerAvailableNow()
        start = json.loads(offset) if offset else reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            return batches
        partitions = reader.partitions(start, end)
        table.fold(row for one in partitions for batch in reader.read(one) for row in batch.to_pylist())
        expected, found = history.state_at(parse_lsn(end["lsn"]))[name], contents(table)
        assert found == expected, f"{name} at {end['lsn']}: {found - expected} in place of {expected - found}"
        offset, batches = json.dumps(end), batches + 1


def test_the_fold_of_each_feed_is_the_publisher_s_table(postgresql18, tmp_path):
    first = random_seed()
    for seed in range(first, first + int(os.environ.get("RANDOM_HISTORIES", "2"))):
        folder = tmp_path / str(seed)
        with history_of(postgresql18, folder / "journal", seed) as (history, _):
            try:
                source, batches = random.Random(seed), 0
                for name in TABLES:
                    batches += check(history, folder / "journal", name, source, {})
                    if name in KEYS:
                        check(history, folder / "journal", name, source, {"deduplicationMode": "netChanges"})
                assert batches > 0
            except BaseException:
                print(f"SEED={seed}", *history.script, sep="\n")  # noqa: T201 - pytest shows it with a failure
                raise
