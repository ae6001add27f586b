"""Workloads about publications: members, options, filters, column lists, partitions."""

from __future__ import annotations

from subscriber.postgres.logical_decoding import Column, Toasted
from tests.workloads.registry import entry, publication, publish, random_text, table, workload


def _rows(publisher, name="t"):
    session = publisher.session()
    session.insert(name, a=1, b="x")
    session.update(name, {"a": 1}, b="y")
    session.update(name, {"a": 1}, a=2)
    session.delete(name, {"a": 2})
    session.truncate(name)


@workload
def all_tables(publisher):
    table(publisher)
    table(publisher, "S.u")
    publish(publisher, all_tables=True)
    yield
    _rows(publisher)
    _rows(publisher, "S.u")


@workload
def tables_in_a_schema(publisher):
    table(publisher)
    table(publisher, "S.u")
    table(publisher, "S.v")
    publish(publisher, "t", schemas=("S",))
    yield
    _rows(publisher)
    _rows(publisher, "S.u")
    table(publisher, "S.later")
    _rows(publisher, "S.later")
    session = publisher.session()
    session.insert("S.v", a=1)
    publish(publisher, "t")
    session.insert("S.v", a=2)
    session.insert("t", a=9)


@workload(publications="p,q,r")
def the_option_publish(publisher):
    for name in ("t", "u", "v"):
        table(publisher, name)
    publish(publisher, "t", publish=["insert"])
    publish(publisher, "t", "u", name="q", publish=["update", "truncate"])
    publish(publisher, "v", name="r", publish=["delete"])
    yield
    for name in ("t", "u", "v"):
        _rows(publisher, name)


