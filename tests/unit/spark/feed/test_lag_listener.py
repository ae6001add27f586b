from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from subscriber.spark.feed.lag_listener import ChangeFeedLag, lag

END = '{"lsn": "0/200", "commitTimestamp": "2000-01-01T00:00:02+00:00"}'
LATEST = '{"lsn": "0/300", "commitTimestamp": "2000-01-01T00:00:03.500000+00:00"}'


@pytest.mark.parametrize(
    ("end", "latest", "told"),
    [
        (END, LATEST, "at 0/200, 256 bytes and 1.5 seconds behind the journal"),
        (LATEST, LATEST, "at 0/300, 0 bytes and 0.0 seconds behind the journal"),
        (LATEST, END, "at 0/300, 0 bytes and 0.0 seconds behind the journal"),
        ('{"lsn": "0/100"}', END, "at 0/100, 256 bytes behind the journal"),
        (END, None, None),
        (END, "null", None),
        ('{"files": 3}', '{"files": 4}', None),
        ("3", "4", None),
        ('{"snapshot": "pending"}', LATEST, None),
    ],
)
def test_the_lag_is_that_between_the_offsets_of_a_feed(end, latest, told):
    assert lag(end, latest) == told


def test_each_query_is_told_by_its_name():
    told: list[str] = []
    sources = [SimpleNamespace(endOffset=END, latestOffset=LATEST), SimpleNamespace(endOffset="3", latestOffset="4")]
    event: Any = SimpleNamespace(progress=SimpleNamespace(name="orders", id="1", sources=sources))
    ChangeFeedLag(told.append).onQueryProgress(event)
    assert told == ["orders: at 0/200, 256 bytes and 1.5 seconds behind the journal"]
