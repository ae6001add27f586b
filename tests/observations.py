"""Observations of a run for tests of what shows them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from subscriber.base.lsn import LSN
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, TableStates
from subscriber.operate.lag import WalEnd
from subscriber.operate.observation import Observation, RunObservation
from subscriber.operate.sampler import JournalSample, ProcessSample, PublisherSample
from subscriber.publisher.client import Slot
from subscriber.stream.receive.walreceiver import ReceiverCounts
from subscriber.worker.worker_snapshot import WorkerSnapshot
from tests.streams import SYSTEM

NOW = 1_800_000_000.0
"""The moment of an observation, seconds since 1970."""


def subscription(name: str = "s", subid: int = 1, **fields: Any) -> Subscription:
    slot_name = fields.setdefault("slot_name", name)
    given: dict[str, Any] = {
        "enabled": True, "connection": "host=db password=secret", "publications": ("p",), "skip_lsn": LSN(0),
        "system_identifier": SYSTEM, "options": SubscriptionOptions(slot_name=slot_name),
    }  # fmt: skip
    return Subscription(subid=subid, name=name, **(given | fields))


def relations(*names: str, state: RelationState = RelationState.READY) -> TableStates:
    return TableStates(SubscriptionRelation("public", name, state, None) for name in names)


def slot(name: str = "s", **fields: Any) -> Slot:
    given: dict[str, Any] = {
        "active_pid": 4711,
        "restart_lsn": LSN(500),
        "wal_status": "reserved",
        "spilled_bytes": 0,
    } | fields
    return Slot(name, "pgoutput", "shop", confirmed_flush_lsn=LSN(900), two_phase=False, lost=None, **given)


def observation(name: str = "s", subid: int = 1, **fields: Any) -> Observation:
    """A subscription that streams and has applied everything; ``worker`` replaces fields of the
    snapshot, None is no worker; other fields replace those of the observation.
    """
    of = fields.pop("subscription", None) or subscription(name, subid)
    given: dict[str, Any] | None = fields.pop("worker", {})
    worker = None
    if given is not None:
        snapshot: dict[str, Any] = {
            "subscription": of,
            "receives": True,
            "applies": True,
            "received": LSN(1000),
            "last_entry": LSN(900),
            "applied": LSN(900),
            "relations": relations("a"),
            "counts": Counter(),
            "received_counts": ReceiverCounts(heard_at=NOW - 1, confirmed_at=NOW - 2),
            "receiver_pid": 12,
            "applied_at": NOW - 3,
        }
        worker = WorkerSnapshot(**(snapshot | given))
    slot_name = of.slot_name or ""
    observed: dict[str, Any] = {
        "subscription": of,
        "worker": worker,
        "pause": None,
        "publisher": PublisherSample((WalEnd(NOW, 0.0, LSN(1000)),), {slot_name: slot(slot_name)}, 180000),
        "journal": JournalSample(4096, 2, NOW - 60, 10**9),
        "receiver": ProcessSample(50 * 2**20, 1.5),
        "now": NOW,
    }
    return Observation(**(observed | fields))


def run_of(*observations: Observation, **fields: Any) -> RunObservation:
    given: dict[str, Any] = {"polls": 3, "looped_at": 1.0, "now": NOW}
    return RunObservation(tuple(observations), **(given | fields))
