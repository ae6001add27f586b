"""Input functions: what is refused, with which error, and that no error shows what was read."""

from __future__ import annotations

from functools import cmp_to_key

import pytest

from subscriber.errors import DataException, NotSupportedError, SubscriberError
from subscriber.types import form_of
from subscriber.types.array_text import Array
from subscriber.types.datetimes.intervals import Interval
from subscriber.types.json import Jsonb, order

DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ = 1082, 1083, 1114, 1184, 1186, 1266
UUID, JSON, JSONB, INET, CIDR, MACADDR, MACADDR8 = 2950, 114, 3802, 869, 650, 829, 774
INTEGERS, TEXTS, UUIDS, JSONS, JSONBS = 1007, 1009, 2951, 199, 3807


def read(oid: int, text: str, modifier: int = -1):
    form = form_of(oid)
    assert form is not None
    return form.from_text(text, modifier)


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (DATE, "today"),
        (TIMESTAMP, "now"),
        (TIME, "now"),
        (TIMESTAMPTZ, "2024-01-01 10:00:00 localtime"),
        (TIMETZ, "10:11 MSK"),
        (CIDR, "10.1"),
        (INET, "1.2.3/24"),
        (MACADDR, "08002b:010203"),
        (MACADDR8, "08002b0102030405"),
    ],
)
def test_a_notation_that_is_not_read_is_refused_with_what_to_write(oid, text):
    """B27, refuse_not_guess: such a constant may mean something else at the publisher."""
    with pytest.raises(NotSupportedError) as caught:
        read(oid, text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("oid", "text", "shown"),
    [
        (DATE, "January 8, 1999", "1999-01-08"),
        (DATE, "1/8/1999", "1999-01-08"),
        (DATE, "08-Jan-99", "1999-01-08"),
        (DATE, "19990108", "1999-01-08"),
        (DATE, "990108", "1999-01-08"),
        (DATE, "1999.008", "1999-01-08"),
        (DATE, "J2451187", "1999-01-08"),
        (DATE, "January 8, 99 BC", "0099-01-08 BC"),
        (DATE, "3/1/69", "2069-03-01"),
        (TIME, "040506.789", "04:05:06.789"),
        (TIME, "12:30 AM", "00:30:00"),
        (TIME, "allballs", "00:00:00"),
        (TIME, "2003-04-12 04:05:06 America/New_York", "04:05:06"),
        (TIMETZ, "04:05:06 PST", "04:05:06-08"),
        (TIMETZ, "2003-07-12 04:05:06 America/New_York", "04:05:06-04"),
        (TIMESTAMP, "Jan-8-1999 4:05 PM", "1999-01-08 16:05:00"),
        (TIMESTAMP, "20011225T040506.789-07", "2001-12-25 04:05:06.789"),
        (TIMESTAMP, "20240101 259900", "2024-01-02 02:39:00"),
        (TIMESTAMPTZ, "Fri Feb 7 15:23:27 1997 PST", "1997-02-07 23:23:27+00"),
        (TIMESTAMPTZ, "2024-03-31 02:30 europe/berlin", "2024-03-31 01:30:00+00"),
        (TIMESTAMPTZ, "2024-07-01 12:00 MET DST", "2024-07-01 10:00:00+00"),
        (TIMESTAMPTZ, "epoch", "1970-01-01 00:00:00+00"),
    ],
)
def test_the_usual_spellings_of_dates_and_times_are_read(oid, text, shown):
    """B27: with DateStyle ISO, MDY."""
    form = form_of(oid)
    assert form is not None
    assert form.to_text(read(oid, text)) == shown


