"""A publisher's server that answers from a script, for tests of queries without a server.

::

    server = ScriptedServer({"FROM pg_publication": [{"name": "p"}]}, version=140000)
    server.connection                    what psycopg gives, as far as the program uses it
    server.asked[0].sql                  the statements that were executed

The server refuses a statement with a name that its version does not have, as a real one does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

import psycopg
from psycopg import sql

from subscriber.publisher.connection import Connection

Row = Mapping[str, object]
"""A row by the names of its columns, in the order of the query's columns."""
Answer = Sequence[Row] | Exception | Callable[["Asked"], Sequence[Row]]

VERSIONS: Final = tuple(range(100000, 200000, 10000))
"""The first release of each major version since the oldest supported one."""

_SINCE: Final = {
    "pubtruncate": 110000, "indnkeyatts": 110000, "attmissingval": 110000, "conparentid": 110000,
    "attgenerated": 120000, "pg_partition_tree": 120000, "pg_partition_ancestors": 120000,
    "pubviaroot": 130000, "wal_status": 130000, "safe_wal_size": 130000,
    "two_phase": 140000, "inhdetachpending": 140000,
    "prqual": 150000, "prattrs": 150000, "pg_publication_namespace": 150000, "datlocprovider": 150000,
    "gpt.attrs": 150000, "gpt.qual": 150000, "rowfilter": 150000, "attnames": 150000, "indnullsnotdistinct": 150000,
    "VARIADIC array_agg": 160000,
    "pg_stat_replication_slots": 140000, "failover": 170000, "inactive_since": 170000,
    "invalidation_reason": 170000, "colllocale": 170000, "datlocale": 170000,
    "pubgencols": 180000, "conenforced": 180000, "conperiod": 180000,
    "prexcept": 190000, "puballsequences": 190000,
    "sync_table_error_count": 190000, "sync_seq_error_count": 190000,
}  # fmt: skip
"""Columns and functions, with the first version that has them (release notes of PostgreSQL)."""
_UNTIL: Final = {"sync_error_count": 190000}
"""Columns, with the first version that does not have them any more."""

_REPORTED: Final = {"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "UTC", "client_encoding": "UTF8"}
"""The settings of a session, as a server reports them."""


@dataclass(frozen=True)
class Asked:
    """A statement with its parameters."""

    sql: str
    parameters: Any


POSITIONS: Final[Mapping[str, Answer]] = {
    "lsn() END - '0/0')::int8": [{"int8": 0x500}],
    "txid_current() END": [{"txid_current": 750}],
    "t.xmin::text": [],
}
"""What is asked of the WAL around the tables, and of the transactions that have altered them."""


class Cursor:
    """The rows of an answer, as tuples."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [tuple(row.values()) for row in rows]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows[0] if self._rows else None


class ScriptedServer:
    """A server with prepared answers.

    Args:
        answers: for a part of a statement's text, the rows of the answer, the error, or a function
            that gives the rows. The first part that the statement contains counts.
        version: the server's version as libpq reports it.
        database: the name of the database.
    """

    def __init__(
        self, answers: Mapping[str, Answer] | None = None, *, version: int = 180000, database: str = "shop"
    ) -> None:
        self.answers = dict(answers or {})
        self.asked: list[Asked] = []
        self.info = SimpleNamespace(server_version=version, dbname=database, parameter_status=_REPORTED.get)
        self.broken = False

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def connection(self) -> Connection:
        """The connection to this server."""
        return cast(Connection, self)

    def execute(self, query: str | bytes | sql.Composable, parameters: Any = None) -> Cursor:
        """As psycopg's ``Connection.execute``."""
        text = query.decode() if isinstance(query, bytes) else query if isinstance(query, str) else query.as_string()
        version = self.info.server_version
        unknown = [name for name, since in _SINCE.items() if version < since]
        for name in (*unknown, *(name for name, until in _UNTIL.items() if version >= until)):
            if re.search(rf"\b{re.escape(name)}\b", text):
                raise psycopg.errors.UndefinedColumn(f"PostgreSQL {self.info.server_version // 10000} has no {name}")
        self.asked.append(Asked(text, parameters))
        if text.startswith(("SET ", "SELECT set_config")):
            return Cursor([])
        answer = next((answer for part, answer in self.answers.items() if part in text), None)
        assert answer is not None, f"no answer to: {text}"
        if isinstance(answer, Exception):
            raise answer
        return Cursor(answer(self.asked[-1]) if callable(answer) else answer)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """As psycopg's ``Connection.transaction``."""
        yield

    def answer(self, part: str, answer: Answer) -> None:
        """Answer statements that contain a text before all other answers are looked at."""
        self.answers.pop(part, None)
        self.answers = {part: answer, **self.answers}

    def statements(self, part: str) -> list[Asked]:
        """The statements that contain a text."""
        return [one for one in self.asked if part in one.sql]
