"""A run of five subscriptions of a shop, and its last hour, for the pictures in docs/images."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts
from subscriber.catalog.table_states import RelationState, TableStates
from subscriber.operate.lag import Backlog, WalEnd
from subscriber.operate.observation import Observation
from subscriber.operate.sampler import JournalSample, PublisherSample
from subscriber.worker.copy_progress import CopyStatus
from subscriber.worker.worker_snapshot import AppliedBatch
from tests.observations import NOW, observation, relations, slot, subscription

SHOP: Final = 101
_HOUR: Final = 3600
_STEP: Final = 10
_END: Final = LSN(0x9_4A21_7B30)
_CONFLICT: Final = LSN(0x9_4217_0C58)
_TABLES: Final = ("addresses", "customers", "orders", "order_lines", "payments")


def shop_run(now: float = NOW) -> list[Observation]:
    """The five subscriptions at a moment of the hour before :data:`NOW`."""
    return [
        _streaming("shop", SHOP, now, lag=_shop_lag(now), rate=1400, tables=_TABLES),
        _streaming("warehouse", 102, now, lag=0.15 + 0.1 * math.sin(now / 70), rate=180, tables=("stock", "shelves")),
        _copying("catalogue", 103, now),
        _conflicting("till", 104, now),
        replace(observation("archive", 105, subscription=subscription("archive", 105, enabled=False), worker=None), now=now),
    ]  # fmt: skip


def shop_hour() -> Iterator[Sequence[Observation]]:
    """The observations of the last hour, one every ten seconds."""
    for second in range(-_HOUR, 1, _STEP):
        yield shop_run(NOW + second)


def _shop_lag(now: float) -> float:
    """Some tenths of a second, and a large transaction half an hour ago."""
    large = max(0.0, 1 - abs(now - (NOW - 1900)) / 200)
    return 0.2 + 0.1 * math.sin(now / 40) + 6 * large


def _observed(name: str, subid: int, now: float, retained: int, worker: Mapping[str, Any], lag: float) -> Observation:
    waits = {"last_entry": _END, "received": _END, "applied": LSN(_END - int(40_000 * lag)), **worker}
    one = observation(name, subid, worker=waits, subscription=subscription(name, subid, publications=(f"{name}_pub",)))
    at_publisher = slot(name, restart_lsn=LSN(_END - retained))
    return replace(
        one,
        now=now,
        publisher=PublisherSample((WalEnd(now - 2, 0.0, _END),), {name: at_publisher}, 180000),
        journal=JournalSample(retained, 12, now - 60, 80 * 10**9, Backlog(now - lag)),
    )


def _rows(now: float, rate: float, tables: Sequence[str]) -> Counter[tuple[str, ...]]:
    passed = now - (NOW - _HOUR)
    counts: Counter[tuple[str, ...]] = Counter()
    for place, table in enumerate(tables, 2):
        counts["rows", "public", table, "insert"] = int(passed * rate / place)
    return counts


def _streaming(name: str, subid: int, now: float, *, lag: float, rate: float, tables: Sequence[str]) -> Observation:
    batches = [
        AppliedBatch(
            now - number, LSN(_END - 40_960 * number), 31 + 7 * number % 13, 1210 + 89 * number % 400, lag,
            "order_matters" if number == 3 else None,
            {"read": 0.002, "decode": 0.011 + number / 1000, "filter": 0.001, "apply": 0.038, "commit": 0.004},
        )
        for number in range(6, -1, -1)
    ]  # fmt: skip
    counts = _rows(now, rate, tables)
    counts["conflicts", "update_missing"] = 2
    return _observed(name, subid, now, 48_000_000, {
        "relations": relations(*tables), "counts": counts, "batches": batches, "applied_at": now - 0.4,
        "server": "db1.example, port 5432, PostgreSQL 18.4",
    }, lag)  # fmt: skip


def _copying(name: str, subid: int, now: float) -> Observation:
    copied = int(412_000 + 300 * (now - NOW))
    copies = (
        CopyStatus(max(0, copied), 95_000_000, 690_000, 160_000_000, 300.0, "", schema="public", name="articles"),
        CopyStatus(38_000, 9_000_000, 52_000, 12_000_000, 300.0, "", schema="public", name="prices"),
    )
    tables = TableStates([*relations("articles", "prices", state=RelationState.DATASYNC), *relations("brands")])
    return _observed(name, subid, now, 310_000_000, {
        "relations": tables, "copies": copies, "counts": _rows(now, 12, ("brands",)),
    }, 0.3)  # fmt: skip


def _conflicting(name: str, subid: int, now: float) -> Observation:
    """It has met a row in its way 20 minutes ago."""
    began = NOW - 1200
    counts = _rows(min(now, began), 60, ("receipts",))
    counts["conflicts", "insert_exists"] = 240
    conflict = ConflictError(
        'conflict detected on relation "public.receipts": conflict=insert_exists',
        relation="public.receipts",
        sqlstate="23505",
        lsn=_CONFLICT,
        detail='Key already exists in unique index "receipts_pkey".',
    )
    failing = FailedAttempts(conflict, 240, 240, since=began) if now >= began else FailedAttempts()
    worker = {"relations": relations("receipts", "returns"), "counts": counts, "applying": failing}
    return _observed(name, subid, now, 1_240_000_000, worker, max(0.2, now - began))
