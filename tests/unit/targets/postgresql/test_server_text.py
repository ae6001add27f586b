from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import sqlalchemy as sa

from subscriber.targets.postgresql.server_text import read_server_text


class _Result:
    """A result of libpq: names, type OIDs and texts of its columns."""

    def __init__(self, columns: dict[str, int], *rows: tuple[bytes | None, ...]) -> None:
        self._columns, self._rows = columns, rows
        self.nfields, self.ntuples = len(columns), len(rows)

    def fname(self, column: int) -> bytes:
        return [*self._columns][column].encode("latin1")

    def ftype(self, column: int) -> int:
        return [*self._columns.values()][column]

    def get_value(self, row: int, column: int) -> bytes | None:
        return self._rows[row][column]


def test_a_result_is_read_as_the_servers_text():
    """In the connection's encoding; psycopg's Python values have no infinity for a date."""
    answer = _Result({"é": 1082, "b": 25}, (b"infinity", "ü".encode("latin1")), (None, b""))
    connection = SimpleNamespace(info=SimpleNamespace(encoding="latin1"))
    cursor: Any = SimpleNamespace(cursor=SimpleNamespace(pgresult=answer, connection=connection))
    result = read_server_text(cast("sa.CursorResult[Any]", cursor))
    assert result.rows == [("infinity", "ü"), (None, "")]
    assert (result.names, result.type_oids) == (("é", "b"), (1082, 25))
