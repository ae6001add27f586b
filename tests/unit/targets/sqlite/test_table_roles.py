from __future__ import annotations

from subscriber.targets.sqlite.loading import SQLiteLoading
from subscriber.targets.sqlite.writing import SQLiteWriting


def test_a_target_has_sqlites_roles(target):
    assert isinstance(target.writing, SQLiteWriting)
    assert isinstance(target.loading, SQLiteLoading)
