"""The subscriptions and emulated publications of a target, kept in it: pg_subscription, pg_publication and their neighbours for any database.

Progress and statistics are two more tables of the catalog: apply moves them with the data, so it defines them
(:mod:`subscriber.apply.progress`).

Every function works in the caller's transaction and leaves the database's own errors to the target's boundary. Names are looked
up exactly as they are stored: the grammar has folded them.
"""

from __future__ import annotations

from subscriber.subscription.catalog.publications import (
    delete_publication,
    find_publication,
    get_publication,
    insert_publication,
    list_publications,
    owners_of_publications,
    rename_publication,
    replace_publication,
)
from subscriber.subscription.catalog.relations import (
    CatchUpProgress,
    RelationState,
    SubscriptionRelation,
    advance_relation,
    delete_relation,
    record_relation_error,
    relations_of,
    set_relation_state,
)
from subscriber.subscription.catalog.statistics import record_error, statistics_of
from subscriber.subscription.catalog.subscriptions import (
    Subscription,
    TwoPhaseState,
    check_map,
    delete_subscription,
    find_subscription,
    get_subscription,
    insert_subscription,
    list_subscriptions,
    publisher_tables,
    rename_subscription,
    set_connection,
    set_enabled,
    set_options,
    set_publications,
    set_publisher_tables,
    set_skip_lsn,
    set_system_identifier,
    set_two_phase_state,
)
from subscriber.subscription.catalog.tables import (
    CATALOG,
    PUBLICATION,
    PUBLICATION_NAMESPACE,
    PUBLICATION_REL,
    SUBSCRIPTION,
    SUBSCRIPTION_REL,
    ensure_catalog,
)

__all__ = [
    "CATALOG",
    "PUBLICATION",
    "PUBLICATION_NAMESPACE",
    "PUBLICATION_REL",
    "SUBSCRIPTION",
    "SUBSCRIPTION_REL",
    "CatchUpProgress",
    "RelationState",
    "Subscription",
    "SubscriptionRelation",
    "TwoPhaseState",
    "advance_relation",
    "check_map",
    "delete_publication",
    "delete_relation",
    "delete_subscription",
    "ensure_catalog",
    "find_publication",
    "find_subscription",
    "get_publication",
    "get_subscription",
    "insert_publication",
    "insert_subscription",
    "list_publications",
    "list_subscriptions",
    "owners_of_publications",
    "publisher_tables",
    "record_error",
    "record_relation_error",
    "relations_of",
    "rename_publication",
    "rename_subscription",
    "replace_publication",
    "set_connection",
    "set_enabled",
    "set_options",
    "set_publications",
    "set_publisher_tables",
    "set_relation_state",
    "set_skip_lsn",
    "set_system_identifier",
    "set_two_phase_state",
    "statistics_of",
]
