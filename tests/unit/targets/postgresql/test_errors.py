"""What PostgreSQL as a target says, in our words."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from subscriber.targets.postgresql.errors import translate_sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "next_step"),
    [
        ("28P01", "password"),
        ("53100", "Free space"),
        ("53300", "max_connections"),
        ("55P03", "pg_locks"),
        ("57014", "statement_timeout"),
        ("57P03", "tries again"),
    ],
)
def test_a_target_that_is_not_available_says_what_to_do(sqlstate, next_step):
    error = translate_sqlstate(sqlstate, SimpleNamespace(message_primary="secret"))
    assert (error.transient, error.sqlstate) == (True, sqlstate)
    assert next_step in str(error.hint)
    assert "secret" not in error.report()
