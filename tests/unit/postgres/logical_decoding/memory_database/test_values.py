"""The types and values of the MemoryDatabase."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest

from subscriber.base.errors import DataException, SQLSyntaxError, UsageError
from subscriber.postgres.logical_decoding.heap_tuples import Datum
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.memory_tables import Toasted, base_type, datum, resolve_type
from subscriber.postgres.protocol.messages import NULL
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from tests.type_samples import ARRAYS, SAMPLES, array_of


@pytest.fixture(scope="module")
def publisher() -> MemoryDatabase:
    made = MemoryDatabase()
    made.session().create_enum("mood")
    made.session().create_domain("other.positive", "numeric(5,1)")
    return made


@pytest.mark.parametrize(
    ("text", "oid", "modifier", "name"),
    [
        ("int4", 23, -1, "integer"),
        ("numeric(10,2)", 1700, (10 << 16 | 2) + 4, "numeric(10,2)"),
        ("character varying(5)", 1043, 9, "character varying(5)"),
        ("text[]", 1009, -1, "text[]"),
        ("mood", 16384, -1, "mood"),
        ("mood[]", 16385, -1, "mood[]"),
        ("other.positive", 16386, -1, "other.positive"),
    ],
)
def test_a_type_is_found_by_its_name(publisher, text, oid, modifier, name):
    assert resolve_type(text, publisher.catalog.tables) == (oid, modifier, name)


@pytest.mark.parametrize("text", ["nothing", "nothing[]", "positive"])
def test_a_type_that_does_not_exist_is_postgresqls_error(publisher, text):
    with pytest.raises(UsageError, match=r"does not exist$") as caught:
        resolve_type(text, publisher.catalog.tables)
    assert caught.value.sqlstate == "42704"


def test_a_text_that_is_not_a_type_is_a_syntax_error(publisher):
    with pytest.raises(SQLSyntaxError):
        resolve_type("1", publisher.catalog.tables)


def test_a_domain_has_the_base_type_of_its_definition(publisher):
    assert base_type(16386, publisher.catalog.tables) == 1700
    assert base_type(23, publisher.catalog.tables) == 23


@pytest.mark.parametrize(
    ("value", "oid", "text"),
    [
        (1, 23, b"1"),
        (True, 16, b"t"),
        (1.5, 701, b"1.5"),
        (0.1, 700, b"0.1"),
        (b"\x01\xff", 17, b"\\x01ff"),
        (Decimal("1.50"), 1700, b"1.50"),
        (UUID(int=1), 2950, b"00000000-0000-0000-0000-000000000001"),
        ("ö", 25, "ö".encode()),
    ],
)
def test_a_value_of_python_has_the_text_of_the_output_function(value, oid, text):
    made = datum(value, oid)
    assert isinstance(made, Datum)
    assert made.text == text
    assert not made.external


def test_null_and_values_out_of_line():
    assert datum(None, 23) is NULL
    assert datum(Toasted("x"), 25) == Datum(b"x", b"x", external=True)


@pytest.mark.parametrize("value", [object(), [1], {"a": 1}])
def test_a_value_that_cannot_be_written_is_refused_without_the_value(value):
    """names_are_data."""
    with pytest.raises(UsageError, match=f"type {type(value).__name__}$"):
        datum(value, 25)


@pytest.mark.parametrize("name", ["boolean", "numeric", "date", "interval", "inet", "integer[]", "int4range", "jsonb"])
def test_the_binary_form_is_that_of_the_send_function(publisher, name):
    """A11: the samples are those of the decoders, which are compared with the server."""
    text, binary, _ = {**SAMPLES, **ARRAYS}[name]
    oid, _, _ = resolve_type(name, publisher.catalog.tables)
    assert datum(text.decode(), oid) == Datum(text, binary)


@pytest.mark.parametrize(("name", "text"), [("money", "$1.00"), ("regclass", "t"), ("aclitem", "=r/postgres")])
def test_a_type_whose_send_function_needs_the_catalogs_has_no_binary_form(name, text):
    """A12."""
    oid = next(oid for oid in BUILT_IN_TYPES if type_name(oid) == name)
    assert datum(text, oid) == Datum(text.encode())


def test_a_value_that_is_written_in_an_unusual_way_has_no_binary_form():
    """A sign inside an address is not read here, though the server reads it."""
    assert datum("08-00-2b-01-02-+3", 829) == Datum(b"08-00-2b-01-02-+3")


def test_a_text_that_is_not_a_value_is_refused_without_the_text():
    """names_are_data."""
    with pytest.raises(DataException, match="invalid input syntax for type integer") as caught:
        datum("secret", 23)
    assert "secret" not in caught.value.report()


def test_values_of_user_defined_types_have_the_form_of_their_base_type(publisher):
    """A11: an enum is its label, an array has the OID of its elements' own type."""
    tables = publisher.catalog.tables
    mood, moods = (resolve_type(name, tables)[0] for name in ("mood", "mood[]"))
    assert datum("ok", mood, tables) == Datum(b"ok", b"ok")
    array = datum("{ok,NULL}", moods, tables)
    assert isinstance(array, Datum)
    assert array.binary == array_of(mood, (b"ok", None), (2, 1))
