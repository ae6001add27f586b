"""Time zones in filters: those that need no time zone file."""

from __future__ import annotations

import pytest

import subscriber.publication.functions  # noqa: F401 - registers the functions
from subscriber.errors import NotSupportedError
from subscriber.publication.functions.registry import implementation_of

PLACES = {
    "timezone(text,timestamp)": 0,
    "timezone(text,timestamptz)": 0,
    "date_trunc(text,timestamptz,text)": 2,
}


@pytest.fixture(params=PLACES)
def implementation(request):
    found = implementation_of(request.param)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "EST", "MET", "EST5EDT", "UTC+3", "<+03>-3", "+123", "localtime", ""]
)
def test_a_named_zone_is_refused_when_the_filter_is_given(implementation, zone):
    """B27, refuse_not_guess: what it means is in the server's files."""
    with pytest.raises(NotSupportedError) as caught:
        implementation.for_constants({PLACES[implementation.signature]: zone})
    assert caught.value.hint


def test_a_zone_from_a_column_is_refused_when_the_filter_is_given(implementation):
    """It could be any."""
    with pytest.raises(NotSupportedError, match="not a constant"):
        implementation.for_constants({})


@pytest.mark.parametrize("zone", ["UTC", "gmt", "+02", "-08:30", "5:45", None])
def test_utc_offsets_and_null_are_computed(implementation, zone):
    assert implementation.for_constants({PLACES[implementation.signature]: zone}) is implementation
