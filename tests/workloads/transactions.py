"""Workloads about transactions: sessions that interleave, savepoints, PREPARE, TRUNCATE, messages,
and origins.
"""

from __future__ import annotations

from tests.workloads.registry import ORIGIN_TIME, from_origin, table, two_tables, warm, workload

# Interleaving and savepoints ---------------------------------------------------------------------


@workload
def sessions_that_interleave(publisher):
    one = two_tables(publisher)
    yield
    two, three = publisher.session(), publisher.session()
    warm(one)
    one.begin()
    two.begin()
    one.insert("t", a=1, b="one")
    two.insert("t", a=2, b="two")
    three.insert("u", a=3, b="three")
    one.insert("u", a=4, b="one")
    two.commit()
    three.begin()
    three.update("t", {"a": 2}, b="three")
    one.commit()
    three.commit()


@workload
def a_transaction_that_is_rolled_back(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    warm(one)
    one.begin()
    one.insert("t", a=1)
    two.insert("t", a=2)
    one.insert("u", a=1)
    one.rollback()
    two.insert("u", a=2)


@workload
def savepoints(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    session.insert("t", a=1)
    session.savepoint("a")
    session.insert("t", a=2)
    session.savepoint("b")
    session.insert("t", a=3)
    session.release("b")
    session.insert("t", a=4)
    session.savepoint("c")
    session.update("t", {"a": 1}, b="gone")
    session.rollback_to("c")
    session.update("t", {"a": 1}, b="kept")
    session.release("a")
    session.insert("t", a=5)
    session.commit()


@workload
def savepoints_that_are_rolled_back(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    session.savepoint("a")
    session.insert("t", a=1)
    session.savepoint("b")
    session.insert("t", a=2)
    session.savepoint("c")
    session.insert("u", a=3)
    session.rollback_to("b")
    session.insert("u", a=4)
    session.rollback_to("a")
    session.insert("t", a=5)
    session.commit()


@workload
def savepoints_of_two_sessions(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    warm(one)
    for session in (one, two):
        session.begin()
        session.savepoint("s")
    one.insert("t", a=1)
    two.insert("t", a=2)
    one.savepoint("deeper")
    two.savepoint("deeper")
    two.insert("t", a=3)
    one.insert("t", a=4)
    one.rollback_to("deeper")
    two.release("deeper")
    one.insert("u", a=5)
    two.rollback_to("s")
    two.insert("u", a=6)
    two.commit()
    one.commit()


@workload
def transactions_without_a_change(publisher):
    session = two_tables(publisher)
    yield
    table(publisher, "v")
    session.insert("v", a=1)
    session.begin()
    session.commit()
    session.begin()
    session.savepoint("s")
    session.insert("t", a=1)
    session.rollback_to("s")
    session.commit()
    session.insert("t", a=2)


# Two-phase commit ---------------------------------------------------------------------------------


@workload
def prepared_transactions(publisher):
    session = two_tables(publisher)
    yield
    for number, (gid, commits) in enumerate(
        [("it's", True), ("a\\b", False), ("x_nodecode", True), ("y_nodecode", False), ("", True), ("Größe", True)]
    ):
        session.begin()
        session.insert("t", a=number, b="prepared")
        session.insert("u", a=number)
        session.prepare(gid)
        session.insert("u", a=number + 100)
        (session.commit_prepared if commits else session.rollback_prepared)(gid)


@workload
def prepared_transactions_that_interleave(publisher):
    one = two_tables(publisher)
    yield
    two = publisher.session()
    warm(one)
    one.begin()
    two.begin()
    one.insert("t", a=1)
    two.insert("t", a=2)
    two.prepare("two")
    one.insert("u", a=1)
    one.prepare("one")
    two.insert("t", a=3)
    one.commit_prepared("two")
    two.rollback_prepared("one")


@workload
def a_prepared_transaction_with_savepoints(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    session.insert("t", a=1)
    session.savepoint("a")
    session.insert("t", a=2)
    session.savepoint("b")
    session.insert("t", a=3)
    session.rollback_to("b")
    session.insert("u", a=4)
    session.prepare("g")
    session.commit_prepared("g")


@workload
def a_prepared_transaction_of_a_table_that_is_not_published(publisher):
    session = two_tables(publisher)
    table(publisher, "v")
    yield
    session.begin()
    session.insert("v", a=1)
    session.prepare("g")
    session.commit_prepared("g")
    session.begin()
    session.insert("v", a=2)
    session.prepare("h")
    session.rollback_prepared("h")


@workload
def a_prepared_transaction_that_stays_in_progress(publisher):
    session = two_tables(publisher)
    yield
    session.begin()
    session.insert("t", a=1)
    session.prepare("stays")
    session.insert("t", a=2)


# TRUNCATE and messages ----------------------------------------------------------------------------


@workload
def truncates(publisher):
    session = two_tables(publisher)
    table(publisher, "v")
    yield
    session.insert("t", a=1)
    session.truncate("t")
    session.truncate("t", "u", restart_identity=True)
    session.truncate("u", "v", "t", cascade=True)
    session.truncate("v", cascade=True, restart_identity=True)
    session.begin()
    session.insert("u", a=1)
    session.truncate("u", cascade=True, restart_identity=True)
    session.insert("u", a=2)
    session.commit()
    session.insert("t", a=3)


@workload
def truncates_in_savepoints(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    session.savepoint("a")
    session.truncate("t")
    session.release("a")
    session.insert("t", a=2)
    session.commit()
    session.insert("u", a=3)


@workload
def messages(publisher):
    session = two_tables(publisher)
    yield
    session.message("p p", b"outside", transactional=False)
    session.message("", b"")
    session.begin()
    session.message("p", "é")
    session.message("now", "at once", transactional=False)
    session.insert("t", a=1)
    session.message("now", "with a number", transactional=False)
    session.message("p", "x" * 300)
    session.commit()
    session.begin()
    session.insert("t", a=2)
    session.message("gone", "rolled back")
    session.message("stays", "although rolled back", transactional=False)
    session.rollback()
    session.insert("t", a=3)


@workload
def messages_in_savepoints(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    session.begin()
    session.message("p", "top")
    session.savepoint("a")
    session.message("p", "a")
    session.savepoint("b")
    session.message("p", "gone")
    session.message("p", "stays", transactional=False)
    session.rollback_to("b")
    session.message("p", "b again")
    session.commit()


@workload
def messages_and_prepared_transactions(publisher):
    session = two_tables(publisher)
    yield
    session.begin()
    session.message("p", "only a message")
    session.prepare("g")
    session.commit_prepared("g")
    session.begin()
    session.message("p", "never seen without two-phase commit")
    session.insert("t", a=1)
    session.prepare("h")
    session.rollback_prepared("h")


# Origins ------------------------------------------------------------------------------------------


@workload
def origins(publisher):
    one = two_tables(publisher)
    publisher.create_origin("origin_one")
    publisher.create_origin("origin 'two'")
    yield
    two = publisher.session()
    warm(one)
    from_origin(one, "origin_one", 0x100)
    one.insert("t", a=1)
    one.origin_xact(0x200, ORIGIN_TIME)
    one.begin()
    one.insert("t", a=2)
    two.insert("t", a=3, b="local")
    one.savepoint("s")
    one.insert("u", a=2)
    one.commit()
    one.replicate_origin("")
    one.insert("t", a=4, b="local again")
    from_origin(two, "origin 'two'", 0xABCDEF01234)
    two.insert("u", a=5)
    two.truncate("t")


@workload
def origins_of_messages(publisher):
    session = two_tables(publisher)
    publisher.create_origin("origin_one")
    yield
    from_origin(session, "origin_one", 0x300)
    session.message("p", "transactional")
    session.message("p", "at once", transactional=False)
    session.replicate_origin("")
    session.message("p", "local")


@workload
def origins_of_prepared_transactions(publisher):
    session = two_tables(publisher)
    publisher.create_origin("origin_one")
    yield
    for number, gid in enumerate(("one", "two")):
        session.replicate_origin("origin_one")
        session.origin_xact(0x400 + number, ORIGIN_TIME + number)
        session.begin()
        session.insert("t", a=number)
        session.prepare(gid)
        session.origin_xact(0x500 + number, ORIGIN_TIME + 100 + number)
        (session.rollback_prepared if number else session.commit_prepared)(gid)
        session.replicate_origin("")


@workload
def an_origin_that_is_dropped(publisher):
    session = two_tables(publisher)
    publisher.create_origin("origin_one")
    yield
    from_origin(session, "origin_one", 0x600)
    session.insert("t", a=1)
    session.replicate_origin("")
    session.insert("t", a=2)
    publisher.drop_origin("origin_one")


@workload
def transactions_that_wrote_nothing(publisher):
    session = two_tables(publisher)
    yield
    warm(session)
    for ends in (session.commit_prepared, session.rollback_prepared):
        session.begin()
        session.prepare("nothing")
        ends("nothing")
        session.begin()
        session.savepoint("a")
        session.prepare("a savepoint")
        ends("a savepoint")
    session.insert("t", a=7)
