"""The role values of SQLite. Its rules are tested in test_values.py."""

from __future__ import annotations

import pyarrow as pa
import pytest

from subscriber.errors import TargetRelationError
from subscriber.targets import TargetColumn
from subscriber.targets.sqlite.column_values import SQLiteValues

VALUES = SQLiteValues()
NUMERIC = TargetColumn("a", "JSON", "NUMERIC")


def test_the_rules_are_sqlites():
    assert VALUES.bind_values(16, TargetColumn("a", "TEXT", "TEXT"), pa.array([True, None])) == ["t", None]
    VALUES.check_column(23, NUMERIC)
    with pytest.raises(TargetRelationError, match="cannot hold type json exactly"):
        VALUES.check_column(114, NUMERIC)
