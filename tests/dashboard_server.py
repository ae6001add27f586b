"""Serves a dashboard of played subscriptions in a process of its own, for tests in a browser:
``python -m tests.dashboard_server``. It prints its port. Each line on its standard input is the
name of a scene that it shows from then on.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from subscriber.base.errors import ConflictError, PublisherUnavailable, SubscriberError, TargetError, TargetUnavailable
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.leases import Lease, LeaseKind
from subscriber.catalog.own_tables import ConflictKind
from subscriber.catalog.publications import insert_publication
from subscriber.catalog.statistics import ConflictLog, ConflictRecord
from subscriber.catalog.stored_publishing import store_publishing
from subscriber.catalog.table_states import RelationState
from subscriber.operate.dashboard import dashboard_routes
from subscriber.operate.http_server import serving
from subscriber.operate.lag_history import History
from subscriber.operate.observation import Observation, RunObservation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.sampler import PublisherSample
from subscriber.operate.web_app import Served, web_app
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.targets import Target, open_target
from subscriber.worker.copy_progress import CopyStatus
from subscriber.worker.worker_snapshot import AppliedBatch
from tests.dashboard_shop import shop_hour, shop_run
from tests.frames import transaction
from tests.journals import T, insert, publish, writing
from tests.observations import NOW, observation, relations, run_of, slot, subscription
from tests.publications import entry, table, tables
from tests.streams import SYSTEM
from tests.subscriptions import create_subscription

PUBLISHED: Final = table(T.qualified_name, {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)
MARKUP: Final = "<img src=x onerror=alert(1)>"
"""A name that must stay text."""


def _failing(error: str = "duplicate key value") -> FailedAttempts:
    found = ConflictError(error, detail=f"Key of {MARKUP} exists.", lsn=LSN(0x1A2B))
    return FailedAttempts(found, 3, 3, since=NOW - 90, not_before=NOW + 5)


def _busy(transactions: int = 1) -> Observation:
    batch = AppliedBatch(NOW - 1, LSN(900), 12, 340, 0.2, None, {"read": 0.001, "apply": 0.02, "commit": 0.004})
    counts = Counter({("rows", "public", "a", "insert"): 340, ("conflicts", "update_missing"): 2})
    return observation("orders", 1, worker={
        "batches": deque([batch]), "counts": counts, "transactions": transactions, "applied": LSN(900 + transactions),
        "received": LSN(900 + transactions), "last_entry": LSN(900 + transactions),
    })  # fmt: skip


def _on_slot(name: str, subid: int, **fields: Any) -> Observation:
    """A subscription about whose slot the publisher says more."""
    one = observation(name, subid)
    return replace(one, publisher=replace(one.publisher, slots={name: replace(slot(name), **fields)}))


def _trouble() -> list[Observation]:
    """Twenty subscriptions; those with a name that says so have each kind of trouble."""
    copy = CopyStatus(300, 4096, 1000, 16384, 50.0, "", schema="public", name="a")
    refused = TargetError("permission denied for table a", relation="public.a", sqlstate="42501")
    pause = Lease(LeaseKind.PAUSE, 10, "", "db1", 4711, "", "", "", state="held")
    return [
        _busy(),
        observation(MARKUP, 2, worker={"applying": _failing()}),
        observation("stopped", 3, worker={"stopped": True, "receiving": FailedAttempts(ConflictError("gap"), 1, 1)}),
        observation("copies", 4, worker={"copies": (copy,), "relations": relations("a", "b", state=RelationState.DATASYNC)}),
        observation("off", 5, subscription=subscription("off", 5, enabled=False), worker=None),
        observation("starts", 6, worker=None),
        observation("away", 7, publisher=PublisherSample((), {}, 0, "could not connect"),
                    worker={"receiving": FailedAttempts(PublisherUnavailable("could not connect"), 9, 9, since=NOW)}),
        _on_slot("lost", 8, wal_status="lost", lost="wal_removed"),
        _on_slot("nearly lost", 9, wal_status="unreserved", safe_wal_size=-3),
        observation("paused", 10, pause=pause),
        observation("no copy", 11, worker={"relations": relations("a", state=RelationState.INIT), "copy_error": refused,
                                           "failed_tables": {("public", "a"): FailedAttempts(refused, 2, 2)}}),
        observation("fault", 12, worker={"faults": FailedAttempts(SubscriberError("a fault"), 1, 1, since=NOW - 5)}),
        *(observation(f"fine {number:02}", number) for number in range(13, 21)),
    ]  # fmt: skip


def _broken_target() -> RunObservation:
    """A target that has been away for seven reads of its catalog."""
    refused = FailedAttempts(TargetUnavailable("could not connect to the target"), 7, 7, since=NOW - 30)
    away = (observation(name, subid, worker={"applying": refused}) for subid, name in enumerate(("a", "b"), 1))
    return run_of(*away, failed_polls=7)


SCENES: Final[Mapping[str, Callable[[], RunObservation]]] = {
    "empty": run_of,
    "one": lambda: run_of(_busy()),
    "commit": lambda: run_of(_busy(77)),
    "shop": lambda: run_of(*shop_run()),
    "trouble": lambda: run_of(*_trouble()),
    "broken target": _broken_target,
    "many tables": lambda: run_of(observation(worker={"relations": relations(*(f"t{n:03}" for n in range(500)))})),
}


def _sources(target: Target, folder: Path) -> PageSources:
    """A target with the catalog and the journal of the subscription "orders", and conflicts."""
    ensure_catalog(target.engine)
    create_subscription(target, "orders", carrier="everything")
    with target.begin() as connection:
        publication = Publication("p", tables=(entry(PUBLISHED, "(a > 1)"),))
        insert_publication(connection, publication, "ann")
        store_publishing(connection, 1, Publishing((publication,), tables(PUBLISHED)))
        conflict = ConflictRecord(
            ConflictKind.INSERT_EXISTS, f"main.{MARKUP}", LSN(0x1A2C), 7, 0, "t_pkey", remote_tuple={"a": MARKUP}
        )
        ConflictLog(connection, 2, MARKUP).write_stop([conflict])
    with writing(folder / f"{SYSTEM}_orders", slot="orders") as journal:
        for number in range(1, 4):
            end = 0x100 * (number + 1)
            publish(journal, end, transaction(end, T, insert(number, MARKUP), xid=700 + number))
    return PageSources(target, Settings(journal=str(folder)), show_values=True, admin=True)


def _with_carriers(run: RunObservation) -> RunObservation:
    """The run at this moment. Its publications are in the target, since there is no publisher."""

    def carried(one: Observation) -> Observation:
        options = replace(one.subscription.options, carrier="everything")
        return replace(one, subscription=replace(one.subscription, options=options))

    return replace(run, subscriptions=tuple(map(carried, run.subscriptions)), looped_at=time.monotonic())


def main() -> None:
    shown, history = [SCENES["one"]()], History()
    served = Served(lambda: _with_carriers(shown[-1]), lambda: None)
    for shop in shop_hour():
        history.record(run_of(*shop, *(replace(one, now=shop[0].now) for one in _trouble())))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_target(f"sqlite:///{folder}/target.db") as target,
        serving(
            web_app(served, dashboard_routes(served, history, _sources(target, Path(folder)))), "127.0.0.1", 0
        ) as port,
    ):
        print(port, flush=True)  # noqa: T201 - the test reads it
        for line in sys.stdin:
            shown.append(SCENES[line.strip()]())
            print("shown", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
