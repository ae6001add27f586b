"""Random filters: the analysis returns a tree or raises an error of the program. The tree's text
means the same as the filter.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.check_filter import analyze_filter, filter_text
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from tests.random_filters import random_filter

_TYPES = {
    "a": 23,
    "i2": 21,
    "i8": 20,
    "g": 23,
    "c": 1700,
    "f4": 700,
    "f8": 701,
    "bo": 16,
    "b": 25,
    "v": 1043,
    "bp": 1042,
    "n": 19,
    "ch": 18,
    "x": 25,
    "ta": 1009,
    "va": 1015,
    "ar": 1007,
    "d": 1082,
    "tm": 1083,
    "tsp": 1114,
    "ts": 1184,
    "iv": 1186,
    "u": 2950,
    "bt": 17,
    "bi": 1560,
    "vb": 1562,
    "inet": 869,
    "j": 3802,
}
_COLLATED = {"b": 100, "v": 100, "bp": 100, "n": 950, "x": 950, "ta": 100, "va": 100}
TABLE = PublisherTable(
    20000,
    "public",
    "t",
    "table",
    tuple(
        PublisherColumn(name, number, oid, collation=_COLLATED.get(name, 0))
        for number, (name, oid) in enumerate(_TYPES.items(), start=1)
    ),
)
TABLES = PublisherTables(180004, {TABLE.key: TABLE}, frozenset({950, 951}))


@given(st.integers(0, 2**32))
def test_the_canonical_text_of_a_filter_means_the_same(seed):
    """The text is that of ``pg_get_expr``, from which a publication is imported. It is analysed
    twice, because at first a sign and its number become one constant.
    """
    text = random_filter(Random(seed))
    try:
        canonical = filter_text(analyze_filter(text, TABLE, TABLES), TABLES)
    except SubscriberError:
        return
    once = filter_text(analyze_filter(canonical, TABLE, TABLES), TABLES)
    twice = filter_text(analyze_filter(once, TABLE, TABLES), TABLES)
    assert once.replace("(", "").replace(")", "") == twice.replace("(", "").replace(")", "")


@given(st.text(alphabet=" ab1'\"()[].,:=<>-+*/|&$EUXt\n\\_~%", max_size=30))
def test_any_text_is_analysed_or_refused(text):
    """Only errors of the program are raised."""
    try:
        analyze_filter(text, TABLE, TABLES)
    except SubscriberError:
        pass
