from __future__ import annotations

import pytest
import sqlalchemy as sa


def test_an_base_target_has_none_of_the_optional_roles(target):
    assert (target.prepared, target.origins, target.run_lock, target.cluster) == (None, None, None, None)


def test_nothing_is_assumed_of_a_base_target(target):
    capabilities = target.capabilities
    assert not (capabilities.postgresql_text or capabilities.postgresql_types or capabilities.transactional_ddl)
    assert not (capabilities.multi_rowcount or capabilities.column_case)


def test_a_failed_statement_does_not_show_its_parameters(target):
    """names_are_data: SQLAlchemy would add them to its exception's text."""
    with pytest.raises(sa.exc.OperationalError) as raised, target.engine.connect() as connection:
        connection.execute(sa.text("SELECT missing WHERE 1 = :value"), {"value": "secret"})
    assert "secret" not in str(raised.value)
