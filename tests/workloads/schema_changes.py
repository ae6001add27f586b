"""Workloads about DDL: between transactions, inside of one, and beside another."""

from __future__ import annotations

from subscriber.postgres.logical_decoding import Column
from tests.workloads.registry import publish, table, two_tables, workload


@workload
def columns_that_come_and_go(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b="x")
    session.add_column("t", Column("c", "numeric(8,2)"))
    session.insert("t", a=2, b="y", c="1.50")
    session.update("t", {"a": 1}, b="z")
    session.drop_column("t", "b")
    session.insert("t", a=3, c="2.00")
    session.rename_column("t", "c", "d e")
    session.insert("t", {"a": 4, "d e": "3.00"})
    session.add_column("t", Column("b", "boolean"))
    session.insert("t", a=5, b=True)
    session.update("t", {"a": 1}, a=-1)
    session.delete("t", {"a": 2})


@workload
def tables_that_get_another_name(publisher):
    table(publisher)
    table(publisher, "S.x")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1)
    session.rename_table("t", "u")
    session.insert("u", a=2)
    session.rename_table("u", "S.u")
    session.insert("S.u", a=3)


@workload
def changes_of_the_identity(publisher):
    table(publisher, a="integer", b="text", c="integer")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b="x", c=1)
    session.replica_identity("t", "full")
    session.update("t", {"a": 1}, b="y")
    session.replica_identity("t", "index", ["c"])
    session.update("t", {"a": 1}, c=2)
    session.replica_identity("t", "default")
    session.update("t", {"a": 1}, a=2)
    session.begin()
    session.update("t", {"a": 2}, b="z")
    session.replica_identity("t", "full")
    session.update("t", {"a": 2}, b="full")
    session.replica_identity("t", "nothing")
    session.commit()
    session.insert("t", a=9, c=9)


@workload
def an_identity_that_is_the_same(publisher):
    session = two_tables(publisher)
    session.replica_identity("u", "full")
    yield
    session.insert("t", a=1)
    session.insert("u", a=1)
    session.replica_identity("t", "default")
    session.replica_identity("u", "full")
    session.insert("t", a=2)
    session.insert("u", a=2)
    session.begin()
    session.replica_identity("t", "full")
    session.insert("t", a=3)
    session.replica_identity("t", "full")
    session.insert("t", a=4)
    session.replica_identity("t", "default")
    session.insert("t", a=5)
    session.commit()


@workload
def ddl_inside_of_a_transaction(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", "u")
    yield
    session = publisher.session()
    session.begin()
    session.insert("t", a=1, b="x")
    session.insert("u", a=1)
    session.add_column("t", Column("c", "integer"))
    session.insert("t", a=2, c=5)
    session.insert("u", a=2)
    session.drop_column("t", "b")
    session.update("t", {"a": 1}, c=6)
    session.rename_table("t", "t2")
    session.insert("t2", a=3)
    session.commit()
    session.insert("t2", a=4)
    session.insert("u", a=4)


@workload
def ddl_beside_a_transaction(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", "u")
    yield
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1, b="x")
    two.add_column("u", Column("c", "integer"))
    one.insert("t", a=2)
    one.insert("u", a=1, c=7)
    two.create_table("v", {"a": "integer"}, ["a"])
    one.insert("t", a=3)
    two.insert("u", a=2, c=8)
    one.commit()
    one.insert("u", a=3)


@workload
def ddl_in_a_savepoint_that_is_rolled_back(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, "t", "u")
    yield
    session = publisher.session()
    session.insert("t", a=0)
    session.begin()
    session.insert("t", a=1)
    session.savepoint("s")
    session.add_column("u", Column("c", "integer"))
    session.rollback_to("s")
    session.insert("t", a=2)
    session.insert("u", a=1)
    session.commit()
    session.insert("t", a=3)
    session.insert("u", a=2)


@workload
def tables_that_are_created_and_dropped(publisher):
    table(publisher)
    publish(publisher, all_tables=True)
    yield
    session = publisher.session()
    session.insert("t", a=1)
    session.begin()
    session.create_table("n", {"a": "bigint", "b": "text"}, ["a"])
    session.insert("n", a=1, b="x")
    session.commit()
    session.insert("n", a=2)
    session.drop_table("n")
    session.create_table("n", {"a": "integer"}, ["a"])
    session.insert("n", a=3)
    session.drop_table("n")
    session.insert("t", a=2)


@workload
def a_table_that_is_written_again(publisher):
    table(publisher)
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.insert("t", a=1, b="x")
    session.insert("t", a=2, b="y")
    session.rewrite_table("t")
    session.insert("t", a=3, b="z")


@workload
def types_that_are_created_later(publisher):
    table(publisher)
    publish(publisher, all_tables=True)
    yield
    session = publisher.session()
    session.begin()
    session.create_enum("mood")
    session.create_domain("positive", "integer")
    session.create_table("n", {"a": "positive", "m": "mood", "ms": "mood[]"}, ["a"])
    session.insert("n", a=1, m="ok", ms="{ok}")
    session.commit()
    session.add_column("t", Column("m", "mood"))
    session.insert("t", a=1, m="sad")


@workload
def a_prepared_transaction_with_ddl(publisher):
    table(publisher)
    table(publisher, "u")
    publish(publisher, all_tables=True)
    yield
    session = publisher.session()
    session.insert("t", a=0)
    session.begin()
    session.add_column("t", Column("c", "integer"))
    session.insert("t", a=1, c=1)
    session.insert("u", a=1)
    session.prepare("g")
    session.insert("u", a=2)
    session.commit_prepared("g")
    session.insert("t", a=2, c=2)
    session.insert("u", a=3)
