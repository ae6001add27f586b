"""Tables with a history hold what a model says, however the stream is cut into frames and batches,
by the exact and by the bulk path. ``HISTORY_TABLES=1000`` tries 1,000 histories a test.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.applier import ANY_FORMAT, ApplyResult, Rules
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.apply.history_frames import end_history
from subscriber.base.errors import ConflictError, NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.history_rules import OPEN_LSN, HistoryRules
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.targets import Target
from subscriber.targets.ddl import create_table
from subscriber.verify.canonical_text import text_of
from subscriber.verify.present_rows import present_rows
from tests.frames import OIDS, frame, transaction
from tests.property.test_apply import BAG, KEYED, SHAPES, Publisher, operations
from tests.target_databases import opened

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]
Image = tuple[str, int, Sequence[m.ColumnValue] | None]
"""The operation, whether it is a new row, and the values that were sent."""
KINDS = (
    "sqlite",
    "duckdb",
    pytest.param("mariadb", marks=pytest.mark.server),
    pytest.param("postgresql", marks=pytest.mark.server),
)
EXAMPLES = int(os.environ.get("HISTORY_TABLES") or 20)
FIRST = LSN(500)
_TIME, _MOMENT = 1_234_567, "2000-01-01 00:00:01.234567+00"

histories = st.lists(operations, min_size=1, max_size=8)
cuts = st.lists(st.integers(0, 200), max_size=4)


def published(shape: m.Relation) -> PublisherTable:
    """The table that the publisher announces."""
    names = {oid: name for name, oid in OIDS.items()}
    columns = tuple(
        PublisherColumn(
            column.name, number, column.type_oid, type_name=names[column.type_oid].replace("int4", "integer")
        )
        for number, column in enumerate(shape.columns, 1)
    )
    key = tuple(column.name for column in shape.columns if column.is_identity and shape.replica_identity != "f")
    return PublisherTable(shape.relation_id, shape.namespace, shape.name, "table", columns, key_columns=key)


@pytest.fixture(scope="module", params=KINDS)
def target(request, tmp_path_factory) -> Iterator[Target]:
    with opened(request.param, request, tmp_path_factory.mktemp("history")) as made:
        with made.begin() as connection:
            CATALOG.create_all(connection)
        yield made


def create_again(target: Target, reshape: Callable[[PublisherTable], PublisherTable], progress: LSN) -> None:
    """The tables without rows, and the catalog with this progress, in new sessions: one of
    PostgreSQL has plans for the tables of the last example.
    """
    target.engine.dispose()
    with target.begin() as connection:
        for table in CATALOG.sorted_tables:
            connection.execute(sa.delete(table))
        for shape in SHAPES:
            place = target.ddl.qualified(shape.namespace, shape.name)
            if target.shapes.reflect(connection, shape.namespace, shape.name) is not None:
                connection.execute(sa.schema.DropTable(sa.Table(place[1], sa.MetaData(), schema=place[0])))
            create_table(target, reshape(published(shape))).create(connection)
    with target.begin() as connection:
        OriginProgress(1).create(connection, progress)


def applied(
    target: Target,
    rules: HistoryRules,
    make: Callable[..., ExactApplier],
    transactions: Sequence[Sequence[m.Message]],
    at: Sequence[int],
    together: int,
) -> list[ApplyResult]:
    """The results of the batches. Each begins before the progress, as after a restart."""
    create_again(target, rules.shape, FIRST)
    options = replace(ANY_FORMAT, history=rules.everywhere, history_tables=rules.tables)
    results: list[ApplyResult] = []
    for last in range(together, len(transactions) + together, together):
        applier = make(target, subscription="s", subid=1, read_rules=lambda _: Rules(options=options))
        part = [message for one in transactions[:last] for message in one]
        end = LSN(1000 * min(last, len(transactions)))
        text = target.capabilities.postgresql_text
        results.append(apply_batch(applier, partial(frames_of, part, at, text=text), FIRST, end))
    return results


def played(publisher: Publisher, history: Sequence[Sequence[Any]]) -> list[list[m.Message]]:
    """The transactions that the publisher sends."""
    transactions = []
    for number, steps in enumerate(history, start=1):
        changes = [change for step in steps if (change := publisher.run(*step)) is not None]
        transactions.append(transaction(1000 * number, *changes, xid=number, timestamp=_TIME))
    return transactions


def frames_of(messages: Sequence[m.Message], at: Sequence[int], *, text: bool) -> Iterator[Any]:
    """The messages as frames, cut at some places."""
    bounds = [0, *sorted({place % (len(messages) + 1) for place in at}), len(messages)]
    for first, last in itertools.pairwise(bounds):
        yield frame(SHAPES, messages[first:last], text=text)


def contents(target: Target, shape: m.Relation, columns: Sequence[str]) -> Counter[Row]:
    with target.begin() as connection:
        table = target.shapes.reflect(connection, shape.namespace, shape.name)
        assert table is not None
        clause = table.clause()
        types = dict.fromkeys(("_commit_timestamp", "_valid_from", "_valid_to"), OIDS["timestamptz"])
        rows = connection.execute(sa.select(*(clause.c[name] for name in columns)))
        return Counter(
            tuple(
                text_of(types[name], value) if name in types else value
                for name, value in zip(columns, row, strict=True)
            )
            for row in rows
        )


# Appended rows ------------------------------------------------------------------------------------

APPENDED = ("_op", "_lsn", "_commit_timestamp", "_xid", "_sequence", "_unchanged")


def appended(transactions: Sequence[Sequence[m.Message]], shape: m.Relation) -> Counter[Row]:
    """The rows that the documentation promises, change by change."""
    rows: list[Row] = []
    for messages in transactions:
        begin = messages[0]
        assert isinstance(begin, m.Begin)
        for number, change in enumerate(messages[1:-1], 1):
            for op, is_new, image in _images(change, shape):
                sent = image or (m.NULL,) * len(shape.columns)
                left = ", ".join(
                    column.name for column, value in zip(shape.columns, sent, strict=True) if value is m.UNCHANGED
                )
                values = [_python(column, value) for column, value in zip(shape.columns, sent, strict=True)]
                rows.append((*values, op, begin.final_lsn, _MOMENT, begin.xid, 2 * number + is_new, left or None))
    return Counter(rows)


def _images(change: m.Message, shape: m.Relation) -> list[Image]:
    match change:
        case m.Truncate() if shape.relation_id in change.relation_ids:
            return [("truncate", 0, None)]
        case m.Insert() if change.relation_id == shape.relation_id:
            return [("insert", 1, change.new)]
        case m.Delete() if change.relation_id == shape.relation_id:
            return [("delete", 0, _old(change, shape))]
        case m.Update() if change.relation_id == shape.relation_id:
            after: Image = ("update_postimage", 1, _new(change))
            return [after] if change.old is None else [("update_preimage", 0, _old(change, shape)), after]
    return []


def _old(change: m.Update | m.Delete, shape: m.Relation) -> Sequence[m.ColumnValue]:
    assert change.old is not None
    if change.old_kind == "O":
        return change.old
    pairs = zip(shape.columns, change.old, strict=True)
    return [value if column.is_identity else m.UNCHANGED for column, value in pairs]


def _new(change: m.Update) -> Sequence[m.ColumnValue]:
    if change.old_kind != "O":
        return change.new
    assert change.old is not None
    return [old if new is m.UNCHANGED else new for old, new in zip(change.old, change.new, strict=True)]


def _python(column: m.RelationColumn, value: m.ColumnValue) -> object:
    if not isinstance(value, m.TextValue):
        return None
    return int(value.data) if column.type_oid == OIDS["int4"] else value.data.decode()


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(histories, cuts, st.integers(1, 9), st.sampled_from([ExactApplier, BulkApplier]))
def test_an_append_table_has_a_row_for_each_image_of_each_change(target, history, at, together, make):
    transactions = played(Publisher(), history)
    results = applied(target, HistoryRules("append"), make, transactions, at, together)
    assert all(not result.conflicts for result in results)
    for shape in SHAPES:
        names = [*(column.name for column in shape.columns), *APPENDED]
        assert contents(target, shape, names) == appended(transactions, shape)


def test_a_table_without_history_is_not_changed_by_the_history_of_another(target):
    rules = HistoryRules("off", ((("public", "bag"), "append"),))
    insert = (m.Insert(1, (m.TextValue(b"1"), m.TextValue(b"a"), m.NULL)), m.Insert(2, (m.TextValue(b"1"), m.NULL)))
    update = m.Update(1, None, None, (m.TextValue(b"1"), m.TextValue(b"b"), m.UNCHANGED))
    truncate = m.Truncate((1, 2), cascade=False, restart_identity=False)
    transactions = [transaction(1000, *insert, update)]
    applied(target, rules, BulkApplier, transactions, [], 1)
    assert contents(target, KEYED, ["k", "v"]) == Counter({(1, "b"): 1})
    applied(target, rules, BulkApplier, [*transactions, transaction(2000, truncate)], [], 1)
    assert not contents(target, KEYED, ["k"])
    assert contents(target, BAG, ["a", "_op"]) == Counter({(1, "insert"): 1, (None, "truncate"): 1})


# The rows that appended rows imply ---------------------------------------------------------------


@dataclass
class RememberingPublisher(Publisher):
    """A publisher that truncates both tables, and knows the rows of ``keyed`` whose unchanged value
    was sent with another key only.
    """

    moved: set[int] = field(default_factory=set)

    def run(self, operation: str, key: int, other: int, text: str | None) -> m.Message | None:
        if operation == "truncate" and key == 0:
            self.keyed.clear()
            self.bag.clear()
            self.moved.clear()
            return m.Truncate((1, 2), cascade=False, restart_identity=False)
        message = super().run(operation, key, other, text)
        if message is not None and operation in ("put", "move", "remove"):
            self.moved.discard(key)
            self.moved |= {other} if operation == "move" else set()
        return message


def implied(target: Target, shape: m.Relation) -> Counter[Row]:
    """The rows that ``subscriber verify`` compares."""
    names = [column.name for column in shape.columns]
    with target.begin() as connection:
        table = target.shapes.reflect(connection, shape.namespace, shape.name)
        assert table is not None
        present = present_rows(connection, table, shape, "s")
        sources = [
            one.read_from for one in (present.table, present.removed) if one is not None and one.read_from is not None
        ]
        rows = [Counter(map(tuple, connection.execute(sa.select(*(one.c[name] for name in names))))) for one in sources]
    assert not rows[1:] or rows[1] <= rows[0]
    return rows[0] - sum(rows[1:], Counter())


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@example([[("put", 2, 0, "x"), ("remove", 2, 0, None), ("put", 1, 0, "y"), ("move", 1, 2, None)]], ExactApplier)
@example([[("put", 1, 0, "x"), ("touch", 1, 0, "y"), ("touch", 1, 0, None)], [("put", 2, 0, "z")]], BulkApplier)
@given(histories, st.sampled_from([ExactApplier, BulkApplier]))
def test_the_appended_rows_imply_the_rows_of_the_publisher(target, history, make):
    publisher = RememberingPublisher()
    applied(target, HistoryRules("append"), make, played(publisher, history), [], 3)
    assert implied(target, BAG) == +publisher.bag
    if publisher.moved:
        with pytest.raises(NotSupportedError, match="does not have all values of the present rows"):
            implied(target, KEYED)
    else:
        assert implied(target, KEYED) == Counter({(key, *values): 1 for key, values in publisher.keyed.items()})


# Versions -----------------------------------------------------------------------------------------

VALIDITY = ("_valid_from", "_valid_to", "_from_lsn", "_from_sequence", "_to_lsn", "_to_sequence")
VERSIONS = HistoryRules("scd2", ((("public", "bag"), "append"),))


@dataclass
class TruncatingPublisher(Publisher):
    """A publisher that truncates both tables."""

    def run(self, operation: str, key: int, other: int, text: str | None) -> m.Message | None:
        if operation != "truncate" or key != 0:
            return super().run(operation, key, other, text)
        self.keyed.clear()
        self.bag.clear()
        return m.Truncate((1, 2), cascade=False, restart_identity=False)


def versions(transactions: Sequence[Sequence[m.Message]]) -> Counter[Row]:
    """The versions of the rows of ``keyed``, as the documentation promises them."""
    rows: list[Row] = []
    there: dict[object, tuple[list[object], Row]] = {}

    def end(key: object, lsn: int, number: int) -> list[object]:
        values, (begins, from_lsn, from_sequence) = there.pop(key)
        rows.append((*values, begins, _MOMENT, from_lsn, from_sequence, lsn, 2 * number))
        return values

    for messages in transactions:
        begin = messages[0]
        assert isinstance(begin, m.Begin)
        lsn = begin.final_lsn
        for number, change in enumerate(messages[1:-1], 1):
            match change:
                case m.Truncate() if 1 in change.relation_ids:
                    for key in list(there):
                        end(key, lsn, number)
                case m.Delete(relation_id=1):
                    end(_python(KEYED.columns[0], change.old[0]), lsn, number)
                case m.Insert(relation_id=1) | m.Update(relation_id=1):
                    values = [_python(*pair) for pair in zip(KEYED.columns, change.new, strict=True)]
                    if isinstance(change, m.Update):
                        key = values[0] if change.old is None else _python(KEYED.columns[0], change.old[0])
                        pairs = zip(change.new, end(key, lsn, number), values, strict=True)
                        values = [old if sent is m.UNCHANGED else new for sent, old, new in pairs]
                    there[values[0]] = (values, (_MOMENT, lsn, 2 * number))
    rows += [
        (*values, begins, None, from_lsn, number, OPEN_LSN, 0) for values, (begins, from_lsn, number) in there.values()
    ]
    return Counter(rows)


@settings(max_examples=EXAMPLES, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(histories, cuts, st.integers(1, 9), st.sampled_from([ExactApplier, BulkApplier]))
def test_a_table_has_the_versions_of_each_row(target, history, at, together, make):
    transactions = played(TruncatingPublisher(), history)
    results = applied(target, VERSIONS, make, transactions, at, together)
    assert all(not result.conflicts for result in results)
    assert contents(target, KEYED, ["k", "v", "big", *VALIDITY]) == versions(transactions)


@pytest.mark.parametrize("make", [ExactApplier, BulkApplier])
def test_a_change_of_a_row_without_an_open_version_is_a_conflict_and_keeps_no_version(target, make):
    row = (m.TextValue(b"1"), m.TextValue(b"a"), m.NULL)
    changes: list[m.Message] = [m.Update(1, None, None, row), m.Delete(1, "K", row), m.Insert(1, row)]
    (result,) = applied(target, VERSIONS, make, [transaction(1000, *changes)], [], 1)
    assert result.conflicts == {"update_missing": 1, "delete_missing": 1}
    assert contents(target, KEYED, ["k", "_to_lsn"]) == Counter({(1, OPEN_LSN): 1})


@pytest.mark.parametrize("make", [ExactApplier, BulkApplier])
def test_a_row_has_one_open_version(target, make):
    insert = m.Insert(1, (m.TextValue(b"1"), m.NULL, m.NULL))
    with pytest.raises(ConflictError) as caught:
        applied(target, VERSIONS, make, [transaction(1000, insert, insert)], [], 1)
    assert caught.value.sqlstate == "23505"


# Copies in place of earlier rows ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "columns", "ended"),
    [
        ("append", ("k", "_op", "_lsn", "_sequence"), {(1, "insert", 992, 3): 1, (None, "truncate", 1500, 0): 1}),
        ("scd2", ("k", "_from_lsn", "_to_lsn", "_to_sequence"), {(1, 992, 1500, 0): 1}),
    ],
)
def test_a_copy_that_replaces_rows_ends_them_and_keeps_their_history(target, mode, columns, ended):
    rules = HistoryRules(mode, ((("public", "bag"), "append"),))
    row = (m.TextValue(b"1"), m.NULL, m.NULL)
    applied(target, rules, ExactApplier, [transaction(1000, m.Insert(1, row))], [], 1)
    with target.begin() as connection:
        table = target.shapes.reflect(connection, "public", "keyed")
        assert table is not None
        end_history(connection, table, mode, LSN(1500))
        copied = {"k": 1, "_op": "insert", "_lsn": 1500, "_sequence": 1}
        opened = {"k": 1, "_from_lsn": 1500, "_from_sequence": 1, "_to_lsn": OPEN_LSN, "_to_sequence": 0}
        connection.execute(sa.insert(table.clause()).values(copied if mode == "append" else opened))
    again = (1, "insert", 1500, 1) if mode == "append" else (1, 1500, OPEN_LSN, 0)
    assert contents(target, KEYED, columns) == Counter({**ended, again: 1})


@pytest.fixture(autouse=True, scope="module")
def _always_regroup() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        patch.setattr(reorder, "_LEAST_SAVED", 0)
        patch.setattr(reorder, "_LEAST_MESSAGES", 1)
        yield
