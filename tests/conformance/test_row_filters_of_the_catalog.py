"""Row filters made from the server's own catalogs, beside the server: no wrong answer, no exception of Python's, nothing that it refuses.

What the server says of an expression is three things: whether a publication may have it, how ``pg_get_expr`` prints it, and what it is
for each row, as ``SELECT`` computes it. What we refuse by name (0A000) is none of its business. A failure shows the expressions and the
seed, which ``SEED`` repeats; ``FILTER_SECONDS`` is how long the nested ones take in ``make soak``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest

from subscriber.errors import SubscriberError
from subscriber.publication.evaluation.operations import operation
from subscriber.publication.evaluation.rows import Rows, listed
from subscriber.publication.evaluation.simplify import simplify
from subscriber.publication.expression import analyze_filter, check_filter, filter_text, tree
from subscriber.publication.functions.forms import form_of
from subscriber.receive.publisher_tables import read_publisher_tables
from tests.catalog_filters import ROWS, Entry, Sample, Writer, entries
from tests.conftest import fresh_database

SAMPLE_SEED: Final = 14
REFUSED: Final = "ERROR 0A000"
NOT_NULL: Final = "not null"
"""All that we say of a value of a type that we cannot print."""
_AT_ONCE: Final = 200

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


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of an expression.

    Attributes:
        canonical: as ``pg_get_expr`` prints it; why it is refused, ``ERROR sqlstate``.
        rows: its value for each row, or ``ERROR sqlstate``.
    """

    canonical: str
    rows: tuple[str | None, ...] = ()


class Both:
    """A server and the subscriber, asked the same."""

    def __init__(self, connection: psycopg.Connection[Any], random: Random) -> None:
        self._connection = connection
        connection.execute("SET TimeZone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'")
        sample = Sample(random)
        connection.execute(sample.ddl.encode())
        connection.execute("CREATE PUBLICATION p")
        connection.execute(_EXAMINED)
        self._tables = read_publisher_tables(connection)
        self._table = self._tables.tables["public", "sample"]
        self._columns = {
            column: pa.array(
                [
                    text
                    for (text,) in connection.execute(
                        f"SELECT CASE WHEN {column} IS NOT NULL THEN format('%s', {column}) END FROM sample ORDER BY i".encode()
                    )
                ],
                pa.string(),
            )
            for column in sample.types
        }
        self.entries = entries(connection)
        self.writer = Writer(random, sample, self.entries)
        self.compared = self.refused = 0

    def differences(self, expressions: Sequence[str]) -> Iterator[str]:
        """Where the two differ."""
        query = (
            "SELECT ARRAY(SELECT textsend(said) FROM unnest(pg_temp.examined(one)) WITH ORDINALITY AS _(said, row) ORDER BY row)"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS _(one, place) ORDER BY place"
        )
        for begin in range(0, len(expressions), _AT_ONCE):
            some = list(expressions[begin : begin + _AT_ONCE])
            for text, (found,) in zip(some, self._connection.execute(query, [some]), strict=True):
                # Not all that a "char" is made to is text in the database's encoding.
                said = [None if one is None else one.decode(errors="surrogateescape") for one in found]
                yield from self._difference(text, Answer(said[0] or "", tuple(said[1:])))

    def _difference(self, text: str, theirs: Answer) -> Iterator[str]:
        ours = self._our_answer(text)
        if ours.canonical == REFUSED:
            self.refused += 1
        elif ours.canonical != theirs.canonical:
            yield f"{text}\n  server: {theirs.canonical}\n  ours:   {ours.canonical}"
        else:
            self.compared += len(ours.rows)
            for row, (their, our) in enumerate(zip(theirs.rows, ours.rows, strict=True)):
                if their != our and not (our == NOT_NULL and their is not None):
                    yield f"{text}\n  row {row}, server: {their}\n  row {row}, ours:   {our}"
                    return

    def _our_answer(self, text: str) -> Answer:
        written = f"({text}) IS NOT NULL"
        try:
            canonical = filter_text(analyze_filter(written, self._table, self._tables), self._tables)
        except SubscriberError as error:
            return Answer(f"ERROR {error.sqlstate}")
        except Exception as error:
            return Answer(f"EXCEPTION {error!r}")
        try:
            found = check_filter(written, self._table, self._tables)
        except SubscriberError:
            return Answer(REFUSED)
        except Exception as error:
            return Answer(f"EXCEPTION {error!r}")
        assert isinstance(found, tree.NullTest)
        return Answer(canonical, tuple(self._values(found.argument)))

    def _values(self, node: tree.Expression) -> list[str | None]:
        """Of all rows at once; where one of them raises, of each alone."""
        try:
            return self._shown(node, self._columns, ROWS)
        except _OneRaises:
            return [
                answer
                for row in range(ROWS)
                for answer in self._attempt(
                    node, {name: values.slice(row, 1) for name, values in self._columns.items()}
                )
            ]

    def _attempt(self, node: tree.Expression, columns: dict[str, pa.Array]) -> list[str | None]:
        try:
            return self._shown(node, columns, 1)
        except _OneRaises as raised:
            return [raised.answer]

    def _shown(self, node: tree.Expression, columns: dict[str, pa.Array], count: int) -> list[str | None]:
        form = form_of(node.type_oid)
        try:
            values = listed(operation(simplify(node)).evaluate(Rows(columns, count)), count)
            return [None if value is None else NOT_NULL if form is None else form.to_text(value) for value in values]
        except SubscriberError as error:
            raise _OneRaises(f"ERROR {error.sqlstate}") from None
        except Exception as error:
            raise _OneRaises(f"EXCEPTION {error!r}") from error


