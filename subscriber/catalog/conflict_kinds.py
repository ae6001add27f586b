"""The kinds of conflicts, by PostgreSQL 18's names (section C.4)."""

from __future__ import annotations

from enum import StrEnum


class ConflictKind(StrEnum):
    """PostgreSQL's ConflictType, in the order of pg_stat_subscription_stats."""

    INSERT_EXISTS = "insert_exists"
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    UPDATE_EXISTS = "update_exists"
    UPDATE_MISSING = "update_missing"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"
