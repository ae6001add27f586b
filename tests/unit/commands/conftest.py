"""A SQLite target to give commands to, and a publisher that answers from a script."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription, get_subscription, insert_subscription
from subscriber.catalog.table_states import RelationState, relations_of, set_relation_states
from subscriber.commands import subscription_slots
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import Query, parse
from subscriber.stream.journal.storage import journal_url
from subscriber.targets import Target, open_target
from tests.journals import three_transactions
from tests.scripted_publisher import ScriptedPublisher
from tests.streams import SLOT, SYSTEM


class Session:
    """Commands for a target that has the tables of the catalog.

    Attributes:
        target: the target.
        settings: the settings of the commands.
        said: the notices and warnings so far.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self.target = target
        self.settings = Settings(journal=str(folder / "journal"))
        self.said: list[str] = []

    def run(self, sql: str, publisher: str | None = None) -> str:
        """The command's tag."""
        command = parse(sql)
        assert not isinstance(command, Query)
        return run_command(self.target, command, self.settings, self.said.append, publisher)

    def refused(self, sql: str) -> SubscriberError:
        """The error of a command, which has changed nothing that another session can see."""
        before = self.dump()
        with pytest.raises(SubscriberError) as caught:
            self.run(sql)
        assert self.dump() == before
        return caught.value

    def subscribe(
        self,
        name: str = "s",
        conninfo: str = "host=a",
        publications: tuple[str, ...] = ("p",),
        *,
        system_identifier: str | None = None,
        applied: int = 0x300,
        tables: dict[str, RelationState] | None = None,
        slot_name: str | None = "s",
        **options: Any,
    ) -> Subscription:
        """Store a subscription; ``tables`` are tables of schema public."""
        values = SubscriptionOptions(slot_name=slot_name, **options)
        with self.target.begin() as connection:
            made = insert_subscription(
                connection, name, conninfo, publications, values, system_identifier,
                slot_adopted=system_identifier is not None,
            )  # fmt: skip
            made.progress.create(connection, LSN(applied))
            for table, state in (tables or {}).items():
                set_relation_states(connection, made.subid, [("public", table)], state)
        return made

    def subscription(self, name: str = "s") -> Subscription:
        """The subscription as the catalog has it."""
        with self.target.engine.connect() as connection:
            return get_subscription(connection, name)

    def applied(self, name: str = "s") -> LSN:
        """The applied position of a subscription."""
        with self.target.engine.connect() as connection:
            return self.subscription(name).progress.read(connection)

    def states(self, name: str = "s") -> dict[str, str]:
        """The tables of a subscription with their states."""
        subid = self.subscription(name).subid
        with self.target.engine.connect() as connection:
            return {one.qualified_name: str(one.state) for one in relations_of(connection, subid)}

    def execute(self, *statements: str) -> None:
        """SQL of the target's users."""
        with self.target.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query by the names of their columns."""
        with self.target.engine.connect() as connection:
            return [dict(row) for row in connection.exec_driver_sql(sql).mappings()]

    def make_journal(self) -> Path:
        """The journal of slot s, with transactions that end at 0/200, 0/300 and 0/400."""
        folder = Path(journal_url(self.settings.journal, SYSTEM, SLOT))
        folder.mkdir(parents=True)
        three_transactions(folder)
        return folder

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table of the target."""
        tables = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return {row["name"]: self.rows(f'SELECT * FROM "{row["name"]}"') for row in tables}


@pytest.fixture(scope="session")
def empty_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the tables of the catalog, for tests to copy."""
    file = tmp_path_factory.mktemp("empty") / "target.db"
    with open_target(f"sqlite:///{file}") as target:
        ensure_catalog(target.engine)
    return file


@pytest.fixture
def session(empty_target: Path, tmp_path: Path) -> Iterator[Session]:
    """A session without a publisher."""
    file = shutil.copyfile(empty_target, tmp_path / "target.db")
    with open_target(f"sqlite:///{file}") as target:
        yield Session(target, tmp_path)


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> ScriptedPublisher:
    """A publisher with publication p, to which every connection string leads."""
    scripted = ScriptedPublisher()
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: scripted)
    return scripted


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands do not wait until a worker has released its slot."""
    monkeypatch.setattr(subscription_slots, "WORKER_STOP_SECONDS", -1.0)
