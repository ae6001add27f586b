"""A server that only records what it is asked: a fake of PEP 249's connection and cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import sqlalchemy as sa

_LEVEL: Final = "READ COMMITTED"
_QUERIES: Final = ("SELECT", "SHOW", "WITH", "XA RECOVER")
"""How statements begin that have a result, even if it has no rows."""


@dataclass
class RecordedServer:
    """What a server was asked, and what it answers.

    Attributes:
        answers: for a part of a statement, its rows, the error that it raises, or a function that
            returns the rows. A statement without an answer returns no rows.
        statements: the statements in their order, with their parameters in place. CONNECT, COMMIT,
            ROLLBACK and CLOSE stand for the functions of the driver's connection.
        info: attributes of the driver's connection.
        warning_count: PyMySQL's number of warnings of each statement.
        copied: what psycopg's COPY has written.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    warning_count: int = 0
    copied: list[bytes] = field(default_factory=list)

    def engine(self, url: str) -> sa.Engine:
        """An engine whose connections lead to this server."""
        engine = sa.create_engine(url, creator=lambda: _Connection(self), pool_reset_on_return=None, _initialize=False)
        engine.dialect.default_isolation_level = _LEVEL
        return engine

    def asked(self, statement: str) -> Sequence[Mapping[str, Any]]:
        """Record a statement, and answer it."""
        self.statements.append(statement)
        for part, answer in self.answers.items():
            if part in statement:
                if isinstance(answer, BaseException):
                    raise answer
                rows: Sequence[Mapping[str, Any]] = answer() if callable(answer) else answer
                return rows
        return []


class _Connection:
    closed = broken = False  # psycopg's attributes

    def __init__(self, server: RecordedServer) -> None:
        self._server = server
        server.statements.append("CONNECT")

    def __getattr__(self, name: str) -> Any:
        try:
            return self._server.info[name]
        except KeyError:
            raise AttributeError(name) from None

    def cursor(self, *_: object, **__: object) -> _Cursor:
        return _Cursor(self._server)

    def autocommit(self, value: bool) -> None:
        """PyMySQL's function; psycopg has an attribute of this name."""

    def commit(self) -> None:
        self._server.asked("COMMIT")

    def rollback(self) -> None:
        self._server.asked("ROLLBACK")

    def close(self) -> None:
        self._server.statements.append("CLOSE")


class _Cursor:
    arraysize, rowcount, lastrowid = 1, -1, None

    def __init__(self, server: RecordedServer) -> None:
        self._server = server
        self.warning_count = server.warning_count
        self._rows: list[tuple[Any, ...]] = []
        self.description: list[tuple[Any, ...]] | None = None

    def execute(self, statement: str, parameters: Any = None) -> _Cursor:
        if isinstance(parameters, Mapping) and parameters:
            statement = statement % {name: repr(value) for name, value in parameters.items()}
        elif parameters:
            statement = statement % tuple(map(repr, parameters))
        rows = self._server.asked(statement)
        names = [*rows[0]] if rows else ["column"] if statement.startswith(_QUERIES) else []
        self.description = [(name, *[None] * 6) for name in names] or None
        self._rows = [tuple(row.values()) for row in rows]
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    @contextmanager
    def copy(self, command: bytes) -> Iterator[SimpleNamespace]:
        """psycopg's function."""
        self._server.asked(command.decode())
        yield SimpleNamespace(write=self._server.copied.append)
        self._server.asked("END OF COPY")

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass
