"""``subscriber explain``: why a change of the journal was sent, rewritten or left out."""

from __future__ import annotations

import json
import re

import pytest

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.own_tables import SUBSCRIPTION
from subscriber.catalog.publications import insert_publication
from subscriber.catalog.stored_publishing import store_publishing
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.targets import open_target
from tests.frames import transaction, values
from tests.journals import publish, writing
from tests.publications import as_sent, entry, table, tables
from tests.subscriptions import create_subscription

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
U = table("public.u", {"a": "int4"}, key=["a"], oid=2)
P = Publication("p", tables=(entry(T, "(a > 1)"),), publish=frozenset({"insert", "update"}))
SENT, OTHER = as_sent(T), as_sent(U)


@pytest.fixture
def subscribed(target: str, tmp_path, monkeypatch) -> str:
    """A target with subscription s, whose emulated publication p publishes INSERTs and UPDATEs of
    public.t WHERE a > 1, and a journal with two transactions.
    """
    with open_target(target) as opened:
        ensure_catalog(opened.engine)
        subscription = create_subscription(opened, carrier="c")
        with opened.begin() as connection:
            insert_publication(connection, P, "ann")
            store_publishing(connection, subscription.subid, Publishing((P,), tables(T, U)))
    monkeypatch.setenv("SUBSCRIBER_JOURNAL", str(tmp_path / "journals"))
    relations = {SENT.relation_id: SENT, OTHER.relation_id: OTHER}
    with writing(tmp_path / "journals" / "1_s", system="1", slot="s") as journal:
        changes: list[m.Message] = [
            SENT,
            m.Insert(SENT.relation_id, values("1", "secret")),
            m.Insert(SENT.relation_id, values("2", None)),
            m.Update(SENT.relation_id, "K", values("2", None), values("1", "y")),
            m.Delete(SENT.relation_id, "K", values("2", None)),
        ]
        publish(journal, 0x200, transaction(0x200, *changes, xid=731), xid=731, relations=relations)
        changes = [
            OTHER,
            m.Insert(OTHER.relation_id, values("1")),
            m.Truncate((SENT.relation_id,), cascade=False, restart_identity=False),
        ]
        publish(journal, 0x300, transaction(0x300, *changes, xid=732), xid=732, relations=relations)
    return target


def explained(run, target: str, *options: str) -> list[str]:
    """The lines, from the operation on."""
    ended = run("explain", "--target", target, *options)
    assert (ended.code, ended.err) == (0, "")
    return [re.sub(r"^ *\S+  xid \d+ +lsn +\S+  ", "", line) for line in ended.out.splitlines()]


def test_every_change_has_its_result_and_its_filters(run, subscribed):
    assert explained(run, subscribed) == [
        "INSERT public.t: left out",
        "    p: WHERE (a > 1)  old -, new f",
        "INSERT public.t: sent",
        "    p: WHERE (a > 1)  old -, new t",
        "UPDATE public.t: sent as DELETE",
        "    p: WHERE (a > 1)  old t, new f",
        "DELETE public.t: left out, no publication publishes delete",
        "INSERT public.u: left out, no publication has the table",
        "TRUNCATE public.t: left out",
    ]


def test_a_change_is_shown_with_its_place_in_the_stream(run, subscribed):
    out = run("explain", "--target", subscribed, "--table", "public.u").out
    assert out.split()[:3] == ["0/300", "xid", "732"]


@pytest.mark.parametrize(
    ("options", "number"),
    [
        (("--xid", "731"), 4),
        (("--xid", "732"), 2),
        (("--lsn", "0/300"), 2),
        (("--table", "public.u"), 1),
        (("--table", "public.t", "--xid", "732"), 1),
        (("--key", "a=2"), 3),
        (("--key", "a=2", "--key", "b=y"), 0),
        (("--subscription", "s", "--key", "a=1", "--key", "b=y"), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_changes_are_chosen_by_conditions_that_must_all_hold(run, subscribed, options, number):
    ended = run("explain", "--target", subscribed, "--json", *options)
    assert len(ended.out.splitlines()) == number
    assert ended.err == ("" if number else "no such change in the journal\n")


def test_values_are_shown_only_when_asked(run, subscribed):
    insert = ("explain", "--target", subscribed, "--xid", "731", "--key", "b=secret")
    assert "secret" not in run(*insert).out
    assert "    new: a=1, b=secret" in run(*insert, "--show-values").out.splitlines()
    assert "    new: a=2, b=NULL" in run("explain", "--target", subscribed, "--key", "a=2", "--show-values").out


def test_json_has_the_same_facts(run, subscribed):
    lines = run("explain", "--target", subscribed, "--json", "--key", "a=2", "--show-values").out.splitlines()
    _, update, _ = map(json.loads, lines)
    assert {key: update[key] for key in ("finish_lsn", "xid", "relations", "operation", "sent", "sent_as")} == {
        "finish_lsn": "0/200",
        "xid": 731,
        "relations": ["public.t"],
        "operation": "update",
        "sent": "delete",
        "sent_as": "public.t",
    }
    assert update["judgements"] == [{"publication": "p", "where": "(a > 1)", "old": "t", "new": "f"}]
    assert update["new_row"] == {"a": "1", "b": "y"}
    (truncate,) = map(
        json.loads,
        run("explain", "--target", subscribed, "--json", "--xid", "732", "--table", "public.t").out.splitlines(),
    )
    assert (truncate["operation"], truncate["sent_for"]) == ("truncate", [])


@pytest.mark.parametrize("key", ["a", "=1", ""])
def test_a_key_is_a_column_and_a_value(run, subscribed, key):
    ended = run("explain", "--target", subscribed, "--key", key)
    assert ended.code == 2
    assert "write it as COLUMN=VALUE" in ended.err


def test_without_emulated_publications_there_is_nothing_to_explain(run, target):
    with open_target(target) as opened:
        ensure_catalog(opened.engine)
        create_subscription(opened)
    ended = run("explain", "--target", target)
    assert (ended.code, ended.err.splitlines()[0]) == (
        1,
        "ERROR:  there is no subscription with a carrier in this target",
    )
    ended = run("explain", "--target", target, "--subscription", "s")
    assert ended.err.splitlines()[0] == 'ERROR:  subscription "s" has publications of the server'


def test_one_of_several_subscriptions_must_be_chosen(run, subscribed):
    with open_target(subscribed) as opened:
        create_subscription(opened, "t", carrier="c")
    ended = run("explain", "--target", subscribed)
    assert ended.code == 1
    assert "there are 2 subscriptions with a carrier" in ended.err
    assert "--subscription: s, t" in ended.err


def test_a_subscription_without_a_slot_has_no_journal(run, subscribed):
    with open_target(subscribed) as opened, opened.begin() as connection:
        connection.execute(SUBSCRIPTION.update().values(subslotname=None))
    ended = run("explain", "--target", subscribed, "--subscription", "s")
    assert ended.err.splitlines()[0] == 'ERROR:  subscription "s" has no journal'


def test_a_bad_lsn_is_refused_in_postgresqls_words(run, subscribed):
    ended = run("explain", "--target", subscribed, "--lsn", "12")
    assert 'invalid input syntax for type pg_lsn: "12"' in ended.err


def test_a_change_is_found_by_its_own_lsn(run, subscribed):
    own = ("explain", "--target", subscribed, "--json", "--xid", "731")
    (insert,) = run(*own, "--key", "b=secret").out.splitlines()
    assert run(*own, "--lsn", json.loads(insert)["lsn"]).out.splitlines() == [insert]
