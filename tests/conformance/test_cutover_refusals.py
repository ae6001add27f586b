"""A cutover that is refused leaves everything as it was, and succeeds when what its HINT says is
done.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.crash.harness import wait_until
from tests.cutovers import SHOP, Shop, open_shop
from tests.subscribing import a_role, with_role

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

MODEL = f"{SHOP} CREATE INDEX orders_by_customer ON orders (customer);"


ACCEPTED = ("--accept-missing", "index", "--accept-missing", "sequence")
"""What the target lacks from the beginning."""


def is_untouched(shop: Shop) -> None:
    status = shop.status()
    assert (status["enabled"], status["cutover"], shop.fence()) == (True, None, [])


@pytest.fixture
def shop(request, publisher_database, tmp_path: Path) -> Iterator[Shop]:
    """The role of the connection may replicate and read the tables, but not every sequence."""
    with a_role(publisher_database, "REPLICATION") as role:
        publisher_database.execute(
            f"{MODEL} GRANT SELECT ON customers, orders TO {role}; GRANT SELECT ON SEQUENCE customers_id_seq TO {role}"
        )
        conninfo = with_role(publisher_database, role)
        with open_shop(request.param, request, publisher_database, tmp_path, model="", conninfo=conninfo) as opened:
            yield opened


KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]


@pytest.mark.parametrize("shop", KINDS, indirect=True)
def test_each_cause_of_a_refusal_is_removed_by_what_the_hint_says(shop):
    # An index that is missing.
    answer = shop.cutover("--verify")
    assert "the target lacks 1 object of the publisher's schema" in answer.stderr
    assert "index public.orders.orders_by_customer" in answer.stderr
    is_untouched(shop)
    assert shop.obey(answer) == [
        f"subscriber schema apply --before {shop.name}",
        f"subscriber schema apply --after {shop.name}",
    ]

    # A sequence that cannot be read.
    answer = shop.cutover("--verify")
    assert 'sequence "orders_id_seq" was not set: the role of the subscription' in answer.stderr
    assert f"Nothing was changed. To begin again: subscriber cutover {shop.name}" in answer.stdout
    is_untouched(shop)
    (grant,) = shop.obey(answer)
    assert grant.startswith("GRANT SELECT ON SEQUENCE")

    # A table that is published, but not part of the subscription.
    shop.publisher.execute(
        "CREATE TABLE late (id int PRIMARY KEY); GRANT SELECT ON late TO PUBLIC; ALTER PUBLICATION shop ADD TABLE late"
    )
    answer = shop.cutover("--verify")
    assert "table outside the subscription public.late" in answer.stderr
    is_untouched(shop)
    refresh = f"subscriber sql -c 'ALTER SUBSCRIPTION {shop.name} REFRESH PUBLICATION;'"
    assert shop.obey(answer)[0] == refresh
    wait_until(lambda: set(shop.status()["tables"]) == {"r"}, "the tables to be ready")

    if shop.url.startswith("postgresql"):
        # A sequence that is too short for the publisher's values.
        shop.in_target("ALTER SEQUENCE orders_id_seq MAXVALUE 10")
        answer = shop.cutover("--verify")
        assert "50 is out of its range in the target (1 .. 10)" in answer.stderr
        is_untouched(shop)
        shop.obey(answer)
        # A column for which nothing generates values: the step that compares the schema finds it.
        shop.in_target("ALTER TABLE orders ALTER id DROP IDENTITY")
        answer = shop.cutover("--verify")
        assert "DETAIL:  identity public.orders.id\n" in answer.stderr
        is_untouched(shop)
        shop.obey(answer)

    # A row that was damaged.
    shop.in_target("UPDATE orders SET amount = 7 WHERE id = 3")
    answer = shop.cutover("--verify")
    assert "publisher and target differ at" in answer.stderr
    assert "public.orders: 1 differing, 0 only at the publisher, 0 only in the target" in answer.stderr
    found = shop.status()
    assert (found["enabled"], found["cutover"]["step"], found["cutover"]["options"]) == (True, "verify", "--verify")
    told = shop.runner.call("status").stdout
    assert f"stopped; to go on: subscriber cutover {shop.name} --verify; to go back: subscriber cutover" in told
    assert shop.obey(answer) == [f"subscriber verify {shop.name} --repair"]

    answer = shop.cutover("--verify")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert shop.status()["cutover"]["state"] == "switched"
    shop.in_target("INSERT INTO orders (customer, amount) VALUES (3, 2)")
    assert shop.in_target("SELECT max(id) FROM orders") == [(51,)]


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_a_table_that_the_target_lacks_is_refused_without_a_comparison_too(shop):
    shop.in_target("ALTER TABLE orders RENAME TO elsewhere")
    answer = shop.cutover()
    assert answer.returncode == 1
    assert "the target lacks 1 object of the publisher's schema\n" in answer.stdout
    assert " table public.orders\n" in answer.stdout
    is_untouched(shop)


@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_abandoning_after_an_update_in_the_target_is_refused_until_it_is_undone_or_given_up(shop):
    assert shop.cutover("--verify", *ACCEPTED).returncode == 0
    shop.in_target("UPDATE orders SET amount = 7 WHERE id = 3")
    answer = shop.cutover("--abandon")
    assert answer.returncode == 1
    assert "ERROR:  the application has written to the target since the switch" in answer.stderr
    assert "public.orders: 1 differing" in answer.stderr
    assert "Nothing was undone." in answer.stdout
    assert shop.status()["enabled"] is False

    shop.publisher.execute("UPDATE customers SET name = 'later' WHERE id = 1")
    answer = shop.cutover("--abandon")
    assert answer.returncode == 1
    assert (
        "the publisher was written to since the switch, so it cannot be known which side has changed" in answer.stderr
    )

    answer = shop.cutover("--abandon", "--discard-writes")
    assert answer.returncode == 0, answer.stderr
    repair = f"`subscriber verify {shop.name} --repair`"
    assert repair in answer.stdout
    assert shop.status()["enabled"] is True
    assert shop.runner.call("verify", shop.name, "--repair").returncode == 0
    assert shop.in_target("SELECT amount FROM orders WHERE id = 3") != [(7,)]
    assert shop.runner.call("verify", shop.name).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("shop", ["sqlite"], indirect=True)
def test_without_verify_at_the_switch_an_old_difference_is_not_taken_for_a_write(shop):
    assert shop.cutover(*ACCEPTED).returncode == 0
    answer = shop.cutover("--abandon")
    assert answer.returncode == 0, answer.stderr
    assert "publisher and target are equal at" in answer.stdout
    assert shop.cutover(*ACCEPTED).returncode == 0
    shop.in_target("UPDATE orders SET amount = 7 WHERE id = 3")
    answer = shop.cutover("--abandon")
    assert answer.returncode == 1
    assert "the cutover was made without --verify, so it cannot be known" in answer.stderr

    # A snapshot of the publisher has to wait, and the time limit ends that.
    with psycopg.connect(shop.publisher.conninfo) as late:
        late.execute("INSERT INTO orders (customer) VALUES (1)")
        answer = shop.cutover("--abandon", "--timeout", "1s")
        late.rollback()
    assert answer.returncode == 1
    assert "the snapshot of the publisher was not there within 1 s" in answer.stderr
    assert "Nothing was undone." in answer.stdout
