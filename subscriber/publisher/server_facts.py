"""What a migration must know of the publisher's server before it begins: limits that a new
subscription may reach, and the properties of its role.

The queries work from version 10 on, and any role may run them. Nothing is judged here: see
:mod:`subscriber.migration.check_publisher`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

from subscriber.publisher.logical_decoding import DecodingSettings, read_decoding_settings
from subscriber.publisher.sql_connection import Connection, features_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The properties of a server and of the connection's role.

    Attributes:
        version: the version as libpq reports it, such as 180006.
        server_version: the version as the server writes it, such as ``18.6``.
        decoding: what the server's logical decoding depends on.
        max_replication_slots: the setting.
        replication_slots: the number of slots that exist, of all databases.
        max_wal_senders: the setting.
        wal_senders: the number of walsenders that run.
        max_slot_wal_keep_size: the setting in megabytes; None for no limit, and before version 13.
        idle_replication_slot_timeout: the setting in seconds; None if it is off, and before version
            18.
        hot_standby_feedback: the setting.
        recovery_conflicts: the number of queries of this database that the standby has canceled;
            None on a primary.
        role: the connection's role.
        may_replicate: whether the role has REPLICATION, is a superuser, or has the privileges of
            rds_replication, by which Amazon RDS grants replication.
        database: the connection's database.
        is_managed_by_patroni: whether Patroni is connected to the server.
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
    """The properties of a connection's server and role.

    Raises:
        psycopg.Error: the query failed.
    """
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    (
        text,
        slots,
        used_slots,
        senders,
        used_senders,
        keep,
        idle,
        feedback,
        conflicts,
        role,
        may,
        patroni,
    ) = row
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
        is_managed_by_patroni=patroni,
    )
