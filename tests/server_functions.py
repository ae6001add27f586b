"""Calls the same function in a server and in the subscriber. The arguments are texts, and so are
both answers.

An answer is the result as the type's output function prints it, None for NULL, ``ERROR sqlstate``,
or ``REFUSED`` for what the subscriber does not compute.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import psycopg
import pyarrow as pa

from subscriber.base.errors import NotSupportedError, SubscriberError
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.expressions.functions.function_table import Context
from subscriber.postgres.types.datetimes import timezones
from subscriber.postgres.types.datetimes.timezones import zone_of_file
from subscriber.postgres.types.registry import form_of

REFUSED: Final = "REFUSED"

_ATTEMPT: Final = """
CREATE OR REPLACE FUNCTION pg_temp.attempt(statement text, arguments text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE statement INTO answer USING arguments;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN 'ERROR ' || SQLSTATE;
END $$
"""
_SIGNATURES: Final = """
SELECT proname || '(' || coalesce((SELECT string_agg(typname, ',' ORDER BY place)
           FROM unnest(proargtypes) WITH ORDINALITY AS argument(type, place) JOIN pg_type ON pg_type.oid = argument.type), '') || ')',
       proname, provariadic <> 0, provolatile, proisstrict, prokind, proretset
  FROM pg_proc WHERE oid < 16384
"""

Row = tuple[str | None, ...]


@contextmanager
def zones_of(server: Any) -> Iterator[bool]:
    """Inside, time zones are read from the server's files and not from the package ``tzdata``,
    because releases of the tz database differ.

    Yields whether the files are on this machine. If they are not, nothing is changed.
    """
    ((shared,),) = server.execute("SELECT setting FROM pg_config WHERE name = 'SHAREDIR'")
    own = Path(shared) / "timezone"
    folder = own if own.is_dir() else Path("/usr/share/zoneinfo")
    if not folder.is_dir():
        yield False
        return
    try:
        with patch.object(timezones, "_zone_of", lambda name: zone_of_file((folder / name).read_bytes())):
            timezones.zone_named.cache_clear()
            yield True
    finally:
        timezones.zone_named.cache_clear()


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A function's row in ``pg_proc``."""

    name: str
    is_variadic: bool
    volatility: str
    is_strict: bool
    kind: str
    returns_set: bool


class Server:
    """A session of a server, with the settings of a replication session."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute("SET TimeZone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'")
        connection.execute(_ATTEMPT)
        self.built_ins = {row[0]: BuiltIn(*row[1:]) for row in connection.execute(_SIGNATURES)}
        self._oids: dict[str, int] = {}

    @property
    def major(self) -> int:
        """The server's major version: 15, 16 or 18."""
        return self._connection.info.server_version // 10000

    def oid(self, type_name: str) -> int:
        """The OID of a type."""
        if type_name not in self._oids:
            row = self._connection.execute("SELECT %s::regtype::oid::int8", [type_name]).fetchone()
            assert row is not None
            self._oids[type_name] = row[0]
        return self._oids[type_name]

    def ask(self, expression: str, rows: Sequence[Row]) -> list[str | None]:
        """Answers to an expression in which ``{0}``, ``{1}`` … stand for the arguments, which are
        texts.
        """
        written = expression.format(*(f"($1)[{place + 1}]" for place in range(len(rows[0]))))
        statement = (
            "SELECT CASE WHEN answer IS NULL THEN NULL ELSE format('%s', answer) END"
            f" FROM (SELECT {written} AS answer OFFSET 0) AS _"
        )
        query = (
            "SELECT pg_temp.attempt(%s, ARRAY(SELECT jsonb_array_elements_text(arguments)))"
            " FROM jsonb_array_elements(%s) WITH ORDINALITY AS _(arguments, place) ORDER BY place"
        )
        return [row[0] for row in self._connection.execute(query, [statement, json.dumps(rows)])]

    def call(self, signature: str, types: Sequence[str], rows: Sequence[Row]) -> list[str | None]:
        """Answers of a function to arguments of these types."""
        function = self.built_ins[signature]
        arguments = [f"{{{place}}}::{name}" for place, name in enumerate(types)]
        if function.is_variadic:
            arguments[-1] = f"VARIADIC {arguments[-1]}"
        return self.ask(f'pg_catalog."{function.name}"({", ".join(arguments)})', rows)

    def result_type(self, signature: str, types: Sequence[str]) -> int:
        """The OID of the result for arguments of these types."""
        function = self.built_ins[signature]
        arguments = [f"NULL::{name}" for name in types]
        if function.is_variadic:
            arguments[-1] = f"VARIADIC {arguments[-1]}"
        # The query is described and not run, because some functions raise an error for NULL.
        query = f'SELECT pg_catalog."{function.name}"({", ".join(arguments)})'
        prepared = self._connection.pgconn.prepare(b"", query.encode())
        assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, prepared.error_message
        return self._connection.pgconn.describe_prepared(b"").ftype(0)


@contextmanager
def open_session(conninfo: str) -> Iterator[Server]:
    """A session of the server to compare with."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield Server(connection)


def _attempt(call: Any) -> tuple[Any, str | None]:
    """The value and no answer, or no value and the error as an answer."""
    try:
        return call(), None
    except NotSupportedError as error:
        return None, REFUSED if error.sqlstate == "0A000" else f"ERROR {error.sqlstate}"
    except SubscriberError as error:
        return None, f"ERROR {error.sqlstate}"


def read(type_oid: int, text: str | None, modifier: int = -1) -> tuple[Any, str | None]:
    """The value of a text and no answer, or no value and the error as an answer."""
    form = form_of(type_oid)
    assert form is not None, type_oid
    return (None, None) if text is None else _attempt(lambda: form.from_text(text, modifier))


def show(type_oid: int, value: Any) -> str | None:
    """A value as an answer."""
    form = form_of(type_oid)
    assert form is not None, type_oid
    return None if value is None else form.to_text(value)


def our_answers(server: Server, signature: str, types: Sequence[str], rows: Sequence[Row]) -> list[str | None]:
    """The answers of the subscriber's implementation to arguments of these types."""
    implementation = FUNCTIONS.get(signature)
    assert implementation is not None, signature
    oids, result = [server.oid(name) for name in types], server.result_type(signature, types)
    context = [Context(tuple(oids), result, server.major * 10000)] if implementation.context else []
    forms = [form_of(oid) for oid in oids]
    answers: list[str | None] = []
    for row in rows:
        read_row = [read(oid, text) for oid, text in zip(oids, row, strict=True)]
        error = next((error for _, error in read_row if error), None)
        if error is not None:
            answers.append(error)
            continue
        values = [value for value, _ in read_row]
        if implementation.vectorised:
            columns = [pa.array([value], form and form.arrow) for value, form in zip(values, forms, strict=True)]
            found, error = _attempt(lambda columns=columns: implementation.function(*context, *columns)[0].as_py())
        elif implementation.strict and None in values:
            found = None
        else:
            found, error = _attempt(lambda values=values: _specialised(implementation, context, values))
        answers.append(error or show(result, found))
    return answers


def _specialised(implementation: Any, context: list[Context], values: list[Any]) -> Any:
    """Call the function with all arguments as constants. Most filters have constants where that
    matters.
    """
    if implementation.specialise is not None:
        implementation = implementation.for_constants(dict(enumerate(values)))
    return implementation.function(*context, *values)


def differences(server: Server, signature: str, types: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Each row for which the answers differ, with both answers. A row that the subscriber refuses
    differs, unless the server refuses it as unsupported (0A000) too.
    """
    theirs = server.call(signature, types, rows)
    ours = our_answers(server, signature, types, rows)
    return [
        f"{signature}{row}: the server answers {their}, the subscriber {our}"
        for row, their, our in zip(rows, theirs, ours, strict=True)
        if our != their and not (our == REFUSED and their == "ERROR 0A000")
    ]
