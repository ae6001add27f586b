"""The answers of a server and of the subscriber to the same row filters. An answer has three parts:
whether a publication may have the filter, how ``pg_get_expr`` prints it, and its value for each
row. Tests compare the subscriber's answers with those of a running server, and with those that
:mod:`tests.recordings.record_filters` has recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from unittest.mock import patch

import psycopg
import pyarrow as pa

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze import tree, typeinfo
from subscriber.postgres.expressions.analyze.typeinfo import checked_constant
from subscriber.postgres.expressions.check_filter import analyze_filter, check_filter, filter_text
from subscriber.postgres.expressions.evaluate.operations import operation
from subscriber.postgres.expressions.evaluate.row_values import FrameRows, listed
from subscriber.postgres.expressions.evaluate.simplify import simplify
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.postgres.types.registry import form_of
from subscriber.publisher.catalog_tables import read_publisher_tables
from tests.catalog_filters import Sample, Writer, entries

REFUSED: Final = "ERROR 0A000"
NOT_NULL: Final = "not null"
"""The answer for a value whose text the subscriber does not compute: it is not NULL."""
_AT_ONCE: Final = 50

_EXAMINED: Final = """
CREATE FUNCTION pg_temp.examined(expression text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE canonical text; answer text; answers text[] := '{}'; row int;
    shown text := 'CASE WHEN x IS NULL THEN NULL ELSE format(''%s'', x) END';
    computed text := '(SELECT i, (' || expression || ') AS x FROM sample OFFSET 0) AS _';
BEGIN
    BEGIN
        EXECUTE 'ALTER PUBLICATION p SET TABLE sample WHERE ((' || expression || ') IS NOT NULL)';
        SELECT pg_get_expr(prqual, prrelid) INTO canonical FROM pg_publication_rel;
    EXCEPTION WHEN OTHERS THEN
        RETURN ARRAY['ERROR ' || SQLSTATE];
    END;
    BEGIN
        EXECUTE 'SELECT array_agg(' || shown || ' ORDER BY i) FROM ' || computed INTO answers;
        RETURN canonical || answers;
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    FOR row IN SELECT i FROM sample ORDER BY i LOOP
        BEGIN
            EXECUTE 'SELECT ' || shown || ' FROM ' || replace(computed, 'FROM sample', 'FROM sample WHERE i = ' || row) INTO answer;
        EXCEPTION WHEN OTHERS THEN
            answer := 'ERROR ' || SQLSTATE;
        END;
        answers := answers || answer;
    END LOOP;
    RETURN canonical || answers;
END $$
"""
_ANSWERS: Final = """
SELECT ARRAY(SELECT textsend(said) FROM unnest(pg_temp.examined(one)) WITH ORDINALITY AS _(said, row) ORDER BY row)
  FROM unnest(%s::text[]) WITH ORDINALITY AS _(one, place) ORDER BY place
"""


@contextmanager
def _unread_constants() -> Iterator[list[tree.Const]]:
    """Collect the constants whose type the subscriber does not read, as the analysis meets them."""
    unread: list[tree.Const] = []

    def check(node: tree.Const, major: int) -> tree.Const:
        if form_of(node.type_oid) is None:
            unread.append(node)
        return checked_constant(node, major)

    with patch.object(typeinfo, "checked_constant", check):
        yield unread


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to an expression.

    Attributes:
        canonical: as ``pg_get_expr`` prints it; why it is refused, ``ERROR sqlstate``.
        rows: its value for each row, or ``ERROR sqlstate``.
    """

    canonical: str
    rows: tuple[str | None, ...] = ()


@dataclass(slots=True)
class OurAnswers:
    """The subscriber's answers to filters of one table.

    Attributes:
        table: the table.
        tables: all of the publisher's.
        columns: the table's values, as text, by the names of the columns.
        rows: how many rows the columns have.
        compared: how many values were compared by :meth:`differences_from`.
        refused: how many filters and values the subscriber alone refused by name (0A000).
    """

    table: PublisherTable
    tables: PublisherTables
    columns: Mapping[str, pa.Array]
    rows: int
    compared: int = 0
    refused: int = 0

    def differences_from(self, theirs: Answer, text: str) -> Iterator[str]:
        """The differences from a server's answer. An expression that the subscriber refuses counts
        as equal.
        """
        ours = self.answer(text)
        if ours.canonical == REFUSED:
            self.refused += theirs.canonical != REFUSED
        elif ours.canonical != theirs.canonical:
            yield f"{text}\n  server: {theirs.canonical}\n  ours:   {ours.canonical}"
        else:
            self.compared += len(ours.rows)
            for row, (their, our) in enumerate(zip(theirs.rows, ours.rows, strict=True)):
                # Whether a pattern from a column is a basic regular expression of POSIX depends on
                # its value.
                if our == REFUSED:
                    self.refused += their != REFUSED
                    continue
                if their != our and not (our == NOT_NULL and their is not None):
                    yield f"{text}\n  row {row}, server: {their}\n  row {row}, ours:   {our}"
                    return

    def answer(self, text: str) -> Answer:
        """The subscriber's answer to ``(text) IS NOT NULL``, and the values of ``text``."""
        written = f"({text}) IS NOT NULL"
        try:
            with _unread_constants() as unread:
                canonical = filter_text(analyze_filter(written, self.table, self.tables), self.tables)
        except SubscriberError as error:
            # The server may have refused a constant that comes first, and that we cannot read.
            return Answer(REFUSED if unread else f"ERROR {error.sqlstate}")
        except Exception as error:
            return Answer(f"EXCEPTION {error!r}")
        try:
            found = check_filter(written, self.table, self.tables)
        except SubscriberError:
            return Answer(REFUSED)
        except Exception as error:
            return Answer(f"EXCEPTION {error!r}")
        assert isinstance(found, tree.NullTest)
        return Answer(canonical, tuple(self._values(found.argument)))

    def _values(self, node: tree.Expression) -> list[str | None]:
        """The values of all rows at once. If one of them raises an error, each row is computed
        separately.
        """
        try:
            return self._shown(node, self.columns, self.rows)
        except _OneRaises:
            return [
                answer
                for row in range(self.rows)
                for answer in self._attempt(node, {name: values.slice(row, 1) for name, values in self.columns.items()})
            ]

    def _attempt(self, node: tree.Expression, columns: dict[str, pa.Array]) -> list[str | None]:
        try:
            return self._shown(node, columns, 1)
        except _OneRaises as raised:
            return [raised.answer]

    def _shown(self, node: tree.Expression, columns: Mapping[str, pa.Array], count: int) -> list[str | None]:
        form = form_of(node.type_oid)
        try:
            version, collations = self.tables.server_version, self.tables.collations
            computed = operation(simplify(node, version, collations), version, collations)
            values = listed(computed.evaluate(FrameRows(dict(columns), count)), count)
            return [None if value is None else NOT_NULL if form is None else form.to_text(value) for value in values]
        except SubscriberError as error:
            raise _OneRaises(f"ERROR {error.sqlstate}") from None
        except Exception as error:
            raise _OneRaises(f"EXCEPTION {error!r}") from error


class _OneRaises(Exception):
    """A value cannot be computed; this is the answer."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


class Both:
    """A server and the subscriber, which are asked for the values of the same expressions over one
    table.

    Args:
        connection: a session of the server.
        ddl: makes the table ``sample`` and fills it. Its column ``i`` numbers the rows.
        columns: the other columns.
    """

    def __init__(self, connection: psycopg.Connection[Any], ddl: str, columns: Iterable[str]) -> None:
        self._connection = connection
        connection.execute("SET TimeZone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'")
        connection.execute("SET statement_timeout = '3s'")
        connection.execute(ddl.encode())
        connection.execute("CREATE PUBLICATION p")
        connection.execute(_EXAMINED)
        tables = read_publisher_tables(connection)
        texts = {
            column: pa.array(
                [
                    text
                    for (text,) in connection.execute(
                        f"SELECT CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END FROM sample ORDER BY i".encode()
                    )
                ],
                pa.string(),
            )
            for column in columns
        }
        rows = len(next(iter(texts.values())))
        self.ours = OurAnswers(tables.tables["public", "sample"], tables, texts, rows)

    def differences(self, expressions: Sequence[str]) -> Iterator[str]:
        """The differences between the two answers."""
        for begin in range(0, len(expressions), _AT_ONCE):
            for text, theirs in self.server_answers(expressions[begin : begin + _AT_ONCE]):
                yield from self.ours.differences_from(theirs, text)

    def server_answers(self, texts: Sequence[str]) -> list[tuple[str, Answer]]:
        """The server's answers, without expressions that take too long, such as repeated texts of a
        gigabyte.
        """
        try:
            rows = self._connection.execute(_ANSWERS, [list(texts)]).fetchall()
        except psycopg.errors.QueryCanceled:
            half = len(texts) // 2
            return [] if half == 0 else self.server_answers(texts[:half]) + self.server_answers(texts[half:])
        # Some texts of "char" are not valid in the database's encoding.
        said = [[None if one is None else one.decode(errors="surrogateescape") for one in found] for (found,) in rows]
        return [(text, Answer(one[0] or "", tuple(one[1:]))) for text, one in zip(texts, said, strict=True)]


class OfCatalog(Both):
    """Both, with a table of the edge values of every type, and the entries of the server's
    catalogs.
    """

    def __init__(self, connection: psycopg.Connection[Any], random: Random) -> None:
        self.sample = Sample(random)
        super().__init__(connection, self.sample.ddl, self.sample.types)
        self.entries = entries(connection)
        self.writer = Writer(random, self.sample, self.entries)
