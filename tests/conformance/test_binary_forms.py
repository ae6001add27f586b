"""types.binary_forms against real servers: how the receive function of one type reads another
type's binary format (C5, D7).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
import pytest
from psycopg.pq.abc import PGconn

from subscriber.postgres.types.binary_forms import NO_FORM, READ_BY, TEXT_FORM, reads_form, refusal
from subscriber.postgres.types.oids import BUILT_IN_TYPES, ELEMENT_TYPES, type_name
from subscriber.postgres.types.registry import family_of
from subscriber.targets import open_target
from subscriber.targets.postgresql.catalog import PostgreSQLColumn
from subscriber.testing.servers.postgresql_server import PostgreSQL
from tests.conformance.test_types_against_postgresql import EDGES, SESSION
from tests.conftest import fresh_database

pytestmark = pytest.mark.server

WORDS = ("1", "t", "12:00", "{}", "<a/>", "abcd", "12345678", "0/1", "{1}", "2024-01-01", f'{{"a": "{"x" * 64}"}}')
"""Texts that are valid for other types, too, if their bytes are, or that are longer than a name may
be.
"""
SENT = tuple(oid for oid in sorted(BUILT_IN_TYPES - ELEMENT_TYPES.keys()) if family_of(oid).reads_binary)
"""Types whose values a binary stream sends in binary format; arrays have a separate test."""
COLUMNS = (*(oid for oid in SENT if oid not in (1042, 1043, 1790)), 790, 1033, 2205)
"""These types, with one type for all texts, and some other types that a column may have: money, a
type without a binary format, a ``reg…`` type.
"""


class Answer(NamedTuple):
    """A value as text, or the SQLSTATE and the message of the error."""

    value: bytes | None
    error: tuple[str, str] | None = None


class Asker:
    """Sends values to a server as parameters, which are read by the same functions as those of the
    stream.

    Args:
        publisher: a session as that of the stream, which is at UTC.
        subscriber: a session in another zone.
    """

    def __init__(self, publisher: psycopg.Connection, subscriber: psycopg.Connection) -> None:
        self._publisher = publisher.pgconn
        self._subscriber = subscriber.pgconn
        self._forms: dict[tuple[int, str], tuple[bytes, bytes] | None] = {}

    def _ask(self, session: PGconn, type_oid: int, value: bytes, *, binary: bool, result: bool = False) -> Answer:
        answer = session.exec_params(b"SELECT $1", [value], [type_oid], [int(binary)], int(result))
        if answer.status == psycopg.pq.ExecStatus.TUPLES_OK:
            return Answer(answer.get_value(0, 0))
        code, message = (
            (answer.error_field(field) or b"").decode()
            for field in (psycopg.pq.DiagnosticField.SQLSTATE, psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)
        )
        return Answer(None, (code, message.replace(" in bind parameter 1", " in logical replication column 1")))

    def forms(self, type_oid: int, text: str) -> tuple[bytes, bytes] | None:
        """The binary format and the text of a value; None if this server has no such value."""
        if (type_oid, text) not in self._forms:
            sent = text.encode()
            binary, again = (
                self._ask(self._publisher, type_oid, sent, binary=False, result=form) for form in (True, False)
            )
            values = binary.value, again.value
            self._forms[type_oid, text] = None if values[0] is None or values[1] is None else (values[0], values[1])
        return self._forms[type_oid, text]

    def received(self, type_oid: int, binary: bytes) -> Answer:
        return self._ask(self._subscriber, type_oid, binary, binary=True)

    def read(self, type_oid: int, text: bytes) -> Answer:
        return self._ask(self._subscriber, type_oid, text, binary=False)


@contextmanager
def retry_with_column_defaults(server: PostgreSQL) -> Iterator[Asker]:
    with (
        psycopg.connect(server.conninfo(options=SESSION), autocommit=True) as publisher,
        psycopg.connect(server.conninfo(options=f"{SESSION} -c timezone=Asia/Tokyo"), autocommit=True) as subscriber,
    ):
        yield Asker(publisher, subscriber)


@pytest.fixture
def asker(postgresql: PostgreSQL) -> Iterator[Asker]:
    with retry_with_column_defaults(postgresql) as one:
        yield one


@pytest.fixture
def asker18(postgresql18: PostgreSQL) -> Iterator[Asker]:
    with retry_with_column_defaults(postgresql18) as one:
        yield one


def samples(asker: Asker, type_oid: int) -> list[tuple[bytes, bytes]]:
    texts = EDGES[type_name(type_oid)] + (WORDS if reads_form(TEXT_FORM, type_oid) else ())
    return [forms for text in texts if (forms := asker.forms(type_oid, text)) is not None]


def test_what_is_read_as_the_input_function_reads_its_text_is_the_same_value(asker):
    """C5: for every pair of the table and every value, both ways give the same value, or both an
    error.
    """
    different = [
        (type_name(sent), type_name(column), text)
        for sent, columns in READ_BY.items()
        for column in columns - {sent}
        for binary, text in samples(asker, sent)
        if asker.received(column, binary).value != asker.read(column, text).value
    ]
    assert different == []


def test_of_every_other_pair_some_value_is_another_or_is_refused_as_we_refuse_it(asker18):
    """C5: the table lacks no pair. PostgreSQL 18 refuses with the same text and SQLSTATE if the
    length alone decides.
    """
    missing, otherwise = [], []
    for sent in SENT:
        values = samples(asker18, sent)[::-1]
        for column in COLUMNS:
            if not values or reads_form(column, sent):
                continue
            said = refusal(column, sent, type_name(column), 1)
            answers = ((asker18.received(column, binary), text) for binary, text in values)
            told = (one for one, text in answers if one.error or one.value != asker18.read(column, text).value)
            found = next(told, None)
            if found is None:
                missing.append((type_name(sent), type_name(column)))
            elif said.sqlstate != "22P03" and found.error not in (said[::-1], OUT_OF_RANGE.get(column)):
                otherwise.append((type_name(sent), type_name(column), found.error, said))
    assert missing == []
    assert otherwise == []


OUT_OF_RANGE = {1266: ("22008", "time out of range")}
"""Errors that occur before the end of the bytes."""


def test_arrays_are_read_by_columns_of_the_same_type_only(asker):
    """C5: the bytes contain the type of the elements; text and varchar are different types here."""
    types = (1007, 1016, 1009, 1015, 1231)
    for sent in types:
        forms = asker.forms(sent, "{1,2}")
        assert forms is not None
        for column in set(types) - {sent}:
            assert not reads_form(column, sent)
            assert asker.received(column, forms[0]).error == refusal(column, sent, type_name(column), 1)[::-1]


def test_a_domain_reads_its_base_and_a_type_of_ones_own_what_it_is_made_of(postgresql):
    """C5: enums and extensions' texts (such as citext) have the form of text; what has no receive
    function has none.
    """
    for database in fresh_database(postgresql):
        database.execute(
            "CREATE TYPE mood AS ENUM ('fine'); CREATE DOMAIN small AS int2 CHECK (VALUE > 0); CREATE DOMAIN smaller AS small;"
            "CREATE DOMAIN moods AS mood[]; CREATE TYPE pair AS (a int); CREATE TYPE words; CREATE TYPE mute;"
            "CREATE FUNCTION words_in(cstring) RETURNS words AS 'textin' LANGUAGE internal IMMUTABLE STRICT;"
            "CREATE FUNCTION words_out(words) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;"
            "CREATE FUNCTION words_recv(internal) RETURNS words AS 'textrecv' LANGUAGE internal STABLE STRICT;"
            "CREATE TYPE words (INPUT = words_in, OUTPUT = words_out, RECEIVE = words_recv);"
            "CREATE FUNCTION mute_in(cstring) RETURNS mute AS 'textin' LANGUAGE internal IMMUTABLE STRICT;"
            "CREATE FUNCTION mute_out(mute) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;"
            "CREATE TYPE mute (INPUT = mute_in, OUTPUT = mute_out);"
            "CREATE TABLE t (mood mood, words words, smaller smaller, mute mute, stamp timestamp(3), code varchar(3), moods moods, pair pair)"
        )
        oids = dict(database.execute("SELECT typname::text, oid::int8 FROM pg_type WHERE typname IN ('_mood', 'pair')"))
        with open_target(database.url) as target, target.begin() as connection:
            table = target.shapes.reflect(connection, "public", "t")
        assert table is not None
        columns = [column for column in table.columns if isinstance(column, PostgreSQLColumn)]
        assert {column.name: column.binary_form for column in columns} == {
            "mood": TEXT_FORM, "words": TEXT_FORM, "smaller": 21, "mute": NO_FORM, "stamp": 1114, "code": 1043,
            "moods": oids["_mood"], "pair": oids["pair"],
        }  # fmt: skip
        assert refusal(NO_FORM, TEXT_FORM, "mute", 1) == ("no binary input function available for type mute", "42883")
