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

from subscriber.publication.definition import OPERATIONS, Publication
from tests.scripted_server import Answer, Asked, Row, ScriptedServer
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
        all_sequences: the publications that are FOR ALL SEQUENCES (PostgreSQL 19).
        system_identifier: the system identifier of the cluster.
        flushed: the end of the durable WAL.
        wal_level: the setting.
    """

    def __init__(self, *, version: int = 180000) -> None:
        super().__init__(version=version)
        self.tables: dict[str, PublishedRows] = {}
        self.publications = {"p": Publication("p", all_tables=True)}
        self.slots: dict[str, PublishedSlot] = {}
        self.sequences: dict[str, PublishedCounter] = {}
        self.other_origins: Sequence[str] = ()
        self.all_sequences: Sequence[str] = ()
        self.system_identifier = SYSTEM
        self.flushed = "0/500"
        self.wal_level = "logical"
        self.answers: dict[str, Answer] = {
            "SELECT 'type' ||": [],
            "current_database()::text, current_user": [
                {"server_encoding": "UTF8", "current_database": "shop", "current_user": "ann",
                 "current_schemas": ["pg_catalog", "public"], "current_schema": "public", "schemas": ["public"]}
            ],
            "c.relispartition, c.relnatts": lambda _: [
                {"oid": table.oid, "nspname": "public", "relname": name, "relkind": "r", "relpersistence": "p",
                 "relreplident": "d", "relispartition": False, "relnatts": len(table.columns)}
                for name, table in self._sorted()
            ],
            "format_type(a.atttypid, a.atttypmod), a.attcollation": lambda _: [
                {"attrelid": table.oid, "attname": column, "attnum": place, "atttypid": 23, "atttypmod": -1,
                 "format_type": "integer", "attcollation": 0, "attgenerated": "", "adbin": None}
                for table in self.tables.values() for place, column in enumerate(table.columns, start=1)
            ],
            "i.indisvalid AND i.indisunique": lambda _: [
                {"indrelid": table.oid, "columns": [table.columns[0]]}
                for table in self.tables.values() if table.has_key
            ],
            "FROM pg_inherits": [],
            "SELECT current_setting('server_encoding')": [{"server_encoding": "UTF8"}],
            "FROM pg_collation WHERE": [],
            "FROM pg_database": [{"is_c": False}],
            "pubname::text FROM pg_publication ORDER BY": lambda _: [{"pubname": name} for name in self.publications],
            "pubname::text, puballtables": lambda _: [
                {"oid": oid, "pubname": one.name, "puballtables": one.all_tables,
                 "published": [operation in one.publish for operation in OPERATIONS], "pubviaroot": one.via_root,
                 "pubgencols": "n"}
                for oid, one in enumerate(self.publications.values())
            ],
            "WHERE puballsequences": lambda _: [{"pubname": name} for name in self.all_sequences],
            "FROM pg_publication_rel": lambda _: [
                {"prpubid": oid, "nspname": entry.schema, "relname": entry.name, "prqual": entry.where,
                 "listed": entry.columns is not None, "columns": list(entry.columns or ()), "prexcept": False}
                for oid, one in enumerate(self.publications.values()) for entry in one.tables
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
                {"nspname": "public", "relname": name, "updates": True, "deletes": True, "index": None}
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
            "c.relreplident = 'f' OR COALESCE": lambda _: [
                {"nspname": "public", "relname": name, "oid": table.oid, "relreplident": "d", "attname": column,
                 "atttypid": 23, "atttypmod": -1, "generated": False, "key": place == 0 and table.has_key}
                for name, table in self._sorted() for place, column in enumerate(table.columns)
            ],
            "SELECT c.oid::int8, c.relnatts": [{"oid": 16384, "relnatts": 1}],
            "a.attnum::int4": [],
            "pg_relation_filenode": [],
            "SELECT EXISTS": [{"exists": False}],
            "c.relkind = 'p' FROM pg_class c": self._shape,
            "a.attidentity::text": lambda asked: [
                {"attrelid": table.oid, "attname": column, "atttypid": 23, "format_type": "integer",
                 "nullable": place > 0, "attidentity": "", "serial": False, "generated": False, "adbin": None}
                for table in self._chosen(asked) for place, column in enumerate(table.columns)
            ],
            "i.indisreplident AND": lambda asked: [
                {"indrelid": table.oid, "relname": "key", "indisprimary": True, "identity": False,
                 "deferrable": False, "nulls_distinct": True, "conditional": False, "columns": [table.columns[0]]}
                for table in self._chosen(asked) if table.has_key
            ],
            "FROM pg_constraint k": [],
            "pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE": [],
            "FROM pg_sequence": [],
            "JOIN pg_sequence": self._sequences,
            "last_value, is_called FROM": self._positions,
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

    def _shape(self, asked: Asked) -> list[Row]:
        named = re.search(r"c\.relname = '(\w+)'", asked.sql)
        assert named is not None
        table = self.tables.get(named[1])
        if table is None:
            return []
        return [{"oid": table.oid, "nspname": "public", "relname": named[1], "partitioned": False}]

    def slot_rows(self, asked: Asked) -> list[Row]:
        """The row of pg_replication_slots that is asked for."""
        slot = self.slots.get(asked.parameters[0])
        if slot is None:
            return []
        return [
            {"plugin": slot.plugin, "database": slot.database, "active_pid": slot.pid,
             "confirmed_flush_lsn": slot.confirmed, "two_phase": False, "lost": slot.lost, "restart_lsn": "0/400",
             "wal_status": "reserved", "safe_wal_size": None}
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
             "columns": [list(column) for column in one.columns]}
            for name, one in sorted(self.sequences.items())
        ]  # fmt: skip

    def _positions(self, asked: Asked) -> list[Row]:
        names = re.findall(r'"public"\."(\w+)"', asked.sql)
        return [
            {
                "number": number,
                "last_value": self.sequences[name].last_value,
                "is_called": self.sequences[name].is_called,
            }
            for number, name in enumerate(names)
        ]
