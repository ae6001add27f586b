"""Integers of any length: a number with many digits is out of range with PostgreSQL's message, and
never too long for Python (issue 14, item 12).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subscriber.base import failpoints
from subscriber.base.digits import digits_of, parse_int
from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.lsn import parse_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.subscription_options import OPTIONS
from subscriber.commands.subscription_grammar import parse
from subscriber.postgres.expressions.check_filter import check_filter
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables

MANY = "9" * 5000
"""More digits than Python's int() reads."""
_TYPES = {"i": 23, "b": 20, "n": 1700, "f": 701, "t": 25, "j": 3802, "o": 26, "v": 1186, "a": 1007}
T = PublisherTable(
    16384,
    "public",
    "t",
    "table",
    tuple(
        PublisherColumn(name, number, oid, collation=950 if oid == 25 else 0)
        for number, (name, oid) in enumerate(_TYPES.items(), start=1)
    ),
)
KNOWN = PublisherTables(180000, {T.key: T}, frozenset({950}))


def outcome(call: Callable[[], object]) -> str:
    """What becomes of what a user wrote: it is taken, or refused with an SQLSTATE."""
    try:
        call()
    except SubscriberError as error:
        return error.sqlstate
    return "taken"


def test_an_integer_of_any_length_is_read_and_written():
    assert digits_of(parse_int(MANY)) == MANY
    assert digits_of(parse_int("-" + MANY)) == "-" + MANY
    assert parse_int("f" * 5000, 16) == 16**5000 - 1
    with pytest.raises(ValueError, match="invalid literal"):
        parse_int("9x")


FILTERS = {
    "i = {}": "taken",
    "i = -{}": "taken",
    "i = 0x{}": "taken",
    "n = {}.5": "taken",
    "n = '{}'": "taken",
    "n = '1e{}'": "22003",
    "i = '{}'": "22003",
    "i = '{}x'": "22003",
    "b = '-{}'": "22003",
    "o = '{}'": "22003",
    "o = '{}x'": "22003",
    "f = '{}'": "22003",
    "v = '{} days'": "22007",
    "v = 'P{}Y'": "22007",
    "a = '[{}:1]={{1}}'": "54000",
    "a = '{{{}}}'": "22003",
    "a = '{{1}}'::int4[{}]": "42601",
    "n::numeric({}) = 1": "22003",
    "t::varchar({}) = 'a'": "42601",
    "f::float({}) = 1": "42601",
    "v = interval({}) '1'": "42601",
    "v = interval '1' second({})": "42601",
    "i IN ({}, 1)": "taken",
    "i = ${}": "42601",
    "t ~ '(a)\\{}'": "taken",
    "t ~ 'a{{{}}}'": "taken",
    "j #> '{{{}}}' IS NULL": "taken",
}


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_with_a_number_of_many_digits_is_accepted_or_refused_as_by_the_server(text):
    assert outcome(lambda: check_filter(text.format(MANY), T, KNOWN)) == FILTERS[text]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", [MANY, "-" + MANY, f"'{MANY}'", "0x" + "f" * 5000, MANY + ".5", "1e" + MANY])
def test_an_option_with_a_number_of_many_digits_is_accepted_or_refused_with_postgresqls_message(name, value):
    sql = f"CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p WITH ({name} = {value})"
    assert outcome(lambda: parse(sql)) in {"taken", "42601", "22023", "42622"}


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        (f"CREATE SUBSCRIPTION {MANY} CONNECTION '' PUBLICATION p", "42601"),
        (f"CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION {MANY}", "42601"),
        (f"ALTER SUBSCRIPTION s SKIP (lsn = {MANY})", "taken"),
        (f"ALTER SUBSCRIPTION s SET (slot_name = {MANY})", "taken"),
        (f"CREATE PUBLICATION p FOR TABLE t ({MANY})", "42601"),
        (f"CREATE PUBLICATION p WITH (publish = {MANY})", "taken"),
        (f"DROP SUBSCRIPTION {MANY}", "42601"),
    ],
)
def test_a_command_with_a_number_of_many_digits_is_parsed_or_a_syntax_error(sql, sqlstate):
    assert outcome(lambda: parse(sql)) == sqlstate


@pytest.mark.parametrize(
    "read",
    [
        lambda: Settings.from_environment({"SUBSCRIBER_SEGMENT_BYTES": MANY}),
        lambda: failpoints.parse(f"{min(failpoints.FAILPOINTS)}=kill@x"),
        lambda: parse_lsn(f"{MANY}/0"),
    ],
)
def test_numbers_of_many_digits_in_settings_failpoints_and_lsns_are_refused(read):
    with pytest.raises(UsageError):
        read()
