"""After any history of writes by one connection, the states that another connection keeps are those
that it would read.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.errors import ProgressConflict, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import (
    delete_subscription,
    insert_subscription,
    list_subscriptions,
    set_enabled,
    set_skip_lsn,
)
from subscriber.catalog.table_states import (
    CachedStates,
    RelationState,
    advance_relation,
    delete_relations,
    read_states,
    record_relation_error,
    relations_of,
    set_relation_states,
)
from subscriber.targets import Target, open_target

pytestmark = pytest.mark.slow

NAMES = ("s", "u")
TABLES = ("a", "b", "c")

names, subids = st.sampled_from(NAMES), st.integers(1, 2)
tables = st.lists(st.tuples(st.just("public"), st.sampled_from(TABLES)), max_size=3, unique=True)
states, lsns = st.sampled_from(RelationState), st.integers(1, 3).map(LSN)
writes = st.one_of(
    st.tuples(st.just("create"), names),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("enable"), names, st.booleans()),
    st.tuples(st.just("skip"), subids, lsns),
    st.tuples(st.just("set"), subids, tables, states, lsns),
    st.tuples(st.just("delete"), subids, tables),
    st.tuples(st.just("advance"), subids, st.sampled_from(TABLES), states, lsns),
    st.tuples(st.just("error"), subids, st.sampled_from(TABLES)),
)
transactions = st.tuples(st.lists(writes, min_size=1, max_size=4), st.booleans())
"""Writes, and whether they are committed."""
histories = st.lists(st.one_of(transactions, st.just("read")), max_size=12)


def write(connection, what, *arguments) -> None:
    match what, *arguments:
        case "create", name:
            insert_subscription(connection, name, "", ["p"], SubscriptionOptions(slot_name=name))
        case "drop", name:
            delete_subscription(connection, name)
        case "enable", name, enabled:
            set_enabled(connection, name, enabled=enabled)
        case "skip", subid, lsn:
            set_skip_lsn(connection, subid, lsn)
        case "set", subid, changed, state, lsn:
            set_relation_states(connection, subid, changed, state, lsn)
        case "delete", subid, changed:
            delete_relations(connection, subid, changed)
        case "advance", subid, name, state, lsn:
            for one in relations_of(connection, subid):
                if one.name == name:
                    advance_relation(connection, subid, one, state, lsn)
        case "error", subid, name:
            record_relation_error(connection, subid, "public", name, "ERROR:  no")


def is_consistent(target: Target, kept: CachedStates) -> bool:
    with target.engine.connect() as connection:
        return all(
            kept.read(connection, one) == read_states(connection, one.subid) for one in list_subscriptions(connection)
        )


@settings(max_examples=60)
@given(histories)
def test_kept_states_equal_the_states_in_the_catalog(history):
    with TemporaryDirectory() as folder, open_target(f"sqlite:///{Path(folder) / 'target.db'}") as target:
        ensure_catalog(target.engine)
        with target.begin() as connection:
            write(connection, "create", "s")
        kept = CachedStates()
        for step in (*history, "read"):
            if step == "read":
                assert is_consistent(target, kept)
                continue
            changes, commits = step
            with target.begin() as connection:
                for change in changes:
                    try:
                        write(connection, *change)
                    except (UsageError, ProgressConflict):
                        pass  # a subscription of this name exists already, or does not exist
                if not commits:
                    connection.rollback()