@pytest.mark.parametrize(
    ("oid", "text", "sqlstate"),
    [
        (DATE, "13/8/1999", "22008"),
        (DATE, "99-Jan-08", "22008"),
        (DATE, "8 x", "22007"),
        (DATE, "msk 2024-01-01", "22007"),
        (DATE, "1 " * 30, "22007"),
        (TIME, "13:00 PM", "22008"),
        (TIME, "today", "22007"),
        (TIME, "04:05 Europe/Berlin", "22007"),
        (TIMESTAMP, "2024-01-01 America/Nowhere", "22023"),
        (TIMESTAMPTZ, "2024-01-01 10:00 +99", "22009"),
        (TIMESTAMPTZ, "2024-01-01 y", "22007"),
    ],
)
def test_what_is_no_date_or_time_has_the_servers_sqlstate(oid, text, sqlstate):
    with pytest.raises(DataException) as caught:
        read(oid, text)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize(
    "oid",
    [DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ, UUID, JSON, JSONB, INET, CIDR, MACADDR, MACADDR8, UUIDS],
)
@pytest.mark.parametrize(
    "text", ["secret", "{secret}", "secret 1984-13-45", '{"secret": 1984', "1984.1.2.3/1984", "1984-13-45"]
)
def test_no_error_shows_what_was_read(oid, text):
    """Invariant names_are_data: the same functions read the values of rows."""
    with pytest.raises(SubscriberError) as caught:
        read(oid, text)
    assert "secret" not in caught.value.report()
    assert "1984" not in caught.value.report()


@pytest.mark.parametrize(
    ("oid", "text", "sqlstate", "message", "quoting"),
    [
        (16, "maybe", "22P02", "invalid input syntax for type boolean", 'invalid input syntax for type boolean: "maybe"'),
        (21, "9x", "22P02", "invalid input syntax for type smallint", 'invalid input syntax for type smallint: "9x"'),
        (21, "99999x", "22003", "value is out of range for type smallint", 'value "99999x" is out of range for type smallint'),
        (26, "-2147483649", "22003", "value is out of range for type oid", 'value "-2147483649" is out of range for type oid'),
        (700, "1e39x", "22003", "value is out of range for type real", '"1e39" is out of range for type real'),
        (701, "1_0", "22P02", "invalid input syntax for type double precision", 'invalid input syntax for type double precision: "1_0"'),
        (1700, "1..2", "22P02", "invalid input syntax for type numeric", 'invalid input syntax for type numeric: "1..2"'),
        (1560, "b012", "22P02", "invalid binary digit in a bit string", '"2" is not a valid binary digit'),
        (DATE, "8 x", "22007", "invalid input syntax for type date", None),
    ],
)  # fmt: skip
def test_only_who_wrote_a_text_is_shown_it(oid, text, sqlstate, message, quoting):
    """B26, names_are_data: the message is for logs, PostgreSQL's own with the text for who wrote
    it.
    """
    with pytest.raises(DataException) as caught:
        read(oid, text)
    assert (caught.value.sqlstate, caught.value.message, caught.value.quoting) == (sqlstate, message, quoting)


@pytest.mark.parametrize(
    ("text", "written"),
    [("0e200000", "0"), ("-0.00e5", "0"), ("0.00e1", "0.0"), ("0e-2", "0.00"), ("0e1073741823", "0"), ("-0", "0")],
)
def test_zero_may_have_any_exponent(text, written):
    """C5: a numeric has no digits too many where all digits are zero."""
    form = form_of(1700)
    assert form is not None
    assert form.to_text(read(1700, text)) == written


@pytest.mark.parametrize("text", ["0e1073741824", "1e131072", "0e-16384", "1e-16384"])
def test_a_numeric_that_does_not_fit_is_an_overflow(text):
    with pytest.raises(DataException, match="value overflows numeric format") as caught:
        read(1700, text)
    assert caught.value.sqlstate == "22003"


@pytest.mark.parametrize("oid", [DATE, TIMESTAMP, TIMESTAMPTZ])
def test_behind_the_last_field_that_a_date_may_have_stands_nothing_but_blanks(oid):
    """``ParseDateTime``: a comma needs no field, but room for one."""
    fields = "2024-01-01" + " at" * 24
    assert read(oid, f"{fields}  ") == read(oid, "2024-01-01")
    assert read(oid, f"{fields[:-3]} ,") == read(oid, "2024-01-01")
    with pytest.raises(DataException) as caught:
        read(oid, f"{fields} ,")
    assert caught.value.sqlstate == "22007"


