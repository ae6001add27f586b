"""The steps that concern the target: each refuses what is not clean."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.commands.refresh_sequences import STEP_BACK, UnsetSequence
from subscriber.migrate.cutover.cutover_servers import MissingObject, VerifyResult
from subscriber.migrate.cutover.steps import Reverse, Schema, SetSequences, Verify
from tests.unit.migrate.cutover.fake_servers import FakeServers, a_work

LEFT = 'WARNING:  sequence "u_id_seq" was not set: it counts downwards\nHINT:  …'
DOWN = UnsetSequence(
    'sequence "u_id_seq" was not set: it counts downwards', "Run at the target: ALTER SEQUENCE …;", "u_id_seq"
)
UNUSED = 'WARNING:  1 sequence was not set: "tickets"'


def test_sequences_that_could_be_set_are_counted_and_listed():
    work, servers = a_work()
    outcome = SetSequences().do(work)
    assert (outcome.text, outcome.details) == ("1 set", ('NOTICE:  sequence "t_id_seq": 1 → 9',))
    assert servers.stored[-1].findings["sequences"] == {"messages": ['NOTICE:  sequence "t_id_seq": 1 → 9']}


def test_a_sequence_that_was_set_back_was_set():
    back = f'WARNING:  sequence "t_id_seq": 9 → 7{STEP_BACK}\nDETAIL:  …'
    work, _ = a_work(FakeServers(messages=[back, UNUSED]))
    assert SetSequences().do(work).text == "1 set"


def test_a_column_without_its_sequence_is_refused_unless_that_is_accepted():
    servers = FakeServers(messages=[LEFT, UNUSED], left_alone=[DOWN])
    work, _ = a_work(servers)
    with pytest.raises(UsageError, match="not every sequence can be set") as caught:
        SetSequences().do(work)
    assert caught.value.detail == 'sequence "u_id_seq" was not set: it counts downwards'
    assert caught.value.hint == (
        "Run at the target: ALTER SEQUENCE …; Then run the command again, or accept that the target lacks this:"
        " --accept-missing u_id_seq."
    )
    assert [one.message for one in SetSequences().check(work)] == ["not every sequence can be set"]
    work, _ = a_work(servers, accept_missing=("t_id_seq", "view"))
    assert SetSequences().check(work) != []
    for accepted in ("u_id_seq", "sequence"):
        work, _ = a_work(servers, accept_missing=(accepted,))
        assert SetSequences().check(work) == []
    assert SetSequences().do(work).text == "0 set; accepted: 1 not set"


def test_a_sequence_that_no_column_uses_is_no_reason_to_refuse():
    work, _ = a_work(FakeServers(messages=[UNUSED]))
    assert SetSequences().do(work).text == "0 set"


def test_missing_objects_are_refused_with_the_command_unless_they_are_accepted():
    servers = FakeServers(missing=[MissingObject("index", "a"), MissingObject("foreign key", "b")])
    work, _ = a_work(servers)
    (refusal,) = Schema().check(work)
    assert refusal.message == "the target lacks 2 objects of the publisher's schema"
    assert refusal.details == ("index a", "foreign key b")
    assert "`subscriber schema apply --before s` and `subscriber schema apply --after s`." in refusal.hint
    work, _ = a_work(servers, accept_missing=("a", "foreign key"))
    assert Schema().check(work) == ()
    assert Schema().do(work).details == ("index a", "foreign key b")


VIEWS = [
    MissingObject("view", "public.open_orders", "by hand", "views are not created"),
    MissingObject("view", "public.all_orders", "by hand"),
]


def test_what_an_application_would_miss_is_refused_unless_it_is_named_and_a_misspelt_name_gets_a_suggestion():
    work, _ = a_work(FakeServers(missing=VIEWS), accept_missing=("public.opne_orders", "public.all_orders"))
    (refusal,) = Schema().check(work)
    assert refusal.details == ("view public.open_orders (views are not created)",)
    assert refusal.hint == (
        "`subscriber schema diff --ddl s` shows the publisher's definitions of what an application would miss: create it in"
        " the target, in the target's SQL. Then run the command again, or accept that the target lacks this:"
        ' --accept-missing public.open_orders. Nothing that is missing has the name "public.opne_orders". Perhaps you meant'
        ' the name "public.open_orders".'
    )
    for accepted in (("view",), ("public.open_orders", "view public.all_orders")):
        work, _ = a_work(FakeServers(missing=VIEWS), accept_missing=accepted)
        assert Schema().check(work) == ()
        assert Schema().do(work).text == "accepted: 2 missing"


def test_a_hint_names_the_first_objects_only():
    work, _ = a_work(FakeServers(missing=[MissingObject("view", f"public.v {n}") for n in range(5)]))
    (refusal,) = Schema().check(work)
    assert refusal.hint.endswith(
        "--accept-missing 'public.v 0' --accept-missing 'public.v 1' --accept-missing 'public.v 2' … (a kind, such as"
        " `view`, accepts all of it)."
    )


def test_a_published_table_that_the_subscription_does_not_have_is_refused_with_the_command_that_brings_it():
    work, _ = a_work(FakeServers(missing=[MissingObject("table outside the subscription", "public.u", "refresh")]))
    (refusal,) = Schema().check(work)
    assert "`subscriber sql -c 'ALTER SUBSCRIPTION s REFRESH PUBLICATION;'` and wait" in refusal.hint
    assert "schema apply" not in refusal.hint
    work, _ = a_work(
        FakeServers(
            missing=[
                MissingObject("table outside the subscription", "public.u", "refresh"),
                MissingObject("index", "a"),
            ]
        )
    )
    (refusal,) = Schema().check(work)
    assert "REFRESH PUBLICATION" in refusal.hint
    assert "schema apply --after s" in refusal.hint


def test_a_missing_column_is_not_said_to_be_built_by_the_schema_step():
    work, _ = a_work(FakeServers(missing=[MissingObject("missing column", "public.t.c", "schema diff")]))
    (refusal,) = Schema().check(work)
    assert "schema apply" not in refusal.hint
    assert "`subscriber schema diff s`" in refusal.hint
    assert "--accept-missing" in refusal.hint
    work, _ = a_work(
        FakeServers(missing=[MissingObject("index", "a"), MissingObject("missing column", "public.t.c", "schema diff")])
    )
    (refusal,) = Schema().check(work)
    assert "schema apply --after s" in refusal.hint
    assert "`subscriber schema diff s`" in refusal.hint


def test_a_missing_table_is_refused_with_the_command_that_lists_its_statements():
    work, _ = a_work(FakeServers(missing=[MissingObject("table", "public.t", "schema diff")]))
    (refusal,) = Schema().check(work)
    assert refusal.details == ("table public.t",)
    assert "schema apply" not in refusal.hint
    assert "`subscriber schema diff s`" in refusal.hint


def test_a_difference_is_refused_with_the_command_that_repairs_it():
    work, servers = a_work(FakeServers(verified=VerifyResult(False, LSN(200), ("public.t: 1 differing",))), verify=True)
    with pytest.raises(UsageError, match="publisher and target differ at 0/C8") as caught:
        Verify().do(work)
    assert caught.value.detail == "public.t: 1 differing"
    assert "subscriber verify s --repair" in str(caught.value.hint)
    assert servers.stored[-1].findings["verify"]["is_equal"] is False


def test_what_was_not_compared_is_told():
    tables = [{"table": "public.t", "notes": ["column g is left out"]}]
    work, _ = a_work(FakeServers(verified=VerifyResult(True, LSN(200), (), {"tables": tables})), verify=True)
    assert Verify().do(work).details == ("public.t: column g is left out",)


def test_a_target_without_a_way_back_is_told_in_one_sentence_and_not_refused():
    work, servers = a_work(reverse=True)
    assert Reverse().check(work) == ()
    outcome = Reverse().do(work)
    assert outcome.text == (
        "there is no way back from SQLite: only a PostgreSQL target can publish what is written to it"
    )
    assert not outcome.was_done
    assert servers.log == []


def test_the_way_back_is_stored_before_it_is_made():
    work, servers = a_work(FakeServers(way_back=True), reverse=True, reverse_connection="host=new password=x")
    Reverse().do(work)
    assert servers.stored[0].options == {"reverse": {"name": "subscriber_reverse_1"}}
    assert servers.log == ["reverse subscriber_reverse_1 host=new password=x"]
    assert "password" not in repr(servers.stored)
    assert "password" not in repr(work.options)


def test_what_prevents_the_way_back_is_refused():
    work, _ = a_work(FakeServers(way_back=True, reverse_problems=[("too old", "upgrade")]), reverse=True)
    (refusal,) = Reverse().check(work)
    assert (refusal.message, refusal.hint) == ("too old", "upgrade")


def test_a_way_back_that_was_made_before_the_interruption_does_not_stand_in_its_own_way():
    work, servers = a_work(FakeServers(way_back=True), reverse=True)
    Reverse().do(work)
    servers.reverse_problems = [("all max_replication_slots of the target are in use", "raise it")]
    assert Reverse().check(work) == ()


def test_before_the_switch_nothing_is_brought_back():
    work, servers = a_work(FakeServers(way_back=True), reverse=True)
    Reverse().do(work)
    Reverse().undo(work)
    assert servers.log[1:] == ["drop_reverse subscriber_reverse_1"]
    assert Reverse().undo(work) is None


def test_names_are_quoted_in_what_is_to_be_run():
    work, servers = a_work(FakeServers(missing=[MissingObject("index", "a")]))
    servers.name = "My shop"
    assert 'ALTER SUBSCRIPTION "My shop" REFRESH SEQUENCES' in SetSequences().plan(work)
    (refusal,) = Schema().check(work)
    assert "`subscriber schema apply --before 'My shop'`" in refusal.hint
