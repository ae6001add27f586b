"""Days, dates and their text: the calendar agrees with Python's, and a column of texts is read as
its single texts are.
"""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes import date_values
from subscriber.postgres.types.datetimes.date_values import DATE_LIMITS, TIMESTAMP_LIMITS
from subscriber.postgres.types.registry import form_of

EPOCH = date(2000, 1, 1)
days = st.one_of(st.integers(*DATE_LIMITS), st.integers(-730_000, 730_000))
moments = st.one_of(st.integers(*TIMESTAMP_LIMITS), st.integers(-(10**15), 10**15))


@given(days)
def test_the_date_of_a_day_has_that_day(day):
    year, month, day_of_month = date_values.civil(day)
    assert date_values.day_number(year, month, day_of_month) == day
    assert 1 <= day_of_month <= date_values.month_length(year, month)


@given(st.dates())
def test_the_calendar_agrees_with_pythons_in_pythons_range(one):
    day = (one - EPOCH).days
    assert date_values.civil(day) == (one.year, one.month, one.day)
    assert date_values.weekday(day) == one.weekday()
    assert date_values.iso_week(day) == one.isocalendar()[:2]


@pytest.mark.parametrize(
    ("form", "values", "infinities"),
    [
        (form_of(1082), days, date_values.DATE_INFINITIES),
        (form_of(1114), moments, date_values.TIMESTAMP_INFINITIES),
        (form_of(1184), moments, date_values.TIMESTAMP_INFINITIES),
    ],
    ids=["date", "timestamp", "timestamptz"],
)
@given(data=st.data())
def test_a_column_of_texts_is_read_as_single_texts_are(form, values, infinities, data):
    """Arrow reads ordinary values, and all others are read one by one. The printed text reads as
    the same value.
    """
    some = data.draw(st.lists(st.one_of(st.none(), values, st.sampled_from(infinities)), max_size=6))
    texts = [None if one is None else form.to_text(one) for one in some]
    assert form.from_texts(pa.array(texts, pa.string())).equals(pa.array(some, form.arrow))
    assert [None if text is None else form.from_text(text, -1) for text in texts] == some
