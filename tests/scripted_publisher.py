"""A publisher for tests of commands: tables, publications, slots and sequences in memory.

It answers the queries of :mod:`subscriber.publisher` and understands no SQL
(:class:`~tests.scripted_server.ScriptedServer`). It has no replication connections, so it creates
no slots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from subscriber.postgres.publication.definition import OPERATIONS, Publication
from tests import catalog_rows
from tests.catalog_rows import COLUMNS, INDEXES, KEYS, PARENTS, TABLES
from tests.scripted_server import POSITIONS, Answer, Asked, Row, ScriptedServer
from tests.streams import SYSTEM


@dataclass
class PublishedSlot:
    """A row of pg_replication_slots."""

    confirmed: str = "0/500"
    pid: int | None = None
    plugin: str = "pgoutput"
    database: str = "shop"
    lost: str | None = None


@dataclass
class PublishedCounter:
    """A sequence: the columns of the published tables that take values from it, and where it is."""

    last_value: int
    columns: Sequence[tuple[str, str, str]] = ()
    used: bool = True
    increment: int = 1
    may_read: bool = True
    is_called: bool = True


@dataclass
class PublishedRows:
    """A table of schema public; its columns are integers, and the first one is its primary key."""

    columns: Sequence[str]
    has_key: bool = True
    may_read: bool = True
    oid: int = field(default=16384, init=False)


class ScriptedPublisher(ScriptedServer):
    """A publisher with tables, all of which are published as long as the server's publications are
    used.

    Attributes:
        tables: the tables by name.
        publications: the publications as definitions, by name.
        slots: the replication slots by name.
        sequences: the sequences of schema public by name.
        other_origins: the publications with tables that the publisher itself subscribes to.
        system_identifier: the system identifier of the cluster.
        flushed: the end of the durable WAL.
        wal_level: the setting.
        in_recovery: whether it is a standby.
    """

    def __init__(self, *, version: int = 180000) -> None:
        super().__init__(version=version)
        self.tables: dict[str, PublishedRows] = {}
        self.publications = {"p": Publication("p", all_tables=True)}
        self.slots: dict[str, PublishedSlot] = {}
        self.sequences: dict[str, PublishedCounter] = {}
        self.other_origins: Sequence[str] = ()
        self.system_identifier = SYSTEM
        self.flushed = "0/500"
        self.wal_level = "logical"
        self.in_recovery = False
        self.answers: dict[str, Answer] = {
            **POSITIONS,
            "SELECT pg_is_in_recovery()": lambda _: [{"pg_is_in_recovery": self.in_recovery}],
            "SELECT 'type' ||": [],
            "current_database()::text, current_user": [
                {"server_encoding": "UTF8", "current_database": "shop", "current_user": "ann",
                 "current_schemas": ["pg_catalog", "public"], "current_schema": "public", "schemas": ["public"],
                 "has_known_hashes": True}
            ],
            COLUMNS: lambda asked: [
                catalog_rows.column(table.oid, place, column, nullable=place > 1)
                for table in self._chosen(asked) for place, column in enumerate(table.columns, start=1)
            ],
            INDEXES: lambda asked: [
                catalog_rows.index(table.oid, "key", table.columns[0], primary=True)
                for table in self._chosen(asked) if table.has_key
            ],
            "SELECT current_setting('server_encoding')": [{"server_encoding": "UTF8"}],
            "FROM pg_collation WHERE": [],
            "FROM pg_collation c WHERE": [],
            "FROM pg_database": [{"is_c": False}],
            "pubname::text FROM pg_publication ORDER BY": lambda _: [{"pubname": name} for name in self.publications],
            "pubname::text, puballtables": lambda _: [
                {"oid": oid, "pubname": one.name, "puballtables": one.all_tables,
                 "published": [operation in one.publish for operation in OPERATIONS], "pubviaroot": one.via_root,
                 "pubgencols": "n", "puballsequences": one.all_sequences}
                for oid, one in enumerate(self.publications.values())
            ],
            "FROM pg_publication_rel": lambda _: [
                {"prpubid": oid, "nspname": entry.schema, "relname": entry.name, "prqual": entry.where,
                 "listed": entry.columns is not None, "columns": list(entry.columns or ()), "prexcept": False}
                for oid, one in enumerate(self.publications.values()) for entry in one.tables
            ],
            "FROM pg_publication_sequences": lambda asked: [
                {"schemaname": "public", "sequencename": name}
                for name in sorted(self.sequences)
                if any(one.all_sequences for one in self.publications.values() if one.name in asked.parameters[0])
            ],
            "FROM pg_publication_namespace": lambda _: [
                {"pnpubid": oid, "nspname": schema}
                for oid, one in enumerate(self.publications.values()) for schema in one.schemas
            ],
            "pg_control_system()": lambda _: [{"system_identifier": int(self.system_identifier)}],
            "current_setting('wal_level')": lambda _: [
                {"wal_level": self.wal_level, "effective_wal_level": None, "pg_is_in_recovery": False, "libraries": None}
            ],
            "pg_current_wal_flush_lsn()": lambda _: [{"lsn": self.flushed}],
            "pg_drop_replication_slot": self._drop_slot,
            "FROM pg_replication_slots": self.slot_rows,
            "array_agg(DISTINCT filter)": lambda _: [
                {"nspname": "public", "relname": name, "relkind": "r", "columns": list(table.columns),
                 "filters": [None], "generated": []}
                for name, table in self._sorted()
            ],
            "bool_or(updates)": lambda _: [
                {"oid": table.oid, "nspname": "public", "relname": name, "updates": True, "deletes": True}
                for name, table in self._sorted() if not table.has_key
            ],
            "pg_subscription_rel": lambda _: [{"pubname": name} for name in self.other_origins],
            "pubupdate OR p.pubdelete": lambda _: [{"nspname": "public", "relname": name} for name in self.tables],
            "SELECT pubname FROM pg_publication": lambda _: [{"pubname": name} for name in self.publications],
            "has_table_privilege": lambda _: [
                {"nspname": "public", "relname": name, "current_user": "ann", "in_schema": True,
                 "whole": table.may_read, "closed": [] if table.may_read else list(table.columns)}
                for name, table in self._sorted()
            ],
            KEYS: lambda asked: [catalog_rows.key(one.oid, *one.columns[:1]) for one in self._chosen(asked) if one.has_key],
            PARENTS: [],
            "SELECT c.oid::int8, c.relnatts": [{"oid": 16384, "relnatts": 1}],
            "attmissingval": [],
            "pg_relation_filenode": [],
            "SELECT EXISTS": [{"exists": False}],
            TABLES: self._tables,
            "FROM pg_constraint k": [],
            "FROM pg_sequence": [],
            "JOIN pg_sequence": self._sequences,
            "last_value, is_called, ": self._positions,
            "SELECT c.oid::int8, n.nspname::text, c.relname::text FROM unnest": lambda _: [],
            "%(oids)s": [],
        }  # fmt: skip

    def add_table(self, name: str, *columns: str, has_key: bool = True, may_read: bool = True) -> None:
        """Create a table and publish it."""
        table = PublishedRows(columns, has_key, may_read)
        table.oid = 16384 + len(self.tables)
        self.tables[name] = table

    def _sorted(self) -> list[tuple[str, PublishedRows]]:
        return sorted(self.tables.items())

    def _chosen(self, asked: Asked) -> list[PublishedRows]:
        (oids,) = asked.parameters
        return [table for table in self.tables.values() if table.oid in oids]

    def _tables(self, asked: Asked) -> list[Row]:
        names = self.tables if asked.parameters is None else asked.parameters[1]
        return [catalog_rows.relation(self.tables[name].oid, name) for name in names if name in self.tables]

    def slot_rows(self, asked: Asked) -> list[Row]:
        """The rows of pg_replication_slots that are asked for."""
        return [
            {"slot_name": name, "plugin": slot.plugin, "database": slot.database, "active_pid": slot.pid,
             "confirmed_flush_lsn": slot.confirmed, "two_phase": False, "lost": slot.lost, "restart_lsn": "0/400",
             "wal_status": "reserved", "safe_wal_size": None, "failover": False, "synced": False,
             "inactive_since": None, "spill_bytes": 0}
            for name, slot in self.slots.items() if name in asked.parameters[0]
        ]  # fmt: skip

    def _drop_slot(self, asked: Asked) -> list[Row]:
        name = asked.parameters[0]
        if self.slots[name].pid is not None:
            raise psycopg.errors.ObjectInUse(f'replication slot "{name}" is active for PID {self.slots[name].pid}')
        del self.slots[name]
        return []

    def _sequences(self, _: Asked) -> list[Row]:
        return [
            {"nspname": "public", "relname": name, "seqincrement": one.increment, "in_schema": True,
             "may_read": one.may_read, "current_user": "ann", "used": one.used,
             "columns": [list(column) for column in one.columns], "format_type": "bigint", "seqstart": 1,
             "seqmin": 1, "seqmax": 2**63 - 1, "seqcycle": False}
            for name, one in sorted(self.sequences.items())
        ]  # fmt: skip

    def _positions(self, asked: Asked) -> list[Row]:
        names = re.findall(r'FROM "public"\."(\w+)"', asked.sql)
        return [
            {
                "number": number,
                "last_value": self.sequences[name].last_value,
                "is_called": self.sequences[name].is_called,
                "page_lsn": None,
            }
            for number, name in enumerate(names)
        ]
