"""The catalog's tables: one schema for every database.

The tables have PostgreSQL's names with the prefix ``subscriber_`` and PostgreSQL's columns, so that whoever knows the catalog can
read ours; types are the few that every database has (LSNs and times are text, lists are JSON).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.apply.progress import NAME, STATE, TEXT
from subscriber.targets.ddl import AddColumn

CATALOG: Final = sa.MetaData()

_NAME: Final = NAME

SUBSCRIPTION: Final = sa.Table(
    "subscriber_subscription",
    CATALOG,
    sa.Column("subid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("subname", _NAME, nullable=False, unique=True),
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
)
"""pg_subscription 18 (``subid`` is its oid), the publisher's system identifier, which names the journal, and for emulated publications
the one that carries them and what the publisher's tables were like at the last look (JSON). ``submap`` and ``subschemachanges`` are
options of ours, as they are written in the command. ``subslotadopted`` is false while it is still to be found out where the changes of
the slot begin (:mod:`subscriber.positions.slot_position`). ``subversion`` is another one whenever the row or its tables' states are
written (:mod:`subscriber.catalog.catalog_version`)."""

SUBSCRIPTION_REL: Final = sa.Table(
    "subscriber_subscription_rel",
    CATALOG,
    sa.Column("srsubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("srschema", _NAME, primary_key=True),
    sa.Column("srrelname", _NAME, primary_key=True),
    sa.Column("srsubstate", sa.String(1), nullable=False),
    sa.Column("srsublsn", sa.String(32)),
    sa.Column("srerror", TEXT),
    sa.Column("srerrorat", sa.String(40)),
)
"""pg_subscription_rel, with the relation by its name at the publisher since a target has no oids."""

PUBLICATION: Final = sa.Table(
    "subscriber_publication",
    CATALOG,
    sa.Column("oid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pubname", _NAME, nullable=False, unique=True),
    sa.Column("pubowner", _NAME, nullable=False),
    sa.Column("puballtables", sa.Boolean, nullable=False),
    sa.Column("pubinsert", sa.Boolean, nullable=False),
    sa.Column("pubupdate", sa.Boolean, nullable=False),
    sa.Column("pubdelete", sa.Boolean, nullable=False),
    sa.Column("pubtruncate", sa.Boolean, nullable=False),
    sa.Column("pubviaroot", sa.Boolean, nullable=False),
    sa.Column("pubgencols", sa.String(1), nullable=False),
    sa.Column("pubversion", sa.BigInteger, nullable=False, server_default="0"),
)
"""pg_publication 18; the owner is a role of the publisher, by name. ``pubversion`` is another one whenever the publication is written."""

PUBLICATION_REL: Final = sa.Table(
    "subscriber_publication_rel",
    CATALOG,
    sa.Column("prpubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("prschema", _NAME, primary_key=True),
    sa.Column("prrelname", _NAME, primary_key=True),
    sa.Column("prattrs", TEXT),
    sa.Column("prqual", TEXT),
    sa.Column("prexcept", sa.Boolean, nullable=False),
    sa.Column("prplace", sa.Integer, nullable=False),
)
"""pg_publication_rel with the relation and its columns by name, and its filter as SQL; ``prexcept`` is 19's, ``prplace`` their order."""

PUBLICATION_NAMESPACE: Final = sa.Table(
    "subscriber_publication_namespace",
    CATALOG,
    sa.Column("pnpubid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("pnnspname", _NAME, primary_key=True),
    sa.Column("pnplace", sa.Integer, nullable=False),
)
"""pg_publication_namespace, with the schema by name."""


RELEASED_SLOT: Final = sa.Table(
    "subscriber_released_slot",
    CATALOG,
    sa.Column("systemidentifier", sa.String(32), primary_key=True),
    sa.Column("slotname", _NAME, primary_key=True),
    sa.Column("remotelsn", sa.String(32), nullable=False),
    sa.Column("subname", _NAME, nullable=False),
    sa.Column("releasedat", sa.String(40), nullable=False),
)
"""A slot that a subscription was taken off: how far that had applied its changes, which subscription it was, and when (UTC, ISO 8601)."""

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
"""What the publisher has of a table and the target's table, which ``create_tables`` made, has not: the object, its kind, the publisher's
DDL, and the reason (:mod:`subscriber.catalog.schema_differences`)."""

CONTROL: Final = sa.Table(
    "subscriber_control",
    CATALOG,
    sa.Column("controlid", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("targetidentifier", sa.String(32), nullable=False),
)
"""One row, with ``controlid`` 1: the target's identifier, as a cluster has its system identifier. Journals know their consumers by it."""

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
"""One row, with ``runnerid`` 1: the last `subscriber run` (:mod:`subscriber.runtime.heartbeat`); times are UTC, ISO 8601."""


def ensure_catalog(engine: sa.Engine) -> None:
    """Create the catalog's tables that do not exist yet, progress and statistics included.

    A catalog that an earlier version has made gets the columns that it lacks; what is in it stays as it is.
    """
    for metadata in (CATALOG, STATE):
        metadata.create_all(engine)
    with engine.connect() as connection:
        missing = [AddColumn(table, column) for table, column in _missing_columns(connection)]
        identified = connection.execute(sa.select(CONTROL)).one_or_none() is not None
    for change in missing:
        with engine.begin() as connection:
            connection.execute(change)
    if not identified:
        # Of two processes that come at the same time, the first gives it.
        with contextlib.suppress(sa.exc.IntegrityError), engine.begin() as connection:
            connection.execute(sa.insert(CONTROL).values(controlid=1, targetidentifier=uuid.uuid4().hex))


def target_identifier(connection: sa.Connection) -> str:
    """The target's identifier, 32 hexadecimal digits: given when its catalog was made, and never changed."""
    identifier: str = connection.execute(sa.select(CONTROL.c.targetidentifier)).scalar_one()
    return identifier


def _missing_columns(connection: sa.Connection) -> Iterator[tuple[sa.Table, sa.Column[Any]]]:
    for table in (*CATALOG.sorted_tables, *STATE.sorted_tables):
        # A query and not SQLAlchemy's reflection, which cannot read DuckDB's columns.
        nothing: sa.Select[Any] = sa.select(sa.literal_column("*")).select_from(table).where(sa.false())
        there = set(connection.execute(nothing).keys())
        yield from ((table, column) for column in table.columns if column.name not in there)
