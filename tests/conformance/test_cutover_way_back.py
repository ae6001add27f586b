"""The way back for roles that are no superusers; and what cannot have one is refused before
anything is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Database, fresh_database
from tests.crash.harness import wait_until
from tests.cutovers import SHOP, Shop, open_shop
from tests.subscribing import a_role, with_role

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

OPTIONS = ("--fence", "--verify", "--reverse")


def is_untouched(shop: Shop) -> None:
    status = shop.status()
    assert (status["enabled"], status["cutover"], shop.fence()) == (True, None, [])
    for catalog in ("pg_publication WHERE pubname", "pg_replication_slots WHERE slot_name::text"):
        assert shop.in_target(f"SELECT 1 FROM {catalog} LIKE 'subscriber_reverse_%'") == []


@contextlib.contextmanager
def asking_for_the_password(database: Database, role: str) -> Iterator[None]:
    """Let the server ask one role for its password."""
    ((file,),) = database.execute("SHOW hba_file")
    if not Path(file).exists():
        pytest.skip("the server's files are in a container")
    kept = Path(file).read_text()
    Path(file).write_text(f"host all {role} all scram-sha-256\n{kept}")
    database.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        Path(file).write_text(kept)
        database.execute("SELECT pg_reload_conf()")


def test_the_owner_of_the_tables_goes_back_without_being_a_superuser(request, publisher_database, tmp_path):
    publisher = publisher_database
    ((owner,),) = publisher.execute("SELECT current_user::text")
    with a_role(publisher, "REPLICATION") as role, contextlib.ExitStack() as stack:
        publisher.execute(
            f"{SHOP} ALTER TABLE customers OWNER TO {role}; ALTER TABLE orders OWNER TO {role};"
            f" ALTER DATABASE {publisher.name} OWNER TO {role}"
        )
        stack.callback(
            publisher.execute,
            f"SET TRANSACTION READ WRITE; ALTER DATABASE {publisher.name} OWNER TO {owner}",
        )
        shop = stack.enter_context(
            open_shop("postgresql", request, publisher, tmp_path, model="", conninfo=with_role(publisher, role))
        )
        answer = shop.cutover(*OPTIONS)
        assert f'role "{role}" may not see the sessions of other roles' in answer.stderr
        assert f'GRANT pg_create_subscription TO "{role}";' in answer.stdout
        is_untouched(shop)
        publisher.execute(f"GRANT pg_create_subscription, pg_read_all_stats TO {role}")

        # PostgreSQL itself says that this role needs a password, before anything is changed.
        answer = shop.cutover(*OPTIONS)
        assert "cannot subscribe to the target: password is required" in answer.stderr
        assert "give --reverse-connection with a password" in answer.stderr
        is_untouched(shop)
        parts = psycopg.conninfo.conninfo_to_dict(publisher.conninfo)
        place = f"host={parts['host']} port={parts['port']} user={role} password=x"
        answer = shop.cutover(*OPTIONS, "--reverse-connection", "host=127.0.0.1 port=1 password=hidden")
        assert "cannot subscribe to the target: connection to server at" in answer.stderr
        assert "hidden" not in answer.stderr + answer.stdout
        is_untouched(shop)

        with asking_for_the_password(publisher, role):
            # A connection that leads elsewhere is noticed when the publication is not there.
            answer = shop.cutover(*OPTIONS, "--reverse-connection", f"{place} dbname={publisher.name}")
            assert "leads from the old publisher to another database" in answer.stderr
            assert (
                publisher.execute("SELECT subname FROM pg_subscription WHERE subname LIKE 'subscriber_reverse%'") == []
            )
            told = shop.runner.call("status").stdout
            assert f"to go on: subscriber cutover {shop.name} {' '.join(OPTIONS)} --reverse-connection …" in told

            target = shop.url.rpartition("/")[2].partition("?")[0]
            answer = shop.cutover(*OPTIONS, "--reverse-connection", f"{place} dbname={target}")
            assert answer.returncode == 0, answer.stdout + answer.stderr
            shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
            wait_until(
                lambda: publisher.execute("SELECT max(id) FROM orders") == [(51,)], "the row at the old publisher"
            )
            back = shop.cutover("--abandon")
            assert back.returncode == 0, back.stdout + back.stderr
        is_untouched(shop)
        answer = shop.runner.call("verify", shop.name)
        assert answer.returncode == 0, answer.stdout


def test_a_way_back_that_is_stuck_can_be_given_up(request, publisher_database, tmp_path):
    with open_shop("postgresql", request, publisher_database, tmp_path) as shop:
        answer = shop.cutover("--reverse")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        shop.publisher.execute("INSERT INTO orders (id, customer) VALUES (51, 1)")  # stops PostgreSQL's apply worker
        shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
        back = shop.cutover("--abandon", "--timeout", "2s")
        assert back.returncode == 1
        assert "bringing back what was written to the target has not ended within 2 s" in back.stderr
        assert "whose server's log tells its errors" in back.stderr
        assert f"subscriber cutover {shop.name} --abandon --discard-writes" in back.stderr
        assert shop.status()["enabled"] is False
        back = shop.cutover("--abandon", "--discard-writes")
        assert back.returncode == 0, back.stdout + back.stderr
        assert f"`subscriber verify {shop.name} --repair`" in back.stdout
        is_untouched(shop)


def test_a_column_that_the_old_publisher_cannot_take_is_found_before_anything_is_changed(
    request, publisher_database, tmp_path
):
    with open_shop("postgresql", request, publisher_database, tmp_path) as shop:
        shop.in_target("ALTER TABLE orders ADD COLUMN channel text")
        answer = shop.cutover("--reverse")
        assert 'column "channel" of table "public.orders" is not at the old publisher' in answer.stderr
        is_untouched(shop)
        shop.in_target("ALTER TABLE orders DROP COLUMN channel")
        answer = shop.cutover("--reverse")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert shop.cutover("--abandon").returncode == 0


def test_renamed_tables_are_cut_over_but_not_with_a_way_back(request, publisher_database, tmp_path):
    options = "create_tables = true, map = 'public.orders => public.sales'"
    with open_shop("postgresql", request, publisher_database, tmp_path, options=options) as shop:
        answer = shop.cutover(*OPTIONS)
        assert 'the subscription renames table "public.orders" (map)' in answer.stderr
        is_untouched(shop)
        answer = shop.cutover("--fence", "--verify")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        shop.in_target("UPDATE sales SET amount = 7 WHERE id = 3")
        back = shop.cutover("--abandon")
        assert "the application has written to the target since the switch" in back.stderr
        back = shop.cutover("--abandon", "--discard-writes")
        assert back.returncode == 0, back.stdout + back.stderr
        is_untouched(shop)


def test_a_publisher_before_16_has_no_way_back(request, postgresql15, tmp_path):
    with (
        contextlib.contextmanager(fresh_database)(postgresql15) as publisher,
        open_shop("postgresql", request, publisher, tmp_path) as shop,
    ):
        answer = shop.cutover(*OPTIONS)
        assert "the publisher is PostgreSQL 15, and a way back needs origin = none" in answer.stderr
        is_untouched(shop)
        answer = shop.cutover("--fence", "--verify")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
        assert shop.cutover("--finish").returncode == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_emulated_publications_of_an_old_publisher_are_cut_over_and_compared(kind, request, postgresql15, tmp_path):
    with contextlib.contextmanager(fresh_database)(postgresql15) as publisher:
        publisher.execute(f"{SHOP} CREATE TABLE noise (a int PRIMARY KEY); CREATE PUBLICATION all_rows FOR ALL TABLES;")
        publisher.execute("DROP PUBLICATION shop; ALTER TABLE orders REPLICA IDENTITY FULL")
        with open_shop(
            kind, request, publisher, tmp_path, model="", options="create_tables = true, carrier = 'all_rows'",
            before="CREATE PUBLICATION shop FOR TABLE customers, orders WHERE (amount > 10)",
        ) as shop:  # fmt: skip
            if kind == "postgresql":  # the only target that has replica identities
                answer = shop.cutover("--fence", "--verify")
                assert "replica identity public.orders" in answer.stderr
                answer = shop.runner.call("schema", "apply", "--after", shop.name)
                assert answer.returncode == 0, answer.stdout + answer.stderr
            answer = shop.cutover("--fence", "--verify")
            assert answer.returncode == 0, answer.stdout + answer.stderr
            assert shop.in_target("SELECT count(*) FROM orders") == [(40,)]
            # What the publications do not send is no difference.
            publisher.execute("SET TRANSACTION READ WRITE; INSERT INTO orders (customer, amount) VALUES (1, 1)")
            back = shop.cutover("--abandon")
            assert back.returncode == 0, back.stdout + back.stderr
            answer = shop.cutover("--fence", "--verify")
            assert answer.returncode == 0, answer.stdout + answer.stderr
            shop.in_target("UPDATE orders SET amount = 11 WHERE id = 30")
            back = shop.cutover("--abandon")
            assert "the application has written to the target since the switch" in back.stderr
            assert shop.cutover("--finish").returncode == 0