@pytest.mark.parametrize(
    ("text", "modifier", "value"),
    [
        ("1", 4 << 16 | 0xFFFF, Interval(12, 0, 0)),
        ("1", 1024 << 16 | 0xFFFF, Interval(0, 0, 3_600_000_000)),
        ("1 2:03", 2048 << 16 | 0xFFFF, Interval(0, 1, 7_380_000_000)),
        ("1:2.5", 6144 << 16 | 0, Interval(0, 0, 63_000_000)),
        ("1.5 years 2 months", -1, Interval(20, 0, 0)),
        ("1 mon -1 days ago", -1, Interval(-1, 1, 0)),
        ("P1Y2M3DT4H5M6.5S", -1, Interval(14, 3, 14_706_500_000)),
    ],
)
def test_an_interval_is_read_by_the_fields_of_its_type(text, modifier, value):
    assert read(INTERVAL, text, modifier) == value


def test_of_equal_keys_the_last_one_counts_and_the_shorter_ones_come_first():
    document = read(JSONB, '{"bb": 1, "c": 2, "a": 3, "c": 4}')
    assert list(document.value.items()) == [("a", 3), ("c", 4), ("bb", 1)]


def test_documents_are_in_the_servers_order():
    """``compareJsonbContainers``: by type, then by length, then by what is in them; an empty array
    comes before all else.
    """
    written = [
        "[]",
        "null",
        '"a"',
        '"b"',
        "1",
        "2",
        "false",
        "true",
        "[0]",
        '["b"]',
        "[1]",
        "[[]]",
        "[1, 0]",
        "{}",
        '{"b": 1}',
        '{"a": 1, "b": 0}',
        '{"a": 1, "b": 1}',
    ]
    expected = [
        "[]",
        "null",
        '"a"',
        '"b"',
        "1",
        "2",
        "false",
        "true",
        '["b"]',
        "[0]",
        "[1]",
        "[[]]",
        "[1, 0]",
        "{}",
        '{"b": 1}',
        '{"a": 1, "b": 0}',
        '{"a": 1, "b": 1}',
    ]
    documents = [read(JSONB, text).value for text in written]
    ordered = sorted(documents, key=cmp_to_key(order))
    assert ordered == [read(JSONB, text).value for text in expected]


def test_a_null_of_json_is_a_value():
    assert read(JSONB, "null") == Jsonb(None)
    assert read(JSONB, "null") is not None


def test_a_document_that_is_nested_too_deeply_is_refused():
    for oid in (JSON, JSONB):
        with pytest.raises(NotSupportedError, match="nested"):
            read(oid, "[" * 100_000 + "]" * 100_000)


def test_an_array_keeps_its_shape_and_bounds():
    assert read(INTEGERS, "[0:1][2:3]={{1,NULL},{3,4}}") == Array((2, 2), (0, 2), (1, None, 3, 4))
    assert read(TEXTS, '{"a b",NULL,"NULL"}') == Array((3,), (1,), ("a b", None, "NULL"))
    assert read(INTEGERS, "{{},{}}") == Array((), (), ())


def test_an_arrays_modifier_is_that_of_its_elements():
    timestamps = read(1115, '{"2024-01-01 00:00:00.6"}', 0)
    assert timestamps.elements == (read(TIMESTAMP, "2024-01-01 00:00:01"),)


@pytest.mark.parametrize("oid", [JSONS, JSONBS])
def test_arrays_of_json_have_no_form(oid):
    """Their order is not known here, and a filter that needs it must be refused when it is
    given.
    """
    assert form_of(oid) is None


def test_an_element_that_cannot_be_read_has_its_types_error():
    with pytest.raises(DataException) as caught:
        read(INTEGERS, "{1,x}")
    assert caught.value.sqlstate == "22P02"