@workload(publications='"P q", p')
def publications_with_names_in_quotes(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", name="P q")
    publish(publisher, "u")
    yield
    _rows(publisher)
    _rows(publisher, "u")


@workload(publications="p,missing")
def a_publication_that_does_not_exist(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    publisher.session().insert("t", a=1)


@workload
def publications_that_change(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1)
    session.insert("u", a=1)
    publish(publisher, "t", "u")
    session.insert("t", a=2)
    session.insert("u", a=2)
    publish(publisher, "t", "u", publish=["insert"])
    session.update("t", {"a": 1}, b="x")
    session.insert("t", a=3)
    publish(publisher, "u", publish=["insert"])
    session.insert("t", a=4)
    session.insert("u", a=4)
    publish(publisher, entry("u", where="a > 5"), publish=["insert"])
    session.insert("u", a=5)
    session.insert("u", a=6)


@workload
def a_publication_that_changes_inside_of_a_transaction(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", "u")
    yield
    session = publisher.session()
    session.begin()
    session.insert("t", a=1)
    session.insert("u", a=1)
    session.create_publication(publication("u"))
    session.insert("t", a=2)
    session.insert("u", a=2)
    session.create_publication(publication("u", entry("t", columns=["a"])))
    session.insert("t", a=3, b="x")
    session.commit()
    session.insert("t", a=4, b="y")


@workload
def column_lists(publisher):
    table(publisher, a="integer", b="text", c="integer", d="text", key=("c", "a"))
    table(publisher, "u")
    publish(publisher, entry("t", columns=["d", "a", "c"]), entry("u", columns=["a", "b"]))
    yield
    session = publisher.session()
    session.insert("t", a=1, b="hidden", c=1, d="x")
    session.update("t", {"a": 1}, b="hidden, too")
    session.update("t", {"a": 1}, c=2)
    session.delete("t", {})
    _rows(publisher, "u")
    session.add_column("u", Column("e", "integer"))
    session.insert("u", a=5, e=6)
    session.add_column("t", Column("e", "integer"))
    session.insert("t", a=5, c=5, e=6)


@workload(publications="p,q")
def equal_column_lists(publisher):
    table(publisher, a="integer", b="text", c="integer")
    publish(publisher, entry("t", columns=["a", "b", "c"]), publish=["insert", "update", "delete"])
    publish(publisher, "t", name="q")
    yield
    _rows(publisher)


@workload(publications="p,q")
def different_column_lists(publisher):
    table(publisher, a="integer", b="text", c="integer")
    table(publisher, "u")
    publish(publisher, entry("t", columns=["a", "b"]), "u")
    publish(publisher, entry("t", columns=["a", "c"]), name="q")
    yield
    session = publisher.session()
    session.insert("u", a=1)
    session.insert("t", a=1)


@workload(since=18)
def column_lists_with_generated_columns(publisher):
    publisher.create_table(
        "t",
        [
            Column("a", "integer"),
            Column("g", "integer", "stored", "a * 2", lambda row: int(row["a"]) * 2),
            Column("b", "text"),
        ],
        ["a"],
    )
    publish(publisher, entry("t", columns=["a", "g"]))
    yield
    _rows(publisher)


@workload
def a_column_list_without_a_generated_column(publisher):
    publisher.create_table(
        "t",
        [
            Column("a", "integer"),
            Column("g", "integer", "stored", "a * 2", lambda row: int(row["a"]) * 2),
            Column("b", "text"),
        ],
        ["a"],
    )
    publish(publisher, entry("t", columns=["a", "b"]))
    yield
    _rows(publisher)


@workload
def row_filters(publisher):
    table(publisher, a="integer", b="text", c="integer", key=("a", "c"))
    publish(publisher, entry("t", where="a > 10 AND c IS NOT NULL"))
    yield
    session = publisher.session()
    session.insert("t", a=1, b="out", c=1)
    session.insert("t", a=11, b="in", c=1)
    session.update("t", {"a": 1}, b="still out")
    session.update("t", {"a": 11}, b="still in")
    session.update("t", {"a": 1}, a=12)  # from out to in: an insert
    session.update("t", {"a": 12}, a=13)  # in to in
    session.update("t", {"a": 11}, a=2)  # from in to out: a delete
    session.update("t", {"a": 2}, a=3)  # out to out
    session.delete("t", {"a": 3})
    session.delete("t", {"a": 13})
    session.truncate("t")


@workload
def row_filters_with_identity_full(publisher):
    table(publisher, a="integer", b="text", c="numeric")
    session = publisher.session()
    session.replica_identity("t", "full")
    publish(publisher, entry("t", where="b LIKE 'in%' OR c > 100.5"))
    yield
    session.insert("t", a=1, b="out", c="1")
    session.insert("t", a=2, b="inside", c="1")
    session.insert("t", a=3)
    session.update("t", {"a": 1}, b="in")
    session.update("t", {"a": 1}, c="101")
    session.update("t", {"a": 1}, b="out")
    session.update("t", {"a": 1}, c="100.5")
    session.update("t", {"a": 3}, c="NaN")
    session.delete("t", {"a": 1})
    session.delete("t", {"a": 2})


@workload
def row_filters_with_values_out_of_line(publisher):
    table(publisher, a="integer", b="text", c="integer")
    session = publisher.session()
    session.replica_identity("t", "full")
    publish(publisher, entry("t", where="c > 1 AND length(b) > 10"))
    yield
    session.insert("t", a=1, b=Toasted(random_text(4000)), c=1)
    session.update("t", {"a": 1}, c=2)
    session.update("t", {"a": 1}, a=2)
    session.update("t", {"a": 2}, c=0)


@workload(publications="p,q")
def row_filters_of_several_publications(publisher):
    table(publisher)
    table(publisher, "u")
    table(publisher, "v")
    publish(
        publisher,
        entry("t", where="a > 10"),
        entry("u", where="a > 10"),
        entry("v", where="a > 10"),
        publish=["insert"],
    )
    publish(
        publisher,
        entry("t", where="a < 5"),
        "u",
        entry("v", where="a < 5"),
        name="q",
        publish=["insert", "update", "delete"],
    )
    yield
    session = publisher.session()
    for name in ("t", "u", "v"):
        for number in (1, 7, 12):
            session.insert(name, a=number)
        for number in (1, 7, 12):
            session.update(name, {"a": number}, b="x")
        session.update(name, {"a": 12}, a=2)
        session.delete(name, {})


@workload
def a_transaction_that_a_filter_leaves_empty(publisher):
    table(publisher)
    publish(publisher, entry("t", where="a > 10"))
    yield
    session = publisher.session()
    session.begin()
    session.insert("t", a=1)
    session.insert("t", a=2)
    session.commit()
    session.begin()
    session.insert("t", a=3)
    session.prepare("g")
    session.commit_prepared("g")
    session.insert("t", a=11)


# Partitions ---------------------------------------------------------------------------------------


def _partitioned(publisher):
    publisher.create_table("t", {"a": "integer", "r": "text", "b": "text"}, ["a", "r"], partition_by="r")
    session = publisher.session()
    session.create_partition("t_eu", "t", ["eu", "uk"])
    session.create_partition(
        "t_us", "t", ["us"], columns=[Column("b", "text"), Column("r", "text"), Column("a", "integer")]
    )
    session.create_partition("t_rest", "t", partition_by="r")
    session.create_partition("t_rest_a", "t_rest", ["a"])
    session.create_partition("t_rest_rest", "t_rest")


def _partitioned_rows(publisher, regions=("eu", "us", "a", "zz")):
    session = publisher.session()
    session.begin()
    for number, region in enumerate(regions):
        session.insert("t", a=number, r=region, b="x")
    session.commit()
    for number, _ in enumerate(regions):
        session.update("t", {"a": number}, b="y")
    session.update("t", {"a": 0}, a=10)
    session.update("t", {"a": 10}, r="us")
    session.insert("t_us", a=20, r="us", b="direct")
    session.delete("t", {"a": 1})
    session.truncate("t_eu")
    session.truncate("t_rest")
    session.truncate("t", "t_us")


@workload
def partitions_by_their_own_names(publisher):
    _partitioned(publisher)
    publish(publisher, "t")
    yield
    _partitioned_rows(publisher)


@workload
def partitions_as_their_root(publisher):
    _partitioned(publisher)
    publish(publisher, "t", via_root=True)
    yield
    _partitioned_rows(publisher)


@workload
def partitions_of_all_tables(publisher):
    _partitioned(publisher)
    publish(publisher, all_tables=True, via_root=True)
    yield
    _partitioned_rows(publisher)


@workload(publications="p,q")
def partitions_of_two_publications(publisher):
    _partitioned(publisher)
    publish(publisher, "t_rest", "t_us", via_root=True, publish=["insert", "update"])
    publish(publisher, "t_eu", "t_rest_a", name="q", publish=["insert", "delete", "truncate"])
    yield
    _partitioned_rows(publisher)


@workload
def partitions_with_a_filter_and_a_column_list(publisher):
    _partitioned(publisher)
    publish(publisher, entry("t", columns=["r", "a"], where="a < 3 AND r <> 'zz'"), via_root=True)
    yield
    _partitioned_rows(publisher)


@workload
def leaves_with_filters(publisher):
    _partitioned(publisher)
    publish(publisher, entry("t_eu", where="a > 0"), entry("t_us", columns=["a", "r"]), "t_rest_a")
    yield
    _partitioned_rows(publisher)


@workload
def partitions_with_other_identities(publisher):
    _partitioned(publisher)
    session = publisher.session()
    session.replica_identity("t_us", "full")
    session.replica_identity("t_eu", "full")
    publish(publisher, "t", via_root=True)
    yield
    _partitioned_rows(publisher)
    session.replica_identity("t", "full")
    session.insert("t", a=30, r="eu")
    session.update("t", {"a": 30}, b="z")
    session.replica_identity("t", "default")
    session.update("t", {"a": 30}, b="zz")


@workload
def partitions_that_come_later(publisher):
    _partitioned(publisher)
    publish(publisher, "t", via_root=True)
    yield
    session = publisher.session()
    session.insert("t", a=1, r="eu")
    session.create_partition("t_new", "t", ["new"])
    session.insert("t", a=2, r="new")
    session.drop_table("t_rest_a")
    session.insert("t", a=3, r="a")
    session.rename_table("t", "root")
    session.insert("root", a=4, r="eu")
    publish(publisher, "root", via_root=False)
    session.insert("root", a=5, r="eu")
