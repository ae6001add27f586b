"""What a session on our engine may not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.testing.nodes.session_catalogs import Situation, check_statement, is_subscription_command
from subscriber.testing.session.psql_input import query_of

ALONE = Situation(
    in_target=True, in_transaction=False, beside_another=False, after_subscription_command=False, is_stale=lambda: False
)
MIRRORED = replace(ALONE, in_target=False)
STALE = replace(ALONE, in_transaction=True, is_stale=lambda: True)
CHANGED = replace(ALONE, in_transaction=True, after_subscription_command=True)


def check(text: str, situation: Situation = ALONE) -> frozenset[str]:
    return check_statement(text, query_of(text).words, situation)


@pytest.mark.parametrize(
    ("text", "situation", "refused"),
    [
        ("SELECT * FROM pg_Publication_tables", ALONE, "pg_Publication_tables"),
        ("SELECT pg_replication_origin_create('o')", ALONE, "pg_replication_origin_create"),
        ("SELECT pg_current_wal_lsn()", MIRRORED, "pg_current_wal_lsn"),
        ("ALTER TABLE pg_subscription ADD a int", ALONE, "pg_subscription"),
        ("COMMENT ON SUBSCRIPTION s IS 'x'", ALONE, "COMMENT ON a subscription or publication"),
        ("PREPARE TRANSACTION 'g'", MIRRORED, "PREPARE TRANSACTION"),
        ("commit prepared 'g'", MIRRORED, "COMMIT PREPARED"),
        ("ALTER TABLE t ENABLE REPLICA TRIGGER g", MIRRORED, "a trigger or rule that fires for replicated rows"),
        ("SELECT 1", replace(MIRRORED, beside_another=True), "a statement beside another session's open transaction"),
        ("SELECT 1", STALE, "a statement in a transaction during which rows have been replicated"),
        ("ROLLBACK TO p", CHANGED, "ROLLBACK TO P after a subscription command"),
        ("COMMIT AND CHAIN", CHANGED, "COMMIT AND CHAIN after a subscription command"),
        ("PREPARE TRANSACTION 'g'", CHANGED, "PREPARE TRANSACTION after a subscription command"),
    ],
)
def test_what_would_have_a_wrong_answer_is_refused_by_name(text, situation, refused):
    with pytest.raises(NotSupportedError) as caught:
        check(text, situation)
    assert caught.value.message == f"{refused} is not supported on this subscriber"


@pytest.mark.parametrize(
    ("text", "situation"),
    [
        ("SELECT pg_current_wal_lsn()", ALONE),
        ("SELECT * FROM t", MIRRORED),
        ("PREPARE TRANSACTION 'g'", ALONE),
        ("PREPARE q AS SELECT 1", MIRRORED),
        ("ALTER TABLE t ENABLE TRIGGER g", MIRRORED),
        ("SELECT 1", replace(ALONE, beside_another=True)),
        ("ROLLBACK", STALE),
        ("COMMIT", CHANGED),
        ("SELECT pg_stat_clear_snapshot()", MIRRORED),
        ("SELECT 'not ended", MIRRORED),
        ("", MIRRORED),
    ],
)
def test_what_the_session_s_database_answers_truly_is_let_through(text, situation):
    assert check(text, situation) == frozenset()


def test_the_catalogs_that_are_asked_for_are_told():
    assert check("SELECT * FROM pg_subscription_rel JOIN pg_subscription ON true") == {
        "pg_subscription",
        "pg_subscription_rel",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE SUBSCRIPTION s CONNECTION '' PUBLICATION p", True),
        ("drop publication p", True),
        ('CREATE TABLE "subscription" (a int)', False),
        ("CREATE", False),
        ("", False),
    ],
)
def test_subscription_commands_are_known_by_their_first_words(text, expected):
    assert is_subscription_command(query_of(text).words) is expected
