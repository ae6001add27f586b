"""What a publisher's server is like: whether it can decode its WAL with pgoutput, by its version,
and what puts it right; limits that a new subscription may reach; and the properties of its role.

::

    up to 18          wal_level = logical
    19, primary       wal_level = replica is enough: the first logical slot raises effective_wal_level
    19, standby       effective_wal_level follows the primary
    since August 2026 output_plugin_libraries names pgoutput, in all versions; older minor releases
                      have no such setting, and some roles may not see it

The queries work from version 10 on, and any role may run them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Final, LiteralString

from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.publisher.connection import Connection, features_of

UNCHECKED_ENCODING: Final = "SQL_ASCII"
"""The encoding of databases whose texts may have any bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The properties of a server and of the connection's role. ``version`` is libpq's number, such
    as 180006. Slots are those of all databases. ``max_slot_wal_keep_size`` (MB) and
    ``idle_replication_slot_timeout`` (seconds) are None without a limit, and before versions 13 and
    18. ``recovery_conflicts`` counts the queries of this database that a standby has canceled; None
    on a primary. ``may_replicate``: REPLICATION, superuser, or the privileges of rds_replication,
    by which Amazon RDS grants it.
    """

    version: int
    server_version: str
    decoding: DecodingSettings
    max_replication_slots: int
    replication_slots: int
    max_wal_senders: int
    wal_senders: int
    max_slot_wal_keep_size: int | None
    idle_replication_slot_timeout: int | None
    hot_standby_feedback: bool
    recovery_conflicts: int | None
    role: str
    may_replicate: bool
    database: str
    encoding: str
    is_managed_by_patroni: bool


_FACTS: Final[LiteralString] = (
    "SELECT current_setting('server_version'),"
    " current_setting('max_replication_slots')::int8, (SELECT count(*) FROM pg_replication_slots),"
    " current_setting('max_wal_senders')::int8, (SELECT count(*) FROM pg_stat_replication),"
    " (SELECT NULLIF(setting, '-1')::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),"
    " (SELECT NULLIF(setting, '0')::int8 * CASE unit WHEN 'min' THEN 60 WHEN 'ms' THEN 0.001 ELSE 1 END FROM pg_settings"
    "   WHERE name = 'idle_replication_slot_timeout')::int8,"
    " current_setting('hot_standby_feedback')::bool,"
    " CASE WHEN pg_is_in_recovery() THEN (SELECT confl_tablespace + confl_lock + confl_snapshot + confl_bufferpin + confl_deadlock"
    "   FROM pg_stat_database_conflicts WHERE datname = current_database()) END,"
    " current_user::text, (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)"
    "  OR EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication'"
    "   AND pg_has_role(current_user, oid, 'USAGE')),"
    " EXISTS (SELECT FROM pg_stat_activity WHERE application_name LIKE 'Patroni%')"
)


def read_server_facts(connection: Connection) -> ServerFacts:
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    text, slots, used_slots, senders, used_senders, keep, idle, feedback, conflicts, role, may, patroni = row
    return ServerFacts(
        version=features_of(connection).version,
        server_version=text,
        decoding=read_decoding_settings(connection),
        max_replication_slots=slots,
        replication_slots=used_slots,
        max_wal_senders=senders,
        wal_senders=used_senders,
        max_slot_wal_keep_size=keep,
        idle_replication_slot_timeout=idle,
        hot_standby_feedback=feedback,
        recovery_conflicts=conflicts,
        role=role,
        may_replicate=may,
        database=connection.info.dbname,
        encoding=connection.info.parameter_status("server_encoding") or "",
        is_managed_by_patroni=patroni,
    )


_PLUGIN: Final = "pgoutput"
_HINT_OF_19: Final = 'Set "wal_level" >= "logical" or create at least one logical slot when "wal_level" = "replica". '
"""PostgreSQL 19's own hint."""
_SETTINGS: Final[LiteralString] = (
    "SELECT current_setting('wal_level'), current_setting('effective_wal_level', true), pg_is_in_recovery(),"
    " (SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries')"
)


