"""The options ``history`` and ``history_tables``, and the table that they describe."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.schema.history_rules import (
    APPENDED,
    END,
    NO_HISTORY,
    OPEN_LSN,
    VALIDITY,
    HistoryRules,
    history_tables_text,
    parse_history_tables,
)
from subscriber.postgres.schema.shape import UniqueKey
from tests.frames import relation
from tests.table_shapes import column_shape, table_shape

T = relation("public.t", {"k": "int4", "v": "text"}, ["k"])


@pytest.mark.parametrize("text", ["", "public.t = append", 'public.t = append, "a.b"."T" = off'])
def test_the_tables_are_written_as_they_are_read(text):
    assert history_tables_text(parse_history_tables(text)) == text


@pytest.mark.parametrize("text", ["t = append", "public.t", "public.t = always", "public.t = append public.u = off"])
def test_another_text_is_refused_with_the_words_that_are_known(text):
    with pytest.raises(SQLSyntaxError, match='invalid syntax in parameter "history_tables"') as caught:
        parse_history_tables(text)
    assert caught.value.hint is not None and "append" in caught.value.hint


def test_a_table_that_is_named_twice_is_refused():
    with pytest.raises(UsageError, match=r'table "public\.t" is named more than once') as caught:
        parse_history_tables("public.t = append, public.t = off")
    assert caught.value.sqlstate == "42710"


def test_a_named_table_has_precedence_over_the_subscription():
    rules = HistoryRules("append", parse_history_tables("public.t = off"))
    assert (rules.of("public", "t"), rules.of("public", "u")) == ("off", "append")
    assert rules.any
    assert not HistoryRules("off", parse_history_tables("public.t = off")).any
    assert not NO_HISTORY.any


def test_a_relation_gets_the_columns_of_a_history_and_loses_its_identity():
    changed = HistoryRules("append").relation(T)
    assert [column.name for column in changed.columns] == ["k", "v", *APPENDED]
    assert not any(column.is_identity for column in changed.columns)
    assert NO_HISTORY.relation(T) is T


@pytest.mark.parametrize("name", ["_op", "_LSN", "_unchanged"])
def test_a_column_with_the_name_of_an_added_one_is_refused(name):
    rules = HistoryRules("append")
    with pytest.raises(NotSupportedError, match=name) as caught:
        rules.relation(relation("public.t", {"k": "int4", name: "text"}))
    assert (caught.value.sqlstate, caught.value.column) == ("42701", name)
    with pytest.raises(NotSupportedError, match=name):
        rules.shape(table_shape("public", "t", [column_shape(name, 25, "text")]))


def test_a_created_table_has_no_keys_constraints_and_defaults():
    shape = table_shape(
        "public",
        "t",
        [column_shape("k", 23, "integer", nullable=False, default="7", constant="7", identity="d")],
        ("k",),
        unique=(UniqueKey(("k",)),),
        checks=("k > 0",),
    )
    changed = HistoryRules("append").shape(shape)
    first, *added = changed.columns
    assert (first.nullable, first.default, first.constant, first.identity) == (True, None, None, "")
    assert [column.name for column in added] == list(APPENDED)
    assert [column.name for column in added if not column.nullable] == ["_op", "_lsn", "_sequence"]
    assert (changed.key_columns, changed.unique, changed.checks) == ((), (), ())
    assert NO_HISTORY.shape(shape) is shape


def test_copied_rows_are_older_than_all_changes_after_their_snapshot():
    rules = HistoryRules("append")
    copied = rules.copied("public", "t", LSN(0x16B3778))
    assert copied[0] == "'insert'::text AS \"_op\""
    assert copied[1] == f'{0x16B3778}::bigint AS "_lsn"'
    assert copied[4] == '1::bigint AS "_sequence"'
    assert NO_HISTORY.copied("public", "t", LSN(7)) == ()


# Versions -----------------------------------------------------------------------------------------


def test_a_relation_with_versions_finds_rows_by_its_key_and_the_end():
    changed = HistoryRules("scd2").relation(T)
    assert [column.name for column in changed.columns] == ["k", "v", *VALIDITY]
    assert [column.name for column in changed.columns if column.is_identity] == ["k", *END]


def test_the_key_of_a_table_with_versions_has_the_end():
    shape = table_shape("public", "t", [column_shape("k", 23, "integer", nullable=False)], ("k",))
    changed = HistoryRules("scd2").shape(shape)
    assert changed.key_columns == ("k", *END)
    assert [column.name for column in changed.columns if column.nullable] == ["k", "_valid_from", "_valid_to"]


def test_versions_of_a_table_without_a_key_are_refused():
    with pytest.raises(NotSupportedError, match=r'table "public\.t" has no key') as caught:
        HistoryRules("scd2").shape(table_shape("public", "t", [column_shape("v", 25, "text")]))
    assert caught.value.hint is not None and "append" in caught.value.hint


def test_copied_rows_are_open_versions():
    copied = HistoryRules("scd2").copied("public", "t", LSN(7))
    assert [one.partition("::")[0] for one in copied] == ["NULL", "NULL", "7", "1", str(OPEN_LSN), "0"]
