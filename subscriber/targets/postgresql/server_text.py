"""A query's result as the server writes it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from subscriber.targets.query_result import QueryResult


def read_server_text(result: sa.CursorResult[Any]) -> QueryResult:
    """All rows of a result, with the server's text of every value.

    Python values of psycopg would lose infinity and the output format of a type.
    """
    assert result.cursor is not None
    answer = result.cursor.pgresult
    encoding = result.cursor.connection.info.encoding
    columns = range(answer.nfields)
    return QueryResult(
        tuple(answer.fname(column).decode(encoding) for column in columns),
        tuple(answer.ftype(column) for column in columns),
        [
            tuple(
                None if (value := answer.get_value(row, column)) is None else value.decode(encoding)
                for column in columns
            )
            for row in range(answer.ntuples)
        ],
    )
