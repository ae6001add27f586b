"""The catalog's tables: the same schema for every database.

The tables have PostgreSQL's names with the prefix ``subscriber_``, and PostgreSQL's columns. A user
who knows PostgreSQL's catalog can read this one. The column types are the few that every database
has: LSNs and times are text, lists are JSON.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.catalog.column_types import NAME, TEXT
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.schema.relation_names import RelationNames
from subscriber.targets.add_column import AddColumn

CATALOG: Final = sa.MetaData()


def _counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


SUBSCRIPTION: Final = sa.Table(
    "subscriber_subscription",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", NAME, nullable=False, unique=True),
    sa.Column("subenabled", sa.Boolean, nullable=False),
    sa.Column("subbinary", sa.Boolean, nullable=False),
    sa.Column("substream", sa.String(1), nullable=False),
    sa.Column("subtwophasestate", sa.String(1), nullable=False),
    sa.Column("subdisableonerr", sa.Boolean, nullable=False),
    sa.Column("subpasswordrequired", sa.Boolean, nullable=False),
    sa.Column("subrunasowner", sa.Boolean, nullable=False),
    sa.Column("subfailover", sa.Boolean, nullable=False),
    sa.Column("subskiplsn", sa.String(32), nullable=False),
    sa.Column("subconninfo", TEXT, nullable=False),
    sa.Column("subslotname", sa.String(63)),
    sa.Column("subsynccommit", sa.String(32), nullable=False),
    sa.Column("subpublications", TEXT, nullable=False),
    sa.Column("suborigin", sa.String(63), nullable=False),
    sa.Column("systemidentifier", sa.String(32)),
    sa.Column("subcreatetables", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("subcarrier", TEXT),
    sa.Column("submap", sa.Text().with_variant(mysql.TEXT(collation="utf8mb4_bin"), "mysql", "mariadb")),
    sa.Column("subschemachanges", sa.String(16), nullable=False, server_default="stop"),
    sa.Column("sublogconflictvalues", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("subpublishertables", TEXT),
    sa.Column("subslotadopted", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("subversion", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("subunrepresentable", sa.Text().with_variant(mysql.TEXT(collation="utf8mb4_bin"), "mysql", "mariadb")),
)
"""The equivalent of pg_subscription 18; ``subid`` is the oid.

