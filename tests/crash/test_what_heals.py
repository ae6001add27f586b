"""What somebody puts right while ``subscriber run`` works heals by itself; what is lost stops one
subscription, and a command lets it try again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from subscriber.testing.servers.open_servers import PostgreSQLServer
from tests.crash.harness import Runner, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

DATABASE = "heals"
SAYS = {
    "password": ('password authentication failed for user "password"', "CONNECTION, or the password file"),
    "no_entry": ("no pg_hba.conf entry", "pg_hba.conf"),
    "role": ('role "role" is not permitted to log in', 'ALTER ROLE "role" LOGIN'),
    "replication": ("permission denied to start WAL sender", 'ALTER ROLE "replication" REPLICATION'),
    "database": (f'permission denied for database "{DATABASE}"', "GRANT CONNECT ON DATABASE"),
    "certificate": ("server does not support SSL, but SSL was required", "sslmode"),
    "lost": ('replication slot "lost" does not exist', "RECREATE SLOT"),
}
"""Each subscription: what the server says after it was broken, and the way out."""
HEALING = [name for name in SAYS if name != "lost"]
BREAK = """
ALTER ROLE password PASSWORD 'rotated';
ALTER ROLE role NOLOGIN;
ALTER ROLE replication NOREPLICATION;
REVOKE CONNECT ON DATABASE heals FROM database;
"""
MEND = """
ALTER ROLE password PASSWORD 'secret';
ALTER ROLE role LOGIN;
ALTER ROLE replication REPLICATION;
GRANT CONNECT ON DATABASE heals TO database;
"""


class Subscriptions:
    """A SQLite target; each subscription of :data:`SAYS` has a role, a publication and a table of
    its name, and so has ``healthy``.
    """

    def __init__(self, server: PostgreSQLServer, folder: Path) -> None:
        self.server = server
        self.database = folder / "target.db"
        self.runner = Runner(f"sqlite:///{self.database}", folder)
        self.hba = Path(server.data_directory) / "pg_hba.conf"
        self.names = [*SAYS, "healthy"]

    def create(self) -> None:
        self.server.create_database(DATABASE)
        self.rules("")
        self.publish(f"REVOKE CONNECT ON DATABASE {DATABASE} FROM PUBLIC")
        for name in self.names:
            self.publish(
                f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'secret'; GRANT CONNECT ON DATABASE {DATABASE} TO {name};"
                f"CREATE TABLE {name} (id int PRIMARY KEY); GRANT SELECT ON {name} TO {name};"
                f"CREATE PUBLICATION {name} FOR TABLE {name}"
            )
            self.runner.sql(
                f"CREATE SUBSCRIPTION {name} CONNECTION '{self.conninfo(name)}' PUBLICATION {name}"
                " WITH (create_tables = true)"
            )

    def conninfo(self, name: str, **more: str) -> str:
        return self.server.conninfo(DATABASE, user=name, password="secret", **more)

    def rules(self, first: str) -> None:
        """Write pg_hba.conf: every role needs its password, after the line given."""
        self.hba.write_text(
            f"{first}\nlocal all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n"
        )
        self.server.execute("SELECT pg_reload_conf()")

    def is_in(self, name: str, state: str, reason: str = "") -> bool:
        status = self.runner.status()[name]
        return bool(status["state"] == state and reason in (status["worker"]["error"] or ""))

    def publish(self, statement: str) -> None:
        self.server.execute(statement, DATABASE)

    def insert(self, key: int) -> None:
        for name in self.names:
            self.publish(f"INSERT INTO {name} VALUES ({key})")

    def wait_for(self, names: list[str], keys: list[int]) -> None:
        def there() -> bool:
            with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as connection:
                try:
                    rows = {name: connection.execute(f"SELECT id FROM {name} ORDER BY id").fetchall() for name in names}
                except sqlite3.OperationalError:
                    return False
            return all(found == [(key,) for key in keys] for found in rows.values())

        wait_until(there, f"the rows {keys} of {names}: {self.runner.said()[-4000:]}")


@pytest.fixture
def subscriptions(own_server, tmp_path):
    subscriptions = Subscriptions(own_server, tmp_path)
    before = subscriptions.hba.read_text()
    try:
        subscriptions.create()
        yield subscriptions
    finally:
        subscriptions.runner.close()
        subscriptions.hba.write_text(before)
        own_server.execute("SELECT pg_reload_conf()")
        own_server.drop_database(DATABASE)
        for name in subscriptions.names:
            own_server.execute(f"DROP ROLE IF EXISTS {name}")


def test_what_is_put_right_goes_on_and_what_is_lost_stops_one_subscription(subscriptions):
    runner, server = subscriptions.runner, subscriptions.server
    runner.start()
    subscriptions.insert(1)
    subscriptions.wait_for(subscriptions.names, [1])

    server.execute(BREAK)
    subscriptions.rules("host heals no_entry 192.0.2.1/32 trust\nhost all no_entry all reject")
    runner.sql(
        f"ALTER SUBSCRIPTION certificate CONNECTION '{subscriptions.conninfo('certificate', sslmode='require')}'"
    )
    hba = subscriptions.hba.read_text().replace("host all no_entry all reject\n", "")
    subscriptions.hba.write_text(
        hba.replace("host all all all", f"host all {','.join(set(subscriptions.names) - {'no_entry'})} all")
    )
    server.execute("SELECT pg_reload_conf()")
    server.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name <> 'healthy'")
    wait_until(lambda: dropped(server, "lost"), "the slot to be dropped")
    subscriptions.insert(2)

    for name, (reason, way_out) in SAYS.items():
        state = "stopped" if name == "lost" else "retrying"
        wait_until(partial(subscriptions.is_in, name, state, reason), f"{name} to be {state}: {reason}")
        worker = runner.status()[name]["worker"]
        assert way_out in worker["error"]
        assert (worker["attempts"] > 0) == (worker["next_attempt"] is not None) == (name != "lost")
    subscriptions.wait_for(["healthy"], [1, 2])
    shown = runner.call("status").stdout
    assert "retries since" in shown
    assert "lost stopped at" in shown
    assert runner.running

    server.execute(MEND)
    subscriptions.rules("")
    runner.sql(f"ALTER SUBSCRIPTION certificate CONNECTION '{subscriptions.conninfo('certificate')}'")
    subscriptions.wait_for([*HEALING, "healthy"], [1, 2])
    wait_until(lambda: all(subscriptions.is_in(name, "streaming") for name in HEALING), "all to stream")

    tries = runner.said().count('subscription "lost" has stopped')
    runner.sql("ALTER SUBSCRIPTION lost ENABLE")
    wait_until(lambda: runner.said().count('subscription "lost" has stopped') > tries, "lost to try again")
    subscriptions.insert(3)
    subscriptions.wait_for([*HEALING, "healthy"], [1, 2, 3])


def dropped(server, slot: str) -> bool:
    """Drop the slot, unless its receiver has it at this moment; returns whether it is gone."""
    with contextlib.suppress(Exception):
        server.execute(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'")
        server.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    return not server.execute(f"SELECT FROM pg_replication_slots WHERE slot_name = '{slot}'")
