"""subscription.rules: what the catalog says holds from the next batch on (rule C39)."""

from __future__ import annotations

import pytest

from subscriber import catalog
from subscriber.catalog import RelationState, SubscriptionRelation
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.runtime.catalog_rules import BatchRules, CatchUpRules
from subscriber.schema.relation_names import SAME_NAMES, parse_names
from subscriber.targets import open_target

RELATION = SubscriptionRelation("public", "t", RelationState.FINISHEDCOPY, None)


@pytest.mark.parametrize("make", [BatchRules, lambda one: CatchUpRules(one, RELATION, None)], ids=["batch", "catch-up"])
def test_map_schema_changes_and_binary_are_read_in_the_batchs_transaction(tmp_path, make):
    """A table that catches up is written where the stream's are, so that its rows are not in two
    tables.
    """
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as target:
        catalog.ensure_catalog(target.engine)
        with target.begin() as connection:
            subscription = catalog.insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s"))
            rules = make(subscription)
            before = rules(connection)
            names = parse_names("public.* => archive.*")
            options = {"map": names, "schema_changes": "add_columns", "binary": True}
            catalog.set_options(connection, subscription.subid, options)
            after = rules(connection)
    assert (before.names, before.add_columns, before.binary) == (SAME_NAMES, False, False)
    assert (after.names, after.add_columns, after.binary) == (names, True, True)
