"""Why a batch is applied in the publisher's order, as metrics and the dashboard name it."""

from __future__ import annotations

import pytest

from subscriber.apply import reorder
from subscriber.apply.applier import ApplyResult, Rules
from subscriber.apply.exact import BulkApplier
from subscriber.apply.reorder import OrderMatters
from subscriber.base.lsn import LSN
from subscriber.operate.metrics import _REASONS
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.value_rules import parse_value_rules
from subscriber.targets import Target
from tests.appliers import obeying
from tests.changes import delete, insert, update
from tests.frames import finishes_of, frame, prepared, relation, transaction

T = relation("public.t", {"a": "int4", "b": "text"}, key=["a"])
END = LSN(10_000)


class Batches:
    """Applies one batch after the other to a table; ``rules`` are those of the next one."""

    def __init__(self, target: Target) -> None:
        self.rules = Rules()
        self._applier = BulkApplier(target, subscription="s", subid=1, read_rules=lambda _connection: self.rules)
        self._end = LSN(100)

    def apply(self, messages: list[m.Message], *, before: int | None = None) -> ApplyResult:
        end = LSN(self._end + 10_000)
        finishes = finishes_of(messages, two_phase=False)
        result = self._applier.apply(
            [frame([T], messages, finishes=finishes)],
            start=self._end,
            end=end,
            before=None if before is None else LSN(before),
        )
        self._end = result.progress
        return result

    def changes(self, *more: m.Message) -> list[m.Message]:
        """Transactions that may be reordered, and ``more`` in the last one."""
        messages: list[m.Message] = []
        for number in range(8):
            finish = self._end + 1000 + 10 * number
            messages += transaction(finish, update((str(number), "x")), xid=number)
        return [*messages, *transaction(self._end + 2000, *more)]


@pytest.fixture
def batches(target: Target, execute, monkeypatch) -> Batches:
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 0)
    execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b CHARACTER VARYING(3))")
    found = Batches(target)
    # The first batch records the shape of the table, in order.
    found.apply(transaction(200, *(insert(str(key), "x") for key in range(8))))
    return found


def test_a_batch_that_may_be_reordered_has_none(batches):
    assert batches.apply(batches.changes()).exact is None


def test_a_batch_whose_reordered_attempt_has_failed(batches):
    messages = batches.changes(delete("77"), delete("78"))
    with pytest.raises(OrderMatters):
        batches.apply(messages)
    assert batches.apply(messages).exact == "order_matters"
    assert batches.apply(batches.changes()).exact is None


def test_a_second_pass_that_ends_before_the_transaction_that_fails(batches):
    messages = batches.changes()
    assert batches.apply(messages, before=messages[-1].end_lsn).exact == "failed_batch"


def test_a_transaction_that_is_to_be_skipped(batches):
    """C40: a transaction may be left out only at its place."""
    batches.rules = Rules(skip_lsn=LSN(1))
    assert batches.apply(batches.changes()).exact == "skip"


def test_a_prepared_transaction(batches):
    messages = [*batches.changes(), *prepared(batches._end + 3000, insert("50", "x"), xid=9)]
    assert batches.apply(messages).exact == "prepared_transaction"


def test_a_value_that_is_replaced(batches):
    """The place of each replaced value is recorded."""
    batches.rules = obeying(unrepresentable_values=parse_value_rules("null"))
    assert batches.apply(batches.changes()).exact is None
    assert batches.apply(batches.changes(insert("50", "long"))).exact == "replaced_values"


def test_each_reason_is_a_series_before_it_has_occurred():
    """These tests have them all."""
    assert set(_REASONS) == {
        "", "order_matters", "failed_batch", "skip", "prepared_transaction", "replaced_values",
    }  # fmt: skip