``systemidentifier`` is the publisher's system identifier; the journal's name contains it.
``subcarrier`` and ``subpublishertables`` are for emulated publications: the carrier, and the
properties of the publisher's tables when they were last read (JSON). ``submap``,
``subschemachanges`` and ``subunrepresentable`` (NULL for ``stop``) are options that PostgreSQL does
not have, as they are written in the command.
``subslotadopted`` is false until it is known where the changes of the slot begin
(:mod:`subscriber.positions.slot_position`). ``subversion`` changes whenever the row or the table
states are written (:mod:`subscriber.catalog.catalog_version`).
"""

SUBSCRIPTION_REL: Final = sa.Table(
    "subscriber_subscription_rel",
    CATALOG,
    sa.Column("srsubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("srschema", NAME, primary_key=True),
    sa.Column("srrelname", NAME, primary_key=True),
    sa.Column("srsubstate", sa.String(1), nullable=False),
    sa.Column("srsublsn", sa.String(32)),
    sa.Column("srerror", TEXT),
    sa.Column("srerrorat", sa.String(40)),
    sa.Column("srreplaces", sa.Boolean, nullable=False, server_default=sa.false()),
)
"""The equivalent of pg_subscription_rel. The relation is identified by its name at the publisher,
because a target has no oids. ``srreplaces`` says that the next copy first deletes the rows that the
target's table has.
"""

PUBLICATION: Final = sa.Table(
    "subscriber_publication",
    CATALOG,
    sa.Column("oid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pubname", NAME, nullable=False, unique=True),
    sa.Column("pubowner", NAME, nullable=False),
    sa.Column("puballtables", sa.Boolean, nullable=False),
    sa.Column("pubinsert", sa.Boolean, nullable=False),
    sa.Column("pubupdate", sa.Boolean, nullable=False),
    sa.Column("pubdelete", sa.Boolean, nullable=False),
    sa.Column("pubtruncate", sa.Boolean, nullable=False),
    sa.Column("pubviaroot", sa.Boolean, nullable=False),
    sa.Column("pubgencols", sa.String(1), nullable=False),
    sa.Column("pubversion", sa.BigInteger, nullable=False, server_default="0"),
)
"""The equivalent of pg_publication 18. The owner is the name of a role of the publisher.
``pubversion`` changes whenever the publication is written.
"""

PUBLICATION_REL: Final = sa.Table(
    "subscriber_publication_rel",
    CATALOG,
    sa.Column("prpubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("prschema", NAME, primary_key=True),
    sa.Column("prrelname", NAME, primary_key=True),
    sa.Column("prattrs", TEXT),
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


RELEASED_SLOT: Final = sa.Table(
    "subscriber_released_slot",
    CATALOG,
    sa.Column("systemidentifier", sa.String(32), primary_key=True),
    sa.Column("slotname", NAME, primary_key=True),
    sa.Column("remotelsn", sa.String(32), nullable=False),
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
(:mod:`subscriber.catalog.schema_differences`).
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

RUNNER: Final = sa.Table(
    "subscriber_runner",
    CATALOG,
    sa.Column("runnerid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("processid", sa.BigInteger, nullable=False),
    sa.Column("startedat", sa.String(40), nullable=False),
    sa.Column("heartbeatat", sa.String(40), nullable=False),
    sa.Column("busysince", sa.String(40)),
    sa.Column("endedat", sa.String(40)),
)
"""A single row, with ``runnerid`` 1: the last `subscriber run`
(:mod:`subscriber.runtime.heartbeat`). Times are UTC, ISO 8601.
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
    _counter("notices"),
)
"""A row for each worker of the last `subscriber run` (:mod:`subscriber.catalog.worker_status`).
Times are UTC, ISO 8601.
"""

