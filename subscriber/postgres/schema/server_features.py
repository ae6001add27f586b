"""The features of a PostgreSQL server, by its version. Every query that needs another form on an
older server depends on one of them. A feature's version is the release whose notes introduce it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, overload

from subscriber.base.errors import NotSupportedError

OLDEST_VERSION: Final = 100000
"""The oldest supported version: pgoutput was introduced with PostgreSQL 10."""

_PROTOCOL_VERSIONS: Final = ((160000, 4), (150000, 3), (140000, 2), (OLDEST_VERSION, 1))


class _Since:
    """A feature: on an instance whether the server has it, on the class its first version."""

    def __init__(self, version: int) -> None:
        self._version = version

    @overload
    def __get__(self, instance: None, owner: type[ServerFeatures]) -> int: ...

    @overload
    def __get__(self, instance: ServerFeatures, owner: type[ServerFeatures]) -> bool: ...

    def __get__(self, instance: ServerFeatures | None, owner: type[ServerFeatures]) -> int | bool:
        return self._version if instance is None else instance.version >= self._version


@dataclass(frozen=True)
class ServerFeatures:
    """The features of a server of one version, which is as libpq reports it.

    >>> ServerFeatures(140000).row_filters, ServerFeatures.row_filters
    (False, 150000)
    """

    version: int

    # PostgreSQL 11
    published_truncate = _Since(110000)
    """TRUNCATE is replicated (``pubtruncate``)."""
    covering_indexes = _Since(110000)
    """INCLUDE in indexes: ``indnkeyatts`` columns of ``indkey`` are the key."""
    missing_values = _Since(110000)
    """ADD COLUMN with a constant default writes no rows (``attmissingval``)."""
    constraints_of_partitions = _Since(110000)
    """Foreign keys of partitioned tables (``conparentid``)."""

    # PostgreSQL 12
    generated_columns = _Since(120000)
    """Stored generated columns (``attgenerated``)."""
    partition_functions = _Since(120000)
    """``pg_partition_tree`` and ``pg_partition_ancestors``."""
    table_access_methods = _Since(120000)
    """Tables need not be heaps (``relam``)."""

    # PostgreSQL 13
    publish_via_partition_root = _Since(130000)
    """The option ``publish_via_partition_root`` of publications (``pubviaroot``)."""
    slot_wal_status = _Since(130000)
    """``max_slot_wal_keep_size``; ``wal_status`` and ``safe_wal_size`` of slots."""

    # PostgreSQL 14
    slot_two_phase = _Since(140000)
    """The option ``two_phase`` of slots. Subscriptions have the option since PostgreSQL 15."""
    slot_statistics = _Since(140000)
    """``pg_stat_replication_slots``."""
    binary_transfer = _Since(140000)
    """The option ``binary`` of pgoutput."""
    logical_messages = _Since(140000)
    """The option ``messages`` of pgoutput."""
    detach_concurrently = _Since(140000)
    """ALTER TABLE … DETACH PARTITION CONCURRENTLY (``inhdetachpending``)."""
    tid_range_scans = _Since(140000)
    """A range of ``ctid`` can be scanned without reading the whole table."""
    idle_session_timeout = _Since(140000)
    """The setting ``idle_session_timeout``."""

    # PostgreSQL 15
    row_filters = _Since(150000)
    """WHERE in publications (``prqual``)."""
    column_lists = _Since(150000)
    """Column lists in publications (``prattrs``)."""
    schema_publications = _Since(150000)
    """FOR TABLES IN SCHEMA (``pg_publication_namespace``)."""
    two_phase = _Since(150000)
    """Prepared transactions are sent when they are prepared."""
    replication_options_in_parentheses = _Since(150000)
    """``CREATE_REPLICATION_SLOT … (SNAPSHOT …)``; before, options have no parentheses."""
    nulls_not_distinct = _Since(150000)
    """Unique keys with NULLS NOT DISTINCT (``indnullsnotdistinct``)."""
    set_null_columns = _Since(150000)
    """ON DELETE SET NULL and SET DEFAULT with a list of columns (``confdelsetcols``)."""
    icu_databases = _Since(150000)
    """A database may have an ICU locale (``datlocprovider``)."""

    # PostgreSQL 16
    icu_rules = _Since(160000)
    """ICU collations with rules of their own (``collicurules``, ``daticurules``)."""
    origin_option = _Since(160000)
    """The option ``origin`` of pgoutput."""
    binary_copy = _Since(160000)
    """Initial copies in binary format (``binary`` of subscriptions)."""
    tables_of_several_publications = _Since(160000)
    """``pg_get_publication_tables`` takes several, and omits partitions beside their root."""
    lists_of_live_columns = _Since(160000)
    """A list of all columns is no list, whatever columns have been dropped (rule B40)."""

    # PostgreSQL 17
    failover_slots = _Since(170000)
    """The option ``failover`` of slots."""
    slot_invalidation_reason = _Since(170000)
    """``invalidation_reason`` of slots."""
    slots_survive_upgrade = _Since(170000)
    """pg_upgrade keeps logical replication slots."""
    builtin_locale_provider = _Since(170000)
    """The builtin provider of collations (``colllocale``, ``datlocale``)."""
    transaction_timeout = _Since(170000)
    """The setting ``transaction_timeout``."""

    identity_of_partitions = _Since(170000)
    """Partitions share the identity columns of their root."""

    # PostgreSQL 18
    published_generated_columns = _Since(180000)
    """``publish_generated_columns`` (``pubgencols``), and such columns in column lists."""
    virtual_columns = _Since(180000)
    """Generated columns may be VIRTUAL (``attgenerated``)."""
    missing_publications = _Since(180000)
    """A walsender continues, with a warning, if a publication does not exist."""
    unenforced_constraints = _Since(180000)
    """NOT ENFORCED and PERIOD in foreign keys (``conenforced``, ``conperiod``)."""

    # PostgreSQL 19
    excepted_tables = _Since(190000)
    """FOR ALL TABLES EXCEPT (``prexcept``)."""
    published_sequences = _Since(190000)
    """FOR ALL SEQUENCES (``puballsequences``). Before, publications contain tables only."""
    sync_errors_of_sequences = _Since(190000)
    """``sync_table_error_count``, ``sync_seq_error_count``; before, ``sync_error_count``."""
    logical_decoding_on_demand = _Since(190000)
    """With ``wal_level = replica``, the first logical slot enables logical decoding."""

    @property
    def major(self) -> int:
        return self.version // 10000

    @property
    def protocol_version(self) -> int:
        """The highest version of pgoutput's protocol that the server supports (rule A33)."""
        return next(protocol for since, protocol in _PROTOCOL_VERSIONS if self.version >= since)


OPTION_VERSIONS: Final[Mapping[str, int]] = {
    "two_phase": ServerFeatures.two_phase,
    "failover": ServerFeatures.failover_slots,
    "origin": ServerFeatures.origin_option,
    "binary": ServerFeatures.binary_transfer,
    "messages": ServerFeatures.logical_messages,
}
"""The first version that has an option of slots, streams or subscriptions, if not the oldest."""


def check_option_versions(
    version: int, wanted: Mapping[str, Any], versions: Mapping[str, int] = OPTION_VERSIONS
) -> None:
    """Refuse options, by name and value, for which a server is too old."""
    for name, value in wanted.items():
        since = versions[name]
        if version < since:
            raise NotSupportedError(
                f"{name} = {str(value).lower()} needs PostgreSQL {since // 10000} or newer at the publisher",
                detail=f"The publisher is PostgreSQL {version // 10000}.",
                hint=f"Leave {name} out.",
            )
