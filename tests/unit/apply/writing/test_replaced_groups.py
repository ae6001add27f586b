"""The groups of a frame as they are written: each is converted once."""

from __future__ import annotations

import pytest

from subscriber.apply.relations.local_relations import RelationMap
from subscriber.apply.walk import Run
from subscriber.apply.writing.pipelined_changes import PipelinedChanges
from subscriber.apply.writing.replaced_groups import ReplacedGroups
from subscriber.apply.writing.unrepresentable import ReplacedTally, Replacement
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.protocol.changes import Frame
from subscriber.schema.value_rules import parse_value_rules
from tests.frames import frame, relation, values

R = relation("public.r", {"k": "int4", "v": "text"}, ["k"])


def insert(key: int, value: str) -> m.Insert:
    return m.Insert(R.relation_id, values(str(key), value))


@pytest.fixture
def groups(target, execute):
    """The groups of a frame, and the option that replaces values longer than three characters."""
    execute("CREATE TABLE r (k INT PRIMARY KEY, v CHARACTER VARYING(3))")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        pipelined = PipelinedChanges(target, connection, relations, lambda: None)

        def opened(made: Frame, rules: str | None = "null") -> ReplacedGroups:
            replacement = None if rules is None else Replacement(target, parse_value_rules(rules))
            found = ReplacedGroups(replacement, relations, pipelined)
            found.open_frame(made)
            return found

        yield opened


def test_null_takes_the_place_of_a_value_that_is_too_long(groups):
    made = frame([R], [insert(1, "abc"), insert(2, "abcd")])
    group = groups(made).group(0)
    assert group.new.column("v").to_pylist() == ["abc", None]


def test_a_group_is_converted_once_for_a_frame(groups):
    found = groups(frame([R], [insert(1, "abcd")]))
    assert found.group(0) is found.group(0)
    found.open_frame(frame([R], [insert(1, "abc")]))
    assert found.group(0).new.column("v").to_pylist() == ["abc"]


@pytest.mark.parametrize("rules", [None, "public.other.* = null"])
def test_without_the_option_a_group_stays_as_it_was_sent(groups, rules):
    made = frame([R], [insert(1, "abcd")])
    found = groups(made, rules)
    assert found.group(0) is made.groups[0]
    assert not found.may_replace(made)


@pytest.mark.parametrize(("value", "expected"), [("abc", False), ("abcd", True)])
def test_only_a_frame_with_such_a_value_is_written_in_order(groups, value, expected):
    made = frame([R], [insert(1, value)])
    assert groups(made).may_replace(made) is expected


def test_a_frame_whose_table_is_not_known_is_written_in_order(groups):
    unknown = relation("public.unknown", {"k": "int4"}, ["k"], oid=7)
    made = frame([unknown], [m.Insert(7, values("1"))])
    assert groups(made).may_replace(made)


def test_only_the_values_of_a_run_are_counted(groups):
    found = groups(frame([R], [insert(1, "abcd"), insert(2, "abcd"), insert(3, "abcd")]))
    found.group(0)
    tally = ReplacedTally()
    found.count(Run(0, 1, 3), tally, LSN(192))
    ((column, counted),) = tally.columns.items()
    assert (column.column, counted.count, counted.last) == ("v", 2, 192)
