"""The names and settings of a snapshot's session; the rest needs a server
(tests/conformance/test_copy.py).
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from subscriber.base.errors import UsageError
from subscriber.publisher.snapshot import _kept_alive, _slot_name, _without_timeouts


@given(st.text(max_size=80))
def test_every_subscription_has_a_valid_slot_name_of_its_own(name):
    assert re.fullmatch("pg_[a-z0-9_]*_sync_[0-9a-f]{16}", _slot_name(name))
    assert len(_slot_name(name)) < 64
    assert _slot_name(name) != _slot_name(name)


@pytest.mark.parametrize(("version", "count"), [(100000, 3), (140000, 4), (169999, 4), (170000, 5)])
def test_only_timeouts_that_the_server_has_are_switched_off(version, count):
    assert len(_without_timeouts(version)) == count


def test_keepalives_are_the_users_where_he_has_set_them():
    assert conninfo_to_dict(_kept_alive("host=h"))["keepalives_idle"] == "60"
    assert conninfo_to_dict(_kept_alive("postgresql://h/d?keepalives_idle=5"))["keepalives_idle"] == "5"


def test_an_unreadable_connection_string_is_not_repeated():
    """names_are_data"""
    with pytest.raises(UsageError) as raised:
        _kept_alive("password=geheim nonsense")
    assert "geheim" not in raised.value.report()
