"""Servers and settings that all tests share.

A server starts when the first test asks for it and serves the whole session. Where none can be had,
the test is skipped with the reason, and fails in CI (``CI=true``): a pipeline that tests nothing
must not be green.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.servers.open_servers import MariaDB, PostgreSQL, open_mariadb, open_postgresql, open_seekdb
from tests.random_seed import IN_CI
from tests.spark import start_fast

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES") or 50)
"""Examples of a test that does not say how many; `make long` tries ten times as many."""

hypothesis.settings.register_profile("default", max_examples=EXAMPLES, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=EXAMPLES, deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if IN_CI else "default")

_FAST_FOLDERS = (Path(__file__).parent / "unit", Path(__file__).parent / "property")
_NOT_FAST = ("server", "spark", "slow", "long")
_numbers = count(1)
_Server = TypeVar("_Server")


def server_or_skip(open_server: Callable[[], _Server]) -> _Server:
    """The server. If none is installed, the test is skipped, and fails in CI. A server that does
    not start is an error.
    """
    try:
        return open_server()
    except UsageError as error:
        if IN_CI:
            pytest.fail(error.report(), pytrace=False)
        pytest.skip(error.report())


@dataclass(frozen=True, slots=True)
class Database:
    """A separate database for one test.

    Attributes:
        server: the server it is on.
        name: its name there.
        conninfo: libpq's connection string.
    """

    server: PostgreSQL
    name: str
    conninfo: str

    @property
    def url(self) -> str:
        """SQLAlchemy's URL."""
        return self.server.url(self.name)

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run SQL in autocommit mode; returns the rows of the last statement that returned rows."""
        return self.server.execute(sql, self.name)


def fresh_database(server: PostgreSQL) -> Iterator[Database]:
    """A new database on ``server``. It is dropped at the end, with its slots and prepared
    transactions.
    """
    name = f"test_{os.getpid()}_{next(_numbers)}"
    server.create_database(name)
    try:
        yield Database(server, name, server.conninfo(name))
    finally:
        server.drop_database(name)


def _session_postgresql(major: int) -> Iterator[PostgreSQL]:
    with server_or_skip(lambda: open_postgresql(major)) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql18() -> Iterator[PostgreSQL]:
    yield from _session_postgresql(18)


@pytest.fixture(scope="session")
def postgresql16() -> Iterator[PostgreSQL]:
    yield from _session_postgresql(16)


@pytest.fixture(scope="session")
def postgresql15() -> Iterator[PostgreSQL]:
    yield from _session_postgresql(15)


@pytest.fixture(scope="session", params=[18, 16, 15], ids="pg{}".format)
def postgresql(request: pytest.FixtureRequest) -> PostgreSQL:
    """A server of each version in turn."""
    server: PostgreSQL = request.getfixturevalue(f"postgresql{request.param}")
    return server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with server_or_skip(open_mariadb) as server:
        yield server


@pytest.fixture(scope="session")
def seekdb() -> Iterator[MariaDB]:
    with server_or_skip(open_seekdb) as server:
        yield server


@pytest.fixture
def publisher_database(postgresql18: PostgreSQL) -> Iterator[Database]:
    """A fresh database on PostgreSQL 18."""
    yield from fresh_database(postgresql18)


@pytest.fixture
def database(postgresql: PostgreSQL) -> Iterator[Database]:
    """A fresh database on each version in turn."""
    yield from fresh_database(postgresql)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Prepare Spark before the fixtures of a test with the mark ``spark``."""
    cache = getattr(item.config, "cache", None)  # pytest has no cache with -p no:cacheprovider
    if cache is not None and item.get_closest_marker("spark"):
        start_fast(cache.mkdir("spark"))


_SERVER_FIXTURES = frozenset({"postgresql18", "postgresql16", "postgresql15", "postgresql", "mariadb", "seekdb"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the mark ``server`` to every test that uses a server, and ``fast`` to those that ``make
    check`` runs.
    """
    for item in items:
        if _SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)
        in_folder = any(folder in item.path.parents for folder in _FAST_FOLDERS)
        if in_folder and not any(item.get_closest_marker(name) for name in _NOT_FAST):
            item.add_marker(pytest.mark.fast)
