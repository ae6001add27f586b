"""What the catalog says holds from the next batch on (rule C39)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import PublicationsChanged
from subscriber.base.lsn import LSN
from subscriber.catalog.subscriptions import set_options, set_skip_lsn, take_up_slot
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.worker.catalog_rules import BatchRules, CatchUpRules
from tests.frames import relation as shape
from tests.subscriptions import create_subscription, set_state, stored_subscription

RELATION = SubscriptionRelation("public", "t", RelationState.FINISHEDCOPY, None)


@pytest.mark.parametrize(
    "make", [BatchRules, lambda one: CatchUpRules(one, [RELATION], None)], ids=["batch", "catch-up"]
)
def test_map_schema_changes_and_binary_are_read_in_the_batchs_transaction(target, make):
    """A table that catches up is written where the stream's are, so that its rows are not in two
    tables.
    """
    subscription = create_subscription(target)
    rules = make(subscription)
    with target.begin() as connection:
        before = rules(connection)
        names = parse_names("public.* => archive.*")
        options: dict[str, Any] = {"map": names, "schema_changes": "add_columns", "binary": True}
        set_options(connection, subscription.subid, options)
        after = rules(connection)
    assert before.options == subscription.options
    assert after.options == replace(subscription.options, **options)


def test_changes_count_from_the_position_where_a_table_joined(target):
    """C4, D5: the state is read in the batch's own transaction."""
    read_rules = BatchRules(create_subscription(target))
    set_state(target, "ready", RelationState.READY, 300)
    set_state(target, "joined", RelationState.SYNCDONE, 300)
    set_state(target, "copied", RelationState.FINISHEDCOPY, 10)
    with target.engine.connect() as connection:
        rules = read_rules(connection)
    wanted = {
        name: [lsn for lsn in (299, 300, 301) if rules.should_apply(shape(f"public.{name}", {"a": "int4"}), LSN(lsn))]
        for name in ("ready", "joined", "copied", "unknown")
    }
    assert wanted == {"ready": [299, 300, 301], "joined": [300, 301], "copied": [], "unknown": []}


def test_the_catalogs_skip_lsn_is_cleared_in_the_batchs_transaction(target):
    """C41"""
    read_rules = BatchRules(create_subscription(target, synchronous_commit="local"))
    with target.begin() as connection:
        set_skip_lsn(connection, 1, LSN(7))
        rules = read_rules(connection)
        assert (rules.skip_lsn, rules.options.synchronous_commit) == (7, "local")
        rules.clear_skip(connection)
    assert stored_subscription(target).skip_lsn == 0


@pytest.mark.parametrize(
    "make", [BatchRules, lambda one: CatchUpRules(one, [RELATION], None)], ids=["batch", "catch-up"]
)
def test_no_batch_of_the_old_worker_is_applied_after_the_slot_was_recreated(target, make):
    """slot_after_disk: the progress has moved to the beginning of the new slot."""
    subscription = create_subscription(target)
    rules = make(subscription)
    with target.begin() as connection:
        rules(connection)
        take_up_slot(connection, subscription.subid)
        with pytest.raises(PublicationsChanged, match="the slot or the publications"):
            rules(connection)
