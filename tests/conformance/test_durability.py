"""A warning names a target that may lose committed changes, because the journal is trimmed after a
commit (invariant slot_after_disk).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from subscriber.base.settings import Settings
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import CreateSubscription, DropSubscription, parse
from tests.crash.harness import Runner
from tests.target_databases import applied_to

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false, slot_name = NONE)"
FLUSHED = "innodb_flush_log_at_trx_commit"


@contextmanager
def flushing(server, value: int) -> Iterator[None]:
    """Change the server's setting for the duration of the block."""
    ((before,),) = server.execute(f"SELECT @@GLOBAL.{FLUSHED}")
    server.execute(f"SET GLOBAL {FLUSHED} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {FLUSHED} = {before}")


@pytest.mark.parametrize("value", [0, 1, 2, 3])
def test_mariadb_is_asked_when_it_flushes_its_log(value, mariadb, request, tmp_path):
    with applied_to("mariadb", request, tmp_path) as on, flushing(mariadb, value):
        found = [(one.message, one.hint) for one in on.target.transactions.durability_warnings()]
    if value == 1:
        assert found == []
        return
    ((message, hint),) = found
    assert f"its {FLUSHED} is {value}" in message
    assert hint.startswith(f"Run SET GLOBAL {FLUSHED} = 1 ")


def test_create_subscription_says_so_and_carries_on(mariadb, request, tmp_path):
    """There is no warning for a scenario's database, which is temporary"""

    def warned(flushed: int) -> list[str]:
        said: list[str] = []
        with flushing(mariadb, flushed):
            for command in (CREATE, "DROP SUBSCRIPTION s"):
                parsed = parse(command)
                assert isinstance(parsed, CreateSubscription | DropSubscription)
                run_command(on.target, parsed, Settings(str(tmp_path)), said.append)
        return [text for text in said if "lose committed changes" in text]

    with applied_to("mariadb", request, tmp_path) as on:
        on.execute("DELETE FROM subscriber_replication_origin_status")
        (warning,) = warned(2)
        assert warning.startswith("WARNING:  the target may lose committed changes in a crash")
        assert "\nHINT:  Run SET GLOBAL" in warning
        assert warned(1) == []
        on.target.is_throwaway = True
        assert warned(2) == []


@pytest.mark.spark
def test_run_says_so_once(mariadb, tmp_path):
    name = f"durable_{os.getpid()}"
    mariadb.create_database(name)
    runner = Runner(mariadb.url(name), tmp_path)
    try:
        with flushing(mariadb, 2):
            warned = runner.once()
        with flushing(mariadb, 1):
            silent = runner.once()
    finally:
        runner.close()
        mariadb.drop_database(name)
    # There is no subscription, so --once does not succeed.
    assert (warned.returncode, silent.returncode) == (1, 1), warned.stderr + silent.stderr
    assert warned.stderr.count(f"its {FLUSHED} is 2") == 1
    assert FLUSHED not in silent.stderr


def test_postgresql_is_asked_whether_it_syncs(postgresql18, request, tmp_path):
    ((fsync,),) = postgresql18.execute("SHOW fsync")
    with applied_to("postgresql", request, tmp_path) as on:
        found = [one.message for one in on.target.transactions.durability_warnings()]
    assert ["fsync is off" in message for message in found] == ([True] if fsync == "off" else [])


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_files_are_synced_by_us(kind, request, tmp_path):
    """SQLite syncs by a setting of the program's connections, whatever the library's default is;
    DuckDB has no such setting
    """
    with applied_to(kind, request, tmp_path) as on:
        assert list(on.target.transactions.durability_warnings()) == []
        if kind == "sqlite":
            assert on.execute("PRAGMA synchronous") == [(2,)]
