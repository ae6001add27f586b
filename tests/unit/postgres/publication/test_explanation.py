"""Why a change was sent, rewritten or left out."""

from __future__ import annotations

import pytest

from subscriber.base.errors import RowFilterError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.combine import ROW_OPERATIONS
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.publication.explanation import Explanation, FilterResult, explain
from subscriber.postgres.publication.publishing import Compiled, Publishing
from tests.frames import frame, values
from tests.publications import as_sent, entry, python_filter, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, identity="full", oid=1)
ROOT = table("public.root", {"a": "int4", "b": "text"}, key=["a"], oid=2, partitioned=True)
LEAF = table("public.leaf", {"a": "int4", "b": "text"}, key=["a"], oid=3, partition_of=ROOT)


def compile_where(texts, one, known):
    """``a > 5`` is what it says, null for NULL; ``fails`` cannot be evaluated."""

    def above(row):
        if "fails" in texts and not ("a > 5" in texts and row["a"] is not None and row["a"] > 5):
            raise RowFilterError("fails")
        bounds = [int(text.removeprefix("a > ")) for text in texts if text != "fails"]
        return None if row["a"] is None else any(row["a"] > bound for bound in bounds)

    return python_filter("a", above)


def explained(change: m.Message, *publications: Publication, source=T) -> Explanation:
    (group,) = frame([as_sent(source)], [change]).groups
    programs = Compiled(Publishing(publications, tables(T, ROOT, LEAF)), compile_where)
    (found,) = explain(group, programs)
    return found


def publication(name: str, where: str | None, *publish: Operation) -> Publication:
    return Publication(name, tables=(entry(T, where),), publish=frozenset(publish or ROW_OPERATIONS))


def insert(a: str | None, source=T) -> m.Insert:
    return m.Insert(source.oid, values(a, "x"))


def update(old: str | None, new: str | None) -> m.Update:
    return m.Update(T.oid, "O", values(old, "x"), values(new, "x"))


P, Q = publication("p", "a > 5"), publication("q", "a > 1")


@pytest.mark.parametrize(
    ("change", "old", "new", "sent"),
    [
        (insert("7"), "-", "t", "I"),
        (insert(None), "-", "null", None),
        (m.Delete(T.oid, "O", values("2", "x")), "f", "-", None),
        (update("7", "2"), "t", "f", "D"),
        (update(None, "7"), "null", "t", "I"),
        (update("2", "3"), "f", "f", None),
    ],
)
def test_the_filter_s_results_and_what_was_sent(change, old, new, sent):
    """Rules B11, B15-B17."""
    found = explained(change, P)
    assert (found.reason, found.old, found.new, found.sent) == ("filtered", old, new, sent)
    assert found.filter_results == (FilterResult("p", "a > 5", old, new),)
    assert found.sent_as == (as_sent(T) if sent else None)


def test_each_publication_says_what_it_thought_until_one_is_true():
    """Rule B9: what follows a true filter is not evaluated."""
    found = explained(update("3", "7"), P, Q)
    assert (found.old, found.new, found.sent) == ("t", "t", "U")
    assert found.filter_results == (FilterResult("p", "a > 5", "f", "t"), FilterResult("q", "a > 1", "t", "-"))


def test_a_filter_that_was_not_evaluated_does_not_fail_in_the_explanation():
    found = explained(insert("7"), P, publication("q", "fails"))
    assert found.filter_results == (FilterResult("p", "a > 5", "-", "t"), FilterResult("q", "fails", "-", "-"))


def test_where_one_publication_is_unfiltered_no_filter_is_asked():
    """Rules B9, B10."""
    found = explained(insert("0"), P, publication("all", None, "insert"))
    assert (found.reason, found.new, found.sent) == ("unfiltered", "-", "I")
    assert found.filter_results == (FilterResult("p", "a > 5", "-", "-"), FilterResult("all", None, "-", "-"))


def test_what_is_not_published_has_no_judgements():
    """Rule B19."""
    nowhere = explained(insert("7"), Publication("p", tables=(entry(LEAF),)))
    other = explained(insert("7"), publication("p", "a > 5", "update"))
    assert (nowhere.reason, nowhere.sent, nowhere.filter_results) == ("no publication", None, ())
    assert (other.reason, other.sent, other.filter_results) == ("operation not published", None, ())


def test_a_change_is_explained_as_what_it_was_sent_as():
    """Rule B12."""
    root = Publication("p", tables=(entry(ROOT, "a > 1"),), via_root=True)
    found = explained(insert("3", LEAF), root, source=LEAF)
    assert (found.relation.name, found.sent) == ("leaf", "I")
    assert found.sent_as is not None
    assert found.sent_as.name == "root"


def test_each_change_of_a_group_has_its_own_explanation():
    (group,) = frame([as_sent(T)], [insert("7"), insert("1"), insert("9")]).groups
    found = explain(group, Compiled(Publishing((P,), tables(T)), compile_where))
    assert [(one.position, one.new, one.sent) for one in found] == [(0, "t", "I"), (1, "f", None), (2, "t", "I")]
