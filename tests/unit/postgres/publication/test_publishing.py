"""What travels to the executors, and what they make of it once."""

from __future__ import annotations

import dataclasses
import pickle

import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, PublisherError, PublisherTablesOutdated, RowFilterError
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Compiled, Publishing, compile_any, compiled
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from tests.publications import as_sent, entry, python_filter, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
P = Publication("p", tables=(entry(T, "a > 1"),))
Q = Publication("q", tables=(entry(T, "b = 'x'"),), publish=frozenset({"insert"}))


class Compiler:
    """Compiles filters of one column, the first letter of their text, and remembers what it was
    asked.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.tables: list[PublisherTable] = []

    def __call__(self, texts, one, known):
        self.asked.append(tuple(texts))
        self.tables.append(one)
        return python_filter([text[0] for text in texts], lambda row: True)


def publishing(*publications: Publication, known: tuple[PublisherTable, ...] = (T,)) -> Publishing:
    return Publishing(publications, tables(*known))


def test_it_is_compiled_once_a_process_however_often_it_arrives():
    one = publishing(P)
    arrived = [pickle.loads(pickle.dumps(one)) for _ in range(2)]
    assert arrived[0] == one
    assert compiled(arrived[0]) is compiled(arrived[1])
    assert compiled(publishing(P, Q)) is not compiled(one)


def test_it_differs_by_anything_in_it():
    assert publishing(P) == publishing(P)
    assert len({publishing(P), publishing(P, Q), publishing(Q, P), Publishing((P,), tables(T, version=150000))}) == 4
    assert Publishing((P,), tables(T), frozenset({as_sent(T)})) != publishing(P)


def test_filters_are_compiled_at_the_first_change_and_once():
    compiler = Compiler()
    programs = Compiled(publishing(P, Q), compiler)
    assert compiler.asked == []
    program = programs.program(as_sent(T))
    assert programs.program(as_sent(T)) is program
    # Update and delete have the same one.
    assert sorted(compiler.asked) == [("a > 1",), ("a > 1", "b = 'x'")]
    assert program.filters["update"] is program.filters["delete"]


def test_the_same_filter_twice_is_one():
    compiler = Compiler()
    Compiled(publishing(P, Publication("r", tables=(entry(T, "a > 1"),))), compiler).program(as_sent(T))
    assert compiler.asked == [("a > 1",)]


def test_what_is_unfiltered_is_not_compiled():
    """Rule B9."""
    compiler = Compiler()
    program = Compiled(publishing(P, Publication("all", all_tables=True)), compiler).program(as_sent(T))
    assert (compiler.asked, program.filters) == ([], {})


def test_a_filter_s_column_of_another_type_asks_for_the_tables_and_is_refused_if_they_know_no_better():
    other = as_sent(table("public.t", {"a": "text", "b": "text"}, key=["a"], oid=1))
    with pytest.raises(PublisherTablesOutdated):
        Compiled(publishing(P), Compiler()).program(other)
    settled = Publishing((P,), tables(T), frozenset({other}))
    with pytest.raises(NotSupportedError, match='needs column "a", which is not in the stream as type') as caught:
        Compiled(settled, Compiler()).program(other)
    assert (caught.value.relation, caught.value.column) == ("public.t", "a")


def test_a_stored_column_that_is_not_sent_is_computed_for_the_filter():
    """Rules B12a, B29: before PostgreSQL 18 nothing sends it."""
    generated = table("public.t", {"a": "int4", "s": "int4"}, key=["a"], oid=1, generated={"s": "stored"})
    compiler = Compiler()
    programs = Compiled(publishing(Publication("p", tables=(entry(generated, "a > 1"),)), known=(generated,)), compiler)
    programs.program(as_sent(generated, without=["s"]))
    programs.program(as_sent(generated))
    assert [one.columns[1].generated for one in compiler.tables] == ["virtual", "stored"]


def test_tables_that_were_read_anew_settle_the_shape_and_keep_what_is_gone():
    gone = table("public.gone", {"a": "int4"}, key=["a"], oid=2)
    before = table("public.before", {"a": "int4"}, key=["a"], oid=3)
    after = table("public.after", {"a": "int4"}, key=["a"], oid=3)
    asked = as_sent(table("public.new", {"a": "int4"}, oid=4))
    again = publishing(P, known=(T, gone, before)).with_tables(tables(T, after), asked)
    assert set(again.tables.tables) == {T.key, gone.key, after.key}
    assert again.settled == {asked}
    assert again.publications == (P,)


def test_publications_follow_a_table_that_was_renamed():
    after = table("s2.after", {"a": "int4", "b": "text"}, key=["a"], oid=T.oid)
    again = publishing(P).with_tables(tables(after))
    assert [one.key for one in again.publications[0].tables] == [("s2", "after")]
    assert [one.tables for one in again.earlier] == [(T,)]  # earlier changes have the former name
    assert not again.is_placed


@pytest.mark.parametrize(("version", "result"), [(180000, True), (160000, None)])
def test_a_filter_is_the_publishers_versions(version, result):
    """18 has taught EXTRACT the weeks of an interval; before, the server stops there."""
    intervals = table("public.i", {"i": "interval"}, key=["i"], oid=5)
    known = dataclasses.replace(tables(intervals), server_version=version)
    row_filter = compile_any(["EXTRACT(week FROM i) = 1"], intervals, known)
    rows = {"i": pa.array(["8 days"])}
    if result is None:
        with pytest.raises(RowFilterError, match="not supported for type interval"):
            row_filter.evaluate(rows, 1)
    else:
        assert row_filter.evaluate(rows, 1).to_pylist() == [result]
    again = pickle.loads(pickle.dumps(row_filter))
    assert again is row_filter


# What is published --------------------------------------------------------------------------------


def test_a_copy_reads_what_the_publications_say():
    """D7, D8"""
    deletes = Publication("d", tables=(entry(T, "b = 'x'"),), publish=frozenset({"delete"}))
    one = publishing(P, deletes)
    published = PublishedTable("public", "t", "table", ("a", "b"), ("a > 1", "b = 'x'"))
    assert one.published_tables() == [published]
    assert one.published_table("public", "t") == published
    with pytest.raises(PublisherError, match=r'^table "public\.u" is not published any more$') as caught:
        one.published_table("public", "u")
    assert caught.value.sqlstate == "42704"


def test_the_actions_of_a_table_are_those_of_all_publications_that_list_it():
    deletes = Publication("d", tables=(entry(T, "b = 'x'"),), publish=frozenset({"delete"}))
    inserts = Publication("i", tables=(entry(T, "b = 'x'"),), publish=frozenset({"insert"}))
    assert publishing(deletes, inserts).published_actions("public", "t") == frozenset({"delete", "insert"})
    assert publishing(deletes).published_actions("public", "u") is None


def test_tables_change_whose_updates_or_deletes_are_published():
    assert publishing(P).changing_tables() == {("public", "t")}
    assert publishing(Q).changing_tables() == set()


@pytest.mark.parametrize(
    ("publication", "listed"),
    [
        (Publication("p", tables=(entry(T, columns=["a"]),)), True),
        (Publication("p", tables=(entry(T),)), False),
        (Publication("p", all_tables=True), False),
        (Publication("p", schemas=("public",)), False),
    ],
)
def test_a_table_has_a_column_list_only_where_an_entry_of_a_publication_has_one(publication, listed):
    assert publishing(publication).has_column_list("public", "t") is listed
    assert publishing(P, publication).has_column_list("public", "t") is listed
    assert not publishing(publication).has_column_list("public", "unknown")
