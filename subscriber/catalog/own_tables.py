"""The catalog's tables: the same schema for every database.

They have PostgreSQL's names with the prefix ``subscriber_``, and PostgreSQL's columns. The column
types are the few that every database has: LSNs and times are text, lists are JSON.
"""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.rows import BYTES, NAME, TEXT, JsonText, Lsn
from subscriber.catalog.subscription_options import OPTIONS

CATALOG: Final = sa.MetaData()


class ConflictKind(StrEnum):
    """PostgreSQL 19's ConflictType, in the order of pg_stat_subscription_stats (section C.4)."""

    INSERT_EXISTS = "insert_exists"
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    UPDATE_EXISTS = "update_exists"
    UPDATE_DELETED = "update_deleted"
    UPDATE_MISSING = "update_missing"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


_OPTIONS: Final = {option.column.name: option.column for option in OPTIONS.values() if option.column is not None}

SUBSCRIPTION: Final = sa.Table(
    "subscriber_subscription",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", NAME, nullable=False, unique=True),
    *map(_OPTIONS.pop, ("subenabled", "subbinary", "substream", "subtwophasestate", "subdisableonerr")),
    *map(_OPTIONS.pop, ("subpasswordrequired", "subrunasowner", "subfailover")),
    sa.Column("subskiplsn", Lsn, nullable=False),
    sa.Column("subconninfo", TEXT, nullable=False),
    *map(_OPTIONS.pop, ("subslotname", "subsynccommit")),
    sa.Column("subpublications", JsonText, nullable=False),
    _OPTIONS.pop("suborigin"),
    sa.Column("systemidentifier", sa.String(32)),
    sa.Column("subserver", sa.Integer, nullable=False, server_default="0"),
    sa.Column("subretentionactive", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("subretentionround", sa.BigInteger, nullable=False, server_default="0"),
    *map(_OPTIONS.pop, ("subcreatetables", "subcarrier", "submap", "subschemachanges", "sublogconflictvalues")),
    sa.Column("subpublishertables", JsonText),
    sa.Column("subslotadopted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("subversion", sa.BigInteger, nullable=False, server_default="0"),
    *_OPTIONS.values(),
)
"""The equivalent of pg_subscription 19; ``subid`` is the oid. ``subserver`` is 0 for a subscription
with a CONNECTION; else it is the number of a foreign server, and ``subconninfo`` is empty.

``systemidentifier`` is the publisher's system identifier; the journal's name contains it.
The columns of options come from :mod:`subscriber.catalog.subscription_options`; an option that
PostgreSQL does not have is stored as it is written in the command.
``subpublishertables`` has the properties of the publisher's tables when they were last read (JSON),
for emulated publications.
``subretentionround`` is the last round of deleted rows that the subscription no longer needs
(:mod:`subscriber.catalog.deleted_rows`).
``subslotadopted`` is false until it is known where the changes of the slot begin
(:mod:`subscriber.commands.slot_position`). ``subversion`` changes whenever the row or the table
states are written (:mod:`subscriber.catalog.catalog_version`).
"""

SUBSCRIPTION_REL: Final = sa.Table(
    "subscriber_subscription_rel",
    CATALOG,
    sa.Column("srsubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("srschema", NAME, primary_key=True),
    sa.Column("srrelname", NAME, primary_key=True),
    sa.Column("srsubstate", sa.String(1), nullable=False),
    sa.Column("srsublsn", Lsn),
    sa.Column("srerror", TEXT),
    sa.Column("srerrorat", sa.String(40)),
    sa.Column("srreplaces", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("srsequence", sa.Boolean, nullable=False, server_default=sa.false()),
)
"""The equivalent of pg_subscription_rel. The relation is identified by its name at the publisher,
because a target has no oids. ``srreplaces`` says that the next copy first deletes the rows that the
target's table has, ``srsequence`` that the relation is a sequence.
"""

PUBLICATION: Final = sa.Table(
    "subscriber_publication",
    CATALOG,
    sa.Column("oid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pubname", NAME, nullable=False, unique=True),
    sa.Column("pubowner", NAME, nullable=False),
    sa.Column("puballtables", sa.Boolean, nullable=False),
    sa.Column("puballsequences", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("pubinsert", sa.Boolean, nullable=False),
    sa.Column("pubupdate", sa.Boolean, nullable=False),
    sa.Column("pubdelete", sa.Boolean, nullable=False),
    sa.Column("pubtruncate", sa.Boolean, nullable=False),
    sa.Column("pubviaroot", sa.Boolean, nullable=False),
    sa.Column("pubgencols", sa.String(1), nullable=False),
    sa.Column("pubversion", sa.BigInteger, nullable=False, server_default="0"),
)
"""The equivalent of pg_publication 19. The owner is the name of a role of the publisher.
``pubversion`` changes whenever the publication is written.
"""

PUBLICATION_REL: Final = sa.Table(
    "subscriber_publication_rel",
    CATALOG,
    sa.Column("prpubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("prschema", NAME, primary_key=True),
    sa.Column("prrelname", NAME, primary_key=True),
    sa.Column("prattrs", JsonText),
    sa.Column("prqual", TEXT),
    sa.Column("prexcept", sa.Boolean, nullable=False),
    sa.Column("prplace", sa.Integer, nullable=False),
)
"""The equivalent of pg_publication_rel, with the relation and its columns by name, and its filter
as SQL. ``prexcept`` is a column of PostgreSQL 19, ``prplace`` is the order of the rows.
"""

PUBLICATION_NAMESPACE: Final = sa.Table(
    "subscriber_publication_namespace",
    CATALOG,
    sa.Column("pnpubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pnnspname", NAME, primary_key=True),
    sa.Column("pnplace", sa.Integer, nullable=False),
)
"""The equivalent of pg_publication_namespace, with the schema by name."""


DELETED_ROW: Final = sa.Table(
    "subscriber_deleted_row",
    CATALOG,
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("deletedrow", TEXT, nullable=False),
    sa.Column("deletedat", sa.String(40), nullable=False),
    sa.Column("transactionid", sa.BigInteger, nullable=False),
    sa.Column("origin", sa.String(128)),
    sa.Column("round", sa.BigInteger, nullable=False),
)
"""The rows that were deleted while a subscription has ``retain_dead_tuples``
(:mod:`subscriber.catalog.deleted_rows`).

Triggers of the target write them. ``deletedrow`` is the key of the row, or the row (JSON; its form
depends on the target). ``deletedat`` is UTC, ISO 8601. ``origin`` is NULL for a row that was
deleted in the target itself. MariaDB has one more column, the number of the row.
"""

FOREIGN_DATA_WRAPPER: Final = sa.Table(
    "subscriber_foreign_data_wrapper",
    CATALOG,
    sa.Column("fdwname", NAME, primary_key=True),
    sa.Column("fdwconnects", sa.Boolean, nullable=False),
)
"""The equivalent of pg_foreign_data_wrapper. ``fdwconnects`` says that subscriptions can use its
servers, which is so for postgres_fdw only.
"""

FOREIGN_SERVER: Final = sa.Table(
    "subscriber_foreign_server",
    CATALOG,
    sa.Column("oid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("srvname", NAME, nullable=False, unique=True),
    sa.Column("srvfdw", NAME, nullable=False),
    sa.Column("srvtype", TEXT),
    sa.Column("srvversion", TEXT),
    sa.Column("srvoptions", JsonText, nullable=False),
)
"""The equivalent of pg_foreign_server, with the wrapper by name; the options are a JSON object."""

USER_MAPPING: Final = sa.Table(
    "subscriber_user_mapping",
    CATALOG,
    sa.Column("umserver", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("umuser", NAME, primary_key=True),
    sa.Column("umoptions", JsonText, nullable=False),
)
"""The equivalent of pg_user_mapping, with the user by name; the empty name is PUBLIC. The options
are a JSON object, and may have a password.
"""

RELEASED_SLOT: Final = sa.Table(
    "subscriber_released_slot",
    CATALOG,
    sa.Column("systemidentifier", sa.String(32), primary_key=True),
    sa.Column("slotname", NAME, primary_key=True),
    sa.Column("remotelsn", Lsn, nullable=False),
    sa.Column("subname", NAME, nullable=False),
    sa.Column("releasedat", sa.String(40), nullable=False),
)
"""A slot that a subscription no longer uses: the LSN up to which the subscription had applied its
changes, the subscription, and the time of the release (UTC, ISO 8601).
"""

DROPPED_REL: Final = sa.Table(
    "subscriber_dropped_rel",
    CATALOG,
    sa.Column("localschema", NAME, primary_key=True),
    sa.Column("localname", NAME, primary_key=True),
    sa.Column("schemaname", NAME, nullable=False),
    sa.Column("relname", NAME, nullable=False),
    sa.Column("subname", NAME, nullable=False),
)
"""A table of the target that a dropped subscription has filled: its names in the target and at the
publisher, and the subscription's name.
"""

SCHEMA_DIFFERENCE: Final = sa.Table(
    "subscriber_schema_difference",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("relation", TEXT, nullable=False),
    sa.Column("object", TEXT, nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("ddl", TEXT, nullable=False),
    sa.Column("reason", TEXT, nullable=False),
)
"""The parts of a publisher's table that are missing in the table that ``create_tables`` has
created.

A row has the object, its kind, the publisher's DDL, and the reason
(:mod:`subscriber.catalog.schema_changes`).
"""

CONTROL: Final = sa.Table(
    "subscriber_control",
    CATALOG,
    sa.Column("controlid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("targetidentifier", sa.String(32), nullable=False),
)
"""A single row, with ``controlid`` 1: the target's identifier, which corresponds to the system
identifier of a cluster. Journals identify their consumers by it.
"""

TARGET_FACT: Final = sa.Table(
    "subscriber_target_fact",
    CATALOG,
    sa.Column("factname", sa.String(63), primary_key=True),
    sa.Column("factvalue", sa.String(200), nullable=False),
    sa.Column("found", sa.String(16), nullable=False),
    sa.Column("server", sa.String(128), nullable=False),
)
"""What the probes have found out about the target (:mod:`subscriber.targets.generic`): the value as
JSON, how it was found, and the server's version. Empty for the databases that need no probes.
"""

LEASE: Final = sa.Table(
    "subscriber_lease",
    CATALOG,
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("processid", sa.BigInteger, nullable=False),
    sa.Column("machine", sa.String(128), nullable=False),
    sa.Column("since", sa.String(40), nullable=False),
    sa.Column("heartbeatat", sa.String(40), nullable=False),
    sa.Column("busysince", sa.String(40)),
    sa.Column("endedat", sa.String(40)),
    sa.Column("state", sa.String(16)),
    sa.Column("boundlsn", Lsn),
    sa.Column("reachedlsn", Lsn),
)
"""The last `subscriber run`, and a row for each subscription whose apply is paused or whose cutover
is carried out (:mod:`subscriber.catalog.leases`). Times are UTC, ISO 8601.
"""

STAT_SUBSCRIPTION: Final = sa.Table(
    "subscriber_stat_subscription",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("since", sa.String(40), nullable=False),
    sa.Column("error", TEXT),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("next_attempt", sa.String(40)),
    sa.Column("server", TEXT),
    *(_counter(one.name) for one in fields(WorkerCounters)),
)
"""A row for each worker of the last `subscriber run` (:mod:`subscriber.catalog.worker_status`).
Times are UTC, ISO 8601.
"""

ORIGIN_STATUS: Final = sa.Table(
    "subscriber_replication_origin_status",
    CATALOG,
    sa.Column("external_id", sa.String(128), primary_key=True),
    sa.Column("remote_lsn", Lsn, nullable=False),
    sa.Column("updated_at", sa.String(40), nullable=False),
)
"""A row for each origin: ``external_id`` ("pg_<subid>"), the applied LSN, and when it moved (UTC,
ISO 8601).
"""

PREPARED_TRANSACTION: Final = sa.Table(
    "subscriber_prepared_transaction",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("xid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("gid", sa.String(200), nullable=False),
    sa.Column("prepare_end_lsn", Lsn, nullable=False),
    sa.Column("prepare_timestamp", sa.BigInteger, nullable=False),
    sa.Column("committed", sa.Boolean, nullable=False),
)
"""The transactions that are prepared in the target
(:mod:`subscriber.catalog.prepared_transactions`).
"""

SUBSCRIPTION_STATS: Final = sa.Table(
    "subscriber_stat_subscription_stats",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", sa.String(128), nullable=False),
    _counter("apply_error_count"),
    _counter("sync_error_count"),
    _counter("sync_seq_error_count"),
    *(_counter(f"confl_{kind}") for kind in ConflictKind),
    sa.Column("stats_reset", sa.String(40)),
    sa.Column("last_error", TEXT),
    sa.Column("last_error_at", sa.String(40)),
    sa.Column("last_error_worker", sa.String(8)),
    sa.Column("last_error_lsn", sa.String(32)),
    sa.Column("last_error_resolved_at", sa.String(40)),
)
"""The columns of pg_stat_subscription_stats, and the last error. ``sync_error_count`` counts the
errors of tables (``sync_table_error_count`` in PostgreSQL 19).

The columns of the last error are: its report (which contains no values), when it occurred, the
worker ("apply", "sync" or "sync_seq"), the finish LSN of the transaction if a transaction failed,
and when the error was resolved (NULL until then).
"""

CONFLICT: Final = sa.Table(
    "subscriber_conflict",
    CATALOG,
    sa.Column("conflictid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("subid", sa.Integer, nullable=False),
    sa.Column("subname", sa.String(128), nullable=False),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("conflict_type", sa.String(32), nullable=False),
    sa.Column("remote_commit_lsn", Lsn, nullable=False),
    sa.Column("remote_xid", sa.BigInteger, nullable=False),
    sa.Column("remote_commit_ts", sa.String(40), nullable=False),
    sa.Column("index_name", sa.String(128)),
    sa.Column("key_columns", JsonText),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("schemaname", NAME),
    sa.Column("relname", NAME),
    sa.Column("remote_origin", sa.String(128)),
    sa.Column("replica_identity_full", sa.Boolean),
    *(sa.Column(name, JsonText) for name in ("replica_identity", "remote_tuple", "local_conflicts")),
    sa.Column("resolution", TEXT),
    sa.Column("remote_applied", sa.Boolean),
)
"""A row for each row that was missing or that another origin wrote, and for each key that stops a
transaction (section C.4). It has the columns of PostgreSQL 20's conflict log tables but ``relid``,
and some more.

``conflictid`` grows with time. ``recorded_at`` (UTC, ISO 8601) and ``attempts`` change when a
stopped transaction fails in the same way again. ``remote_commit_lsn`` is the LSN that SKIP takes.
``key_columns`` are the columns of the index, or the columns by which the row was searched; NULL for
the whole row. It is a JSON list. ``replica_identity`` and ``remote_tuple`` are JSON objects of
texts; they are NULL without ``log_conflict_values``, as are ``key`` and ``tuple`` in
``local_conflicts``, a JSON list with the existing row. ``resolution`` is the resolver, NULL for
PostgreSQL's default.
"""

REPLACED_VALUE: Final = sa.Table(
    "subscriber_replaced_value",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("nspname", NAME, primary_key=True),
    sa.Column("relname", NAME, primary_key=True),
    sa.Column("columnname", NAME, primary_key=True),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("key_columns", JsonText),
    _counter("replaced"),
    sa.Column("first_lsn", sa.String(32), nullable=False),
    sa.Column("last_lsn", sa.String(32), nullable=False),
)
"""How many values of a column the target could not hold and got NULL instead
(``unrepresentable_values``).

``nspname`` and ``relname`` are the publisher's names, ``relation`` is the target's table.
``key_columns`` is the JSON list of the columns of its key, NULL if it has no key. The LSNs are
those of the first and the last such value: the commit LSN of the transaction, or that of the
snapshot of a copy.
"""

REPLACED_ROW: Final = sa.Table(
    "subscriber_replaced_row",
    CATALOG,
    sa.Column("replacedid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("subid", sa.Integer, nullable=False),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("columnname", NAME, nullable=False),
    sa.Column("remote_lsn", Lsn, nullable=False),
    sa.Column("key_columns", JsonText),
    sa.Column("key_values", JsonText),
    sa.Column("replaced_value", TEXT),
)
"""The first values of each column that are counted in ``subscriber_replaced_value``, in order.

``key_values`` (a JSON list) and ``replaced_value`` are NULL without ``log_conflict_values``.
"""

LOGICAL_MESSAGE: Final = sa.Table(
    "subscriber_logical_message",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("lsn", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("final_lsn", sa.BigInteger, nullable=False),
    sa.Column("transactional", sa.Boolean, nullable=False),
    sa.Column("xid", sa.BigInteger),
    sa.Column("commit_timestamp", sa.BigInteger),
    sa.Column("prefix", sa.Text, nullable=False),
    sa.Column("content", BYTES, nullable=False),
)
"""Messages that were not delivered to a listener yet. ``final_lsn`` defines their order: it is the
commit LSN, or the message's LSN outside a transaction.
"""

RELATION_SHAPE: Final = sa.Table(
    "subscriber_relation_shape",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("nspname", NAME, primary_key=True),
    sa.Column("relname", NAME, primary_key=True),
    sa.Column("shape", JsonText, nullable=False),
    sa.Column("baseline", TEXT),
    sa.Column("relid", sa.BigInteger),
)
"""The last relation message that was applied, for each relation of a subscription, by the
publisher's names.

``shape`` is a JSON list of the columns, each with its name, type OID and type modifier.
``baseline`` is what is known of the publisher's table (JSON), NULL if nothing is known. ``relid``
is the table's OID at the publisher, NULL if it is not known.
"""

SCHEMA_CHANGE: Final = sa.Table(
    "subscriber_schema_change",
    CATALOG,
    sa.Column("changeid", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("changed_at", sa.String(40), nullable=False),
    sa.Column("subid", sa.Integer, nullable=False),
    sa.Column("subname", sa.String(128), nullable=False),
    sa.Column("nspname", NAME, nullable=False),
    sa.Column("relname", NAME, nullable=False),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("remote_lsn", sa.String(32)),
    sa.Column("columnname", NAME),
    sa.Column("statement", TEXT),
    sa.Column("reason", TEXT, nullable=False),
    sa.Column("difference", TEXT),
    sa.Column("resolved_at", sa.String(40)),
    sa.Column("finished", sa.Boolean, nullable=False),
)
"""The alterations of tables in the target, and the reason for each.

``relation`` is the target's table; ``nspname`` and ``relname`` are the publisher's names.
``remote_lsn`` is the commit LSN of the transaction that sent the new shape, NULL for the initial
copy. ``statement`` is the DDL, NULL if none was executed: the row then only records that rows may
differ. ``difference`` explains why they may differ from the publisher's, until the table is copied
again, or found to be equal by a comparison (``resolved_at``).
"""

CUTOVER: Final = sa.Table(
    "subscriber_cutover",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("step", sa.String(16), nullable=False),
    sa.Column("startedat", sa.String(40), nullable=False),
    sa.Column("barrierlsn", Lsn),
    sa.Column("switchedat", sa.String(40)),
    sa.Column("abandonedat", sa.String(40)),
    sa.Column("options", JsonText, nullable=False),
    sa.Column("findings", JsonText, nullable=False),
)
"""A row for each subscription that is being cut over, or whose last cutover was abandoned
(:mod:`subscriber.catalog.cutovers`).

``step`` is the step that was begun last. ``options`` and ``findings`` are JSON objects: what has to
be undone, and what the steps have found. Times are UTC, ISO 8601. The command that carries it out
has a lease.
"""

OWN_TABLES: Final = frozenset(CATALOG.tables)
"""The names of the catalog's tables."""
