"""The optional role ``prepared``: what is prepared shows to nobody until another connection commits
it (rules C49, C50).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.base.errors import ApplyError
from subscriber.targets.base.transactions import Prepared
from tests.targets.tables import created, insert, shape_of, stored

SHAPE = shape_of({"a": "integer", "b": "text"}, ["a"])


@pytest.fixture
def prepared(target) -> Iterator[Prepared]:
    if target.prepared is None:
        pytest.skip("it has no prepared transactions")
    created(target, SHAPE)
    yield target.prepared
    for gid in names(target):
        target.prepared.finish(gid, commit=False)


def names(target):
    with target.engine.connect() as connection:
        return target.prepared.names(connection)


def prepare(target, gid: str, *row: str) -> None:
    with target.prepared.begin(gid) as connection:
        insert(target, connection, SHAPE, row)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "rollback"])
def test_what_is_prepared_waits_for_its_verdict(target, prepared, commit):
    prepare(target, "pg_gid_1_1", "1", "one")
    assert (names(target), stored(target, SHAPE)) == ({"pg_gid_1_1"}, [])
    prepared.finish("pg_gid_1_1", commit=commit)
    assert (names(target), stored(target, SHAPE)) == (frozenset(), [("1", "one")] if commit else [])


def test_a_block_that_raises_prepares_nothing(target, prepared):
    with pytest.raises(InterruptedError), prepared.begin("pg_gid_1_1") as connection:
        insert(target, connection, SHAPE, ("1", "one"))
        raise InterruptedError
    assert (names(target), stored(target, SHAPE)) == (frozenset(), [])


def test_a_name_that_is_not_there_is_an_error(target, prepared):
    for commit in (True, False):
        with pytest.raises(ApplyError, match='"absent" does not exist') as raised:
            prepared.finish("absent", commit=commit)
        assert raised.value.sqlstate == "42704"


def test_a_name_that_is_in_use_is_an_error(target, prepared):
    prepare(target, "pg_gid_1_1", "1", "one")
    with pytest.raises(ApplyError, match="already in use") as raised:
        prepare(target, "pg_gid_1_1", "2", "two")
    assert raised.value.sqlstate == "42710"
    with target.engine.connect() as connection:
        assert prepared.free_gid(connection, "pg_gid_1_2") == "pg_gid_1_2"
