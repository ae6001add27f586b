"""The ``subscriber_*`` tables of a target, and every write to them: the equivalent of
pg_subscription, pg_publication and related catalogs, for any database.

- ``own_tables`` defines the tables and creates them; ``column_types`` has their column types;
  ``existing_catalog`` reads them without creating anything.
- Subscriptions: ``subscriptions`` and ``subscription_options``; ``table_states`` of their tables;
  ``catalog_version`` with the versions that show whether a cached reading is still valid.
- Emulated publications: ``publications``, and ``kept_publishing`` with the definitions and tables
  by which a subscription evaluates them.
- Written while changes are applied: ``progress``, ``statistics``, ``conflicts`` and
  ``conflict_kinds``, ``logical_messages``, ``prepared_transactions``, ``relation_shapes`` and
  ``schema_changes``. ``row_numbers`` numbers the rows of some of them.
- Written by commands and workers: ``apply_holds``, ``cutovers``, ``released_slots``, ``runner``,
  ``schema_differences``, ``worker_status``.

Commands write the subscriptions and publications. Commands and table synchronization write the
table states. Each batch reads them first, and then :mod:`subscriber.apply` writes the progress and
the other rows with the data. Decisions are made elsewhere: :mod:`subscriber.apply` decides what to
apply, and :mod:`subscriber.positions` determines where a slot begins.

Every function works in the caller's transaction. The target translates the database's errors. Names
are looked up exactly as they are stored, because the grammar has already folded them.
"""

from __future__ import annotations

from subscriber.catalog.apply_holds import (
    ApplyHold,
    HoldState,
    bind_hold,
    delete_hold,
    delete_stale_hold,
    find_hold,
    insert_hold,
    note_paused,
    note_reached,
    read_holds,
    renew_hold,
)
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.catalog.conflicts import KEPT_ROWS, ConflictLog, ConflictRecord
from subscriber.catalog.existing_catalog import existing_catalog, existing_subscription, missing_catalog
from subscriber.catalog.own_tables import (
    CATALOG,
    CONTROL,
    PUBLICATION,
    PUBLICATION_NAMESPACE,
    PUBLICATION_REL,
    RELEASED_SLOT,
    RUNNER,
    SCHEMA_DIFFERENCE,
    SUBSCRIPTION,
    SUBSCRIPTION_REL,
    SUBSCRIPTION_STATS,
    ensure_catalog,
    has_catalog,
    is_own_table,
    target_identifier,
)
from subscriber.catalog.prepared_transactions import PreparedTransaction
from subscriber.catalog.progress import OriginProgress, Progress
from subscriber.catalog.publications import (
    delete_publication,
    find_publication,
    get_publication,
    insert_publication,
    list_publications,
    owners_of_publications,
    publication_versions,
    rename_publication,
    replace_publication,
)
from subscriber.catalog.relation_shapes import forget_oids, keep_published_shapes
from subscriber.catalog.released_slots import (
    ReleasedSlot,
    forget_released_slot,
    release_slot,
    released_position,
    released_slots,
)
from subscriber.catalog.replaced_values import (
    KEPT_VALUES,
    ReplacedColumn,
    ReplacedCount,
    ReplacedRow,
    ReplacedValues,
    count_replaced_values,
    replaced_counts,
)
from subscriber.catalog.runner import Runner, is_alive, is_silent, pauses_while_busy, read_runner, write_runner
from subscriber.catalog.schema_changes import (
    Alteration,
    SchemaChange,
    SchemaChanges,
    copy_again,
    resolve_differences,
    schema_changes_of,
    skipped_publication,
)
from subscriber.catalog.schema_differences import differing_relations, set_schema_differences
from subscriber.catalog.statistics import count_conflicts, record_error, resolve_error, statistics_of
from subscriber.catalog.subscriptions import (
    Subscription,
    TwoPhaseState,
    adopt_slot,
    check_replicated,
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
    set_two_phase_state,
    take_up_slot,
)
from subscriber.catalog.table_states import (
    CatchUpProgress,
    KeptStates,
    RelationState,
    SubscriptionRelation,
    TableStates,
    advance_relation,
    delete_relations,
    lock_ready,
    make_ready,
    read_states,
    record_relation_error,
    relations_of,
    replace_relations,
    set_relation_state,
    set_relation_states,
)
from subscriber.catalog.worker_status import WorkerStatus, read_worker_statuses, write_worker_statuses

__all__ = [
    "CATALOG",
    "CONTROL",
    "KEPT_ROWS",
    "KEPT_VALUES",
    "PUBLICATION",
    "PUBLICATION_NAMESPACE",
    "PUBLICATION_REL",
    "RELEASED_SLOT",
    "RUNNER",
    "SCHEMA_DIFFERENCE",
    "SUBSCRIPTION",
    "SUBSCRIPTION_REL",
    "SUBSCRIPTION_STATS",
    "Alteration",
    "ApplyHold",
    "CatchUpProgress",
    "ConflictKind",
    "ConflictLog",
    "ConflictRecord",
    "HoldState",
    "KeptStates",
    "OriginProgress",
    "PreparedTransaction",
    "Progress",
    "RelationState",
    "ReleasedSlot",
    "ReplacedColumn",
    "ReplacedCount",
    "ReplacedRow",
    "ReplacedValues",
    "Runner",
    "SchemaChange",
    "SchemaChanges",
    "Subscription",
    "SubscriptionRelation",
    "TableStates",
    "TwoPhaseState",
    "WorkerStatus",
    "adopt_slot",
    "advance_relation",
    "bind_hold",
    "check_replicated",
    "copy_again",
    "count_conflicts",
    "count_replaced_values",
    "delete_hold",
    "delete_publication",
    "delete_relations",
    "delete_stale_hold",
    "delete_subscription",
    "differing_relations",
    "ensure_catalog",
    "existing_catalog",
    "existing_subscription",
    "find_hold",
    "find_publication",
    "find_subscription",
    "forget_oids",
    "forget_released_slot",
    "get_publication",
    "get_subscription",
    "has_catalog",
    "insert_hold",
    "insert_publication",
    "insert_subscription",
    "is_alive",
    "is_own_table",
    "is_silent",
    "keep_published_shapes",
    "list_publications",
    "list_subscriptions",
    "lock_ready",
    "make_ready",
    "missing_catalog",
    "note_paused",
    "note_reached",
    "owners_of_publications",
    "pauses_while_busy",
    "publication_versions",
    "publisher_tables",
    "read_holds",
    "read_runner",
    "read_states",
    "read_worker_statuses",
    "record_error",
    "record_relation_error",
    "relations_of",
    "release_slot",
    "released_position",
    "released_slots",
    "rename_publication",
    "rename_subscription",
    "renew_hold",
    "replace_publication",
    "replace_relations",
    "replaced_counts",
    "resolve_differences",
    "resolve_error",
    "schema_changes_of",
    "set_connection",
    "set_enabled",
    "set_options",
    "set_publications",
    "set_publisher_tables",
    "set_relation_state",
    "set_relation_states",
    "set_schema_differences",
    "set_skip_lsn",
    "set_two_phase_state",
    "skipped_publication",
    "statistics_of",
    "take_up_slot",
    "target_identifier",
    "write_runner",
    "write_worker_statuses",
]