class _OneRaises(Exception):
    """A value cannot be computed, and this is the answer."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("SEED") or Random().randrange(10**6))


def _both(server: Any, seed: int) -> Iterator[Both]:
    for database in fresh_database(server):
        with psycopg.connect(database.conninfo, autocommit=True) as connection:
            yield Both(connection, Random(seed))


def _calls(both: Both, known: Sequence[Entry]) -> list[str]:
    return [text for entry in known for text in both.writer.calls(entry)]


def _assert_none(differences: list[str], seed: int) -> None:
    shown = "\n".join(differences[:30])
    assert not differences, f"SEED={seed}, {len(differences)} differ\n{shown}"


def test_a_sample_of_the_catalog_and_of_nested_filters_has_the_servers_answers(postgresql18):
    """B11, B23-B28; issue 14: every fourth operator, function and cast, and a thousand nested expressions."""
    for both in _both(postgresql18, SAMPLE_SEED):
        texts = _calls(both, both.entries[SAMPLE_SEED % 4 :: 4]) + [both.writer.nested() for _ in range(1000)]
        _assert_none(list(both.differences(texts)), SAMPLE_SEED)
        assert both.compared > 40_000


@pytest.mark.long
@pytest.mark.slow
def test_every_operator_function_and_cast_of_the_catalog_has_the_servers_answers(postgresql18, seed):
    """B11, B23-B28; issue 14."""
    for both in _both(postgresql18, seed):
        _assert_none(list(both.differences(_calls(both, both.entries))), seed)
        assert both.compared > 100_000


@pytest.mark.long
@pytest.mark.slow
def test_nested_operators_functions_and_casts_have_the_servers_answers(postgresql18, seed):
    """B11, B23-B28; issue 14: what one of them alone does not show."""
    end = time.monotonic() + float(os.environ.get("FILTER_SECONDS") or 120)
    for both in _both(postgresql18, seed):
        differences: list[str] = []
        while time.monotonic() < end:
            differences += both.differences([both.writer.nested() for _ in range(_AT_ONCE)])
        _assert_none(differences, seed)
        assert both.compared > 1000