@dataclass(frozen=True, slots=True)
class DecodingObstacle:
    """A setting because of which a server cannot decode its WAL, and what is ``needed`` instead.
    The server's ``message`` comes when a slot is created. ``statement`` (without semicolon) puts it
    right, ``at_primary`` for a standby; ``advice`` is the server's own hint.
    """

    setting: str
    value: str
    needed: str
    message: str
    sqlstate: str
    statement: str
    needs_restart: bool = True
    at_primary: bool = False
    advice: str = ""

    @property
    def finding(self) -> str:
        return f'{self.setting} is "{self.value}", and logical decoding needs {self.needed}'

    def remedy(self, server: str) -> str:
        """The statements that put it right, as a script."""
        if not self.needs_restart:
            return f"{self.statement}; SELECT pg_reload_conf();"
        return f"{self.statement}; -- and restart the {self._place(server)}"

    def hint(self, server: str) -> str:
        """What to do, in words."""
        script = f"{self.statement}; and restart it." if self.needs_restart else self.remedy(server)
        return f"{self.advice}Run at the {self._place(server)}: {script}"

    def _place(self, server: str) -> str:
        return "primary" if self.at_primary else server


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """``effective_wal_level`` is None before PostgreSQL 19; ``output_plugin_libraries`` if the
    server has no such setting, or the role may not see it.
    """

    version: int
    wal_level: str
    effective_wal_level: str | None
    is_standby: bool
    output_plugin_libraries: str | None

    def obstacles(self) -> list[DecodingObstacle]:
        """Why the server cannot decode its WAL with pgoutput."""
        return [one for one in (self._level(), self._libraries()) if one is not None]

    def _level(self) -> DecodingObstacle | None:
        if not ServerFeatures(self.version).logical_decoding_on_demand:
            if self.wal_level == "logical":
                return None
            return DecodingObstacle(
                "wal_level",
                self.wal_level,
                '"logical"',
                'logical decoding requires "wal_level" >= "logical"',
                "55000",
                "ALTER SYSTEM SET wal_level = 'logical'",
            )
        if self.wal_level == "minimal":
            return DecodingObstacle(
                "wal_level",
                self.wal_level,
                '"replica" or "logical"',
                'replication slots can only be used if "wal_level" >= "replica"',
                "55000",
                "ALTER SYSTEM SET wal_level = 'replica'",
                advice=_HINT_OF_19,
            )
        if self.is_standby and self.effective_wal_level != "logical":
            return DecodingObstacle(
                "effective_wal_level",
                self.effective_wal_level or "",
                '"logical"',
                'logical decoding on standby requires "effective_wal_level" >= "logical" on the primary',
                "55000",
                "ALTER SYSTEM SET wal_level = 'logical'",
                at_primary=True,
                advice=_HINT_OF_19,
            )
        return None

    def _libraries(self) -> DecodingObstacle | None:
        if self.output_plugin_libraries is None:
            return None
        names = _listed(self.output_plugin_libraries)
        if _PLUGIN in names:
            return None
        # Each name is one value: a server that quotes the names of the list takes 'a, b' as one.
        values = ", ".join(quote_literal(name) for name in (*names, _PLUGIN))
        return DecodingObstacle(
            "output_plugin_libraries",
            self.output_plugin_libraries,
            f'"{_PLUGIN}" in it',
            f'library "{_PLUGIN}" may not be used as an output plugin',
            "42501",
            f"ALTER SYSTEM SET output_plugin_libraries = {values}",
            needs_restart=False,
        )


def read_decoding_settings(connection: Connection) -> DecodingSettings:
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None
    wal_level, effective, is_standby, libraries = row
    return DecodingSettings(
        version=features_of(connection).version,
        wal_level=wal_level,
        effective_wal_level=effective,
        is_standby=is_standby,
        output_plugin_libraries=libraries,
    )


def _listed(setting: str) -> list[str]:
    """The names in a setting with a list of names, of which some may be in double quotes."""
    return [name for row in csv.reader([setting], skipinitialspace=True) for one in row if (name := one.strip())]
