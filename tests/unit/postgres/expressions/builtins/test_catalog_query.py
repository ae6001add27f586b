"""The SQL that lists catalog objects: which objects, and which columns a version has.

``tests/conformance/test_row_filter_expressions.py`` runs it on servers and compares the built-in
objects with the recorded ones.
"""

from __future__ import annotations

from subscriber.postgres.expressions.builtin_catalog import built_in_objects, own_objects


def test_built_in_objects_have_oids_that_the_sources_assign():
    text = built_in_objects(180000)
    assert "o.oid < 10000" in text
    assert "c.oid < 16384 AND c.opcdefault" in text


def test_own_objects_are_all_others():
    text = own_objects(180000)
    assert "o.oid >= 10000" in text
    assert "c.oid >= 16384 AND c.opcdefault" in text


def test_older_servers_are_not_asked_for_columns_that_they_lack():
    """pg_range has multiranges since 14, and pg_proc has prokind since 11."""
    assert "rngmultitypid" in own_objects(140000)
    assert "rngmultitypid" not in own_objects(130000)
    assert "p.prokind" in own_objects(110000)
    assert "p.prokind" not in own_objects(100000)
    assert "p.proisagg" in own_objects(100000)
