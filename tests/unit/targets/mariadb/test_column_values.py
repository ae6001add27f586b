"""The role values of MariaDB. Its rules are tested in test_values.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlalchemy.dialects import mysql

from subscriber.errors import TargetRelationError
from subscriber.targets import TargetColumn
from subscriber.targets.mariadb.column_values import MariaDBValues

VALUES = MariaDBValues()


@pytest.mark.parametrize(
    ("storage", "sql"),
    [
        ("int", "a"),
        ("date", "a"),
        ("datetime", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
        ("timestamp", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
        ("time", "regexp_replace(CAST(a AS CHAR), %s, %s)"),
    ],
)
def test_a_time_is_read_without_zeros_at_the_end_of_its_fraction(storage, sql):
    assert str(VALUES.readable(TargetColumn("a", storage, storage)).compile(dialect=mysql.dialect())) == sql


def test_the_rules_are_mariadbs():
    boolean = TargetColumn("a", "tinyint(1)", "tinyint")
    assert VALUES.bind_values(16, boolean, pa.array([True, None])) == [1, None]
    with pytest.raises(TargetRelationError):
        VALUES.check_column(25, boolean)
