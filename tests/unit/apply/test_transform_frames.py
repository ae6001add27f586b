"""Changes of tables whose columns have transforms."""

from __future__ import annotations

import pytest

from subscriber.apply.history_frames import HistoryFrames
from subscriber.apply.transform_frames import TransformFrames
from subscriber.base.errors import NotSupportedError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.history_rules import HistoryRules
from subscriber.postgres.schema.transform_rules import parse_transforms
from tests.changes import T, U, delete, insert, update
from tests.frames import frame, transaction

RULES = parse_transforms("public.t.b = partial(1, 0), public.t.c = constant('-')")


def turned(*changes: m.Message, text: bool = False, binary: tuple[str, ...] = (), rules=RULES):
    (found,) = TransformFrames(rules, as_text=text).of(
        [frame([T, U], transaction(1000, *changes), text=text, binary=binary)]
    )
    return found


@pytest.mark.parametrize("text", [False, True])
def test_new_values_are_those_of_the_target_and_other_tables_are_as_they_were(text):
    found = turned(insert("1", "abc", "d"), insert("1", "abc", into=2), text=text)
    by_name = {group.relation.name: group for group in found.groups}
    assert by_name["t"].new.to_pydict() == {"a": ["1" if text else 1], "b": ["a**"], "c": ["-"]}
    assert by_name["u"].relation is U
    assert by_name["u"].new.to_pydict()["b"] == ["abc"]


def test_old_rows_are_those_of_the_target_and_what_was_not_sent_stays_absent():
    """absence_is_typed"""
    found = turned(
        update(("1", "xyz", m.UNCHANGED), old=("1", "abc", "d")),
        update(("2", m.UNCHANGED, m.UNCHANGED), key=("1", None, None)),
        delete("2", None, None),
    )
    full, moved, deleted = found.groups
    assert full.old.to_pydict() == {"a": [1], "b": ["a**"], "c": ["-"]}
    assert full.new.to_pydict() == {"a": [1], "b": ["x**"]}
    assert moved.new.to_pydict() == {"a": [2]}
    assert (deleted.old.to_pydict(), deleted.new) == ({"a": [2]}, None)


def test_a_truncate_names_the_relations_that_changes_name():
    rules = parse_transforms("public.t.b = sha256('0')")
    truncate = m.Truncate((T.relation_id, U.relation_id), cascade=False, restart_identity=False)
    found = turned(truncate, rules=rules)
    ((changed, same),) = found.controls.relations.values()
    assert changed == rules.relation(T)
    assert same is U


def test_a_value_that_came_in_binary_format_is_text_after_its_transform():
    found = turned(insert("1", "abc", "d"), binary=("a", "b"))
    assert found.groups[0].binary == {"a"}


def test_a_history_has_the_values_of_the_target():
    rules = parse_transforms("public.t.a = constant('7'), public.t.b = partial(1, 0)")
    history = HistoryFrames(HistoryRules("append"), as_text=False)
    frames = history.of([frame([T, U], transaction(1000, update(("2", "abc", "c"), key=("1", None, None))))])
    (found,) = TransformFrames(rules, as_text=False).of(frames)
    news = [group.new.to_pydict() for group in found.groups if group.new is not None]
    rows = [(new["a"], new["_op"]) for new in news]
    assert rows == [([7], ["update_preimage"]), ([7], ["update_postimage"])]


def test_a_relation_that_lacks_a_named_column_stops_the_batch():
    with pytest.raises(NotSupportedError, match='does not send column "d"'):
        turned(insert("1", "abc", "d"), rules=parse_transforms("public.t.d = null"))
