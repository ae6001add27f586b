from __future__ import annotations

from subscriber.targets import TargetTable


def test_the_last_writer_of_a_row_is_not_known(target):
    """C20"""
    table = TargetTable(None, "t", (), None)
    with target.engine.connect() as connection:
        assert target.row_versions.columns() == ()
        assert target.row_versions.read(connection, table, []) is None
        assert target.row_versions.index_of_partition(connection, table, "i", ("public", "t_1")) == "i"
