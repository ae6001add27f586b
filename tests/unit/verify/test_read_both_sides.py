from __future__ import annotations

import pickle
from functools import partial

from subscriber.base.errors import SubscriberError
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.targets import open_target
from subscriber.verify.canonical_text import CanonicalColumn
from subscriber.verify.read_both_sides import target_task
from subscriber.verify.row_digests import BucketChoice, BucketSums
from subscriber.verify.table_sides import TargetSide

CHOICE = BucketChoice(16)


def side_of(target):
    with target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1), (2), (3), (40), (50)")
        table = target.shapes.reflect(connection, "public", "t")
    relation = Relation(1, "public", "t", "d", (RelationColumn(1, "a", 23, -1),))
    return TargetSide(table, relation, (CanonicalColumn(23, table.columns[0]),), (0,), CHOICE)


def test_tasks_of_all_ranges_have_the_sums_of_the_table(tmp_path):
    url = f"sqlite:///{tmp_path / 't.db'}"
    with open_target(url) as target:
        side = side_of(target)
        whole = BucketSums(CHOICE)
        with target.engine.connect() as connection:
            ranges = side.ranges(target, connection, 3)
            for batch in side.batches(target, connection):
                whole.add(batch)
    together = BucketSums(CHOICE)
    rows = 0
    for part in ranges:
        task = pickle.loads(pickle.dumps(partial(target_task, url, side, part, BucketSums(CHOICE))))
        (result,) = pickle.loads(pickle.dumps(list(task(iter([1, 2])))))
        assert result.side == "target"
        together.merge(result.collected)
        rows += result.rows
    assert len(ranges) == 3
    assert together.rows == rows == 5
    assert len(together.differing(whole)) == 0


def test_the_error_of_a_task_is_its_result(tmp_path):
    url = f"sqlite:///{tmp_path / 't.db'}"
    with open_target(url) as target:
        side = side_of(target)
        with target.engine.connect() as connection:
            (part, *_) = side.ranges(target, connection, 3)
        with target.begin() as connection:
            connection.exec_driver_sql("DROP TABLE t")
    (error,) = target_task(url, side, part, BucketSums(CHOICE), iter(()))
    assert isinstance(error, SubscriberError)
