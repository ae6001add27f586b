"""Workloads with transactions that are larger than logical_decoding_work_mem, so that they are
streamed, or written to disk.
"""

from __future__ import annotations

from subscriber.postgres.logical_decoding import Toasted
from tests.workloads.registry import BIG, from_origin, many, publish, random_text, table, two_tables, warm, workload


@workload
def a_large_transaction(publisher):
    session = two_tables(publisher)
    yield
    session.begin()
    many(session, rows=75)
    session.update("t", {"a": 5}, b="y")
    session.update("t", {"a": 6}, a=-6)
    session.delete("t", {"a": 7})
    session.commit()


@workload
def a_large_transaction_among_small_ones(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    one.begin()
    for number in range(6):
        many(one, rows=12, start=1 + 20 * number)
        two.insert("u", a=number, b="small")
        two.insert("t", a=-number - 1, b="small")
    one.commit()


@workload
def two_large_transactions(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    warm(one)
    one.begin()
    two.begin()
    for number in range(5):
        many(one, rows=13, start=1 + 100 * number)
        many(two, "u", rows=9, start=1 + 100 * number)
        one.insert("u", a=10_000 + number)
    two.commit()
    one.commit()


@workload
def a_large_transaction_with_savepoints(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    for number in range(5):
        session.savepoint("s")
        many(session, rows=14, start=1 + 100 * number)
        session.release("s")
    session.commit()


@workload
def a_large_transaction_with_a_savepoint_that_is_rolled_back(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    many(session, rows=9)
    session.savepoint("s")
    many(session, rows=58, start=1000)
    session.rollback_to("s")
    many(session, "u", rows=9)
    session.commit()


@workload
def a_large_transaction_that_is_rolled_back(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    warm(one)
    one.begin()
    many(one, rows=72)
    two.insert("u", a=1)
    one.rollback()
    two.insert("u", a=2)


@workload
def a_large_transaction_in_progress(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    one.begin()
    many(one, rows=58)
    two.insert("u", a=1)


@workload
def a_large_prepared_transaction(publisher):
    session = two_tables(publisher)
    yield
    for gid in ("one", "two"):
        session.begin()
        many(session, rows=58, start=1 if gid == "one" else 1000)
        session.prepare(gid)
        session.insert("u", a=1 if gid == "one" else 2)
        (session.commit_prepared if gid == "one" else session.rollback_prepared)(gid)


@workload
def a_large_transaction_with_values_out_of_line(publisher):
    table(publisher, a="integer", b="text", c="integer")
    publish(publisher, "t")
    yield
    session = publisher.session()
    session.begin()
    for number in range(15):
        session.insert("t", a=number, b=Toasted(random_text(6000, number + 1)), c=0)
        session.update("t", {"a": number}, c=1)
    session.commit()


@workload
def a_large_transaction_with_everything(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    many(session, rows=44)
    session.message("p", "inside")
    session.savepoint("s")
    session.message("p", "in a savepoint")
    many(session, "u", rows=44)
    session.message("p", "at once", transactional=False)
    session.release("s")
    session.update("t", {"a": 1}, a=-2)
    session.delete("t", {"a": 2})
    # The catalog rows that TRUNCATE writes count, too, so it is after the last full block.
    session.truncate("u")
    session.insert("u", a=1)
    session.commit()


@workload
def a_large_transaction_of_inserts_on_conflict(publisher):
    session = two_tables(publisher)
    yield
    session.begin()
    for number in range(57):
        session.insert("t", a=number, b=BIG, on_conflict=True)
    session.commit()


@workload
def a_large_transaction_of_an_origin(publisher):
    session = two_tables(publisher)
    publisher.create_origin("origin_one")
    yield
    from_origin(session, "origin_one", 0x700)
    session.begin()
    many(session, rows=72)
    session.commit()
    session.replicate_origin("")