APPLY_HOLD: Final = sa.Table(
    "subscriber_apply_hold",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("processid", sa.BigInteger, nullable=False),
    sa.Column("heldsince", sa.String(40), nullable=False),
    sa.Column("heartbeatat", sa.String(40), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("boundlsn", sa.String(32)),
    sa.Column("reachedlsn", sa.String(32)),
)
"""A row for each subscription whose apply a command holds (:mod:`subscriber.catalog.apply_holds`).
Times are UTC, ISO 8601.
"""

ORIGIN_STATUS: Final = sa.Table(
    "subscriber_replication_origin_status",
    CATALOG,
    sa.Column("external_id", sa.String(128), primary_key=True),
    sa.Column("remote_lsn", sa.String(32), nullable=False),
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
    sa.Column("prepare_end_lsn", sa.String(32), nullable=False),
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
    *(_counter(f"confl_{kind}") for kind in ConflictKind),
    sa.Column("stats_reset", sa.String(40)),
    sa.Column("last_error", TEXT),
    sa.Column("last_error_at", sa.String(40)),
    sa.Column("last_error_worker", sa.String(8)),
    sa.Column("last_error_lsn", sa.String(32)),
    sa.Column("last_error_resolved_at", sa.String(40)),
)
"""The columns of pg_stat_subscription_stats 18, and the last error.

The columns of the last error are: its report (which contains no values), when it occurred, the
worker ("apply" or "sync"), the finish LSN of the transaction if a transaction failed, and when the
error was resolved (NULL until then).
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
    sa.Column("remote_commit_lsn", sa.String(32), nullable=False),
    sa.Column("remote_xid", sa.BigInteger, nullable=False),
    sa.Column("remote_commit_ts", sa.String(40), nullable=False),
    sa.Column("index_name", sa.String(128)),
    sa.Column("key_columns", TEXT),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("key_values", TEXT),
    sa.Column("local_row", TEXT),
    sa.Column("remote_row", TEXT),
)
"""A row for each row that was missing or that another origin wrote, and for each key that stops a
transaction (section C.4).

``conflictid`` grows with time. ``recorded_at`` (UTC, ISO 8601) and ``attempts`` change when a
stopped transaction fails in the same way again. ``remote_commit_lsn`` is the LSN that SKIP takes.
``key_columns`` are the columns of the index, or the columns by which the row was searched; NULL for
the whole row. It is a JSON list. The three columns with values are also JSON lists; they are NULL
without ``log_conflict_values``. Rows are in the target's column order.
"""

REPLACED_VALUE: Final = sa.Table(
    "subscriber_replaced_value",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("nspname", NAME, primary_key=True),
    sa.Column("relname", NAME, primary_key=True),
    sa.Column("columnname", NAME, primary_key=True),
    sa.Column("relation", sa.String(260), nullable=False),
    sa.Column("key_columns", TEXT),
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
    sa.Column("remote_lsn", sa.String(32), nullable=False),
    sa.Column("key_columns", TEXT),
    sa.Column("key_values", TEXT),
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
    sa.Column("content", sa.LargeBinary(2**32 - 1), nullable=False),
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
    sa.Column("shape", TEXT, nullable=False),
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
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("processid", sa.BigInteger, nullable=False),
    sa.Column("startedat", sa.String(40), nullable=False),
    sa.Column("heartbeatat", sa.String(40), nullable=False),
    sa.Column("barrierlsn", sa.String(32)),
    sa.Column("switchedat", sa.String(40)),
    sa.Column("abandonedat", sa.String(40)),
    sa.Column("options", TEXT, nullable=False),
    sa.Column("findings", TEXT, nullable=False),
)
"""A row for each subscription that is being cut over, or whose last cutover was abandoned
(:mod:`subscriber.catalog.cutovers`).

``step`` is the step that was begun last. ``holder`` is a random identifier of the command that
carries it out, empty if there is none; ``host`` and ``processid`` are its process. ``options`` and
``findings`` are JSON objects: what has to be undone, and what the steps have found. Times are UTC,
ISO 8601.
"""

OWN_TABLES: Final = frozenset(CATALOG.tables)
"""The names of the catalog's tables. A publisher that is itself a target has such tables, too. They
must not be replicated, because its state would then replace the state of this target.
"""


def is_own_table(names: RelationNames, schema: str, name: str) -> bool:
    """Whether the publisher's relation would be stored in one of :data:`OWN_TABLES` in the target.

    Args:
        names: the target's names of relations.
        schema: the relation's schema at the publisher.
        name: the relation's name at the publisher.
    """
    return names.local(schema, name)[1] in OWN_TABLES


def has_catalog(connection: sa.Connection) -> bool:
    """Whether the target has a catalog; nothing is created."""
    return sa.inspect(connection).has_table(SUBSCRIPTION.name)


def ensure_catalog(engine: sa.Engine) -> None:
    """Create the catalog's tables that do not exist yet.

    If an earlier version has created the catalog, missing columns are added. Its contents stay
    unchanged.
    """
    CATALOG.create_all(engine)
    with engine.connect() as connection:
        missing = [AddColumn(table, column) for table, column in _missing_columns(connection)]
        identified = connection.execute(sa.select(CONTROL)).one_or_none() is not None
    for change in missing:
        with engine.begin() as connection:
            connection.execute(change)
    if not identified:
        # If two processes do this at the same time, the identifier of the first one is used.
        with contextlib.suppress(sa.exc.IntegrityError), engine.begin() as connection:
            connection.execute(sa.insert(CONTROL).values(controlid=1, targetidentifier=uuid.uuid4().hex))


def target_identifier(connection: sa.Connection) -> str:
    """The target's identifier, 32 hexadecimal digits. It is created with the catalog and never
    changes.
    """
    identifier: str = connection.execute(sa.select(CONTROL.c.targetidentifier)).scalar_one()
    return identifier


def _missing_columns(connection: sa.Connection) -> Iterator[tuple[sa.Table, sa.Column[Any]]]:
    for table in CATALOG.sorted_tables:
        # A query is used instead of SQLAlchemy's reflection, which cannot read DuckDB's columns.
        nothing: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(table).where(sa.false())
        there = set(connection.execute(nothing).keys())
        yield from ((table, column) for column in table.columns if column.name not in there)
