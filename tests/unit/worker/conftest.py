"""Targets and the state of a worker, for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import insert_publication
from subscriber.catalog.stored_publishing import store_publishing
from subscriber.catalog.subscriptions import Subscription
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.targets import Target, open_target
from subscriber.worker.worker_state import WorkerState
from tests.publications import entry, table, tables
from tests.subscriptions import NOWHERE, create_subscription
from tests.table_syncs import Scene


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A SQLite database with an empty catalog."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        yield opened


@pytest.fixture
def worker_state(target: Target) -> Callable[..., WorkerState]:
    """A function that stores subscription s with the given options, and returns the state of its
    worker.
    """

    def create(**options: object) -> WorkerState:
        return WorkerState(target, create_subscription(target, **options))  # type: ignore[arg-type]

    return create


@pytest.fixture
def scene(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A table synchronization of tables a and b with a played publisher and a played Spark."""
    played = Scene(target, tmp_path, monkeypatch)
    yield played
    played.sync.stop()


@pytest.fixture
def emulated(target: Target) -> Subscription:
    """Subscription s with the emulated publication p, which publishes table public.t. Its publisher
    does not answer.
    """
    published = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
    subscription = create_subscription(target, conninfo=NOWHERE, carrier="c")
    publication = Publication("p", tables=(entry(published),))
    with target.begin() as connection:
        insert_publication(connection, publication, "postgres")
        store_publishing(connection, subscription.subid, Publishing((publication,), tables(published)))
    return subscription
