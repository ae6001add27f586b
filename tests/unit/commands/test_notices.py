"""The texts of notices and warnings."""

from __future__ import annotations

import pytest

from subscriber.commands.notices import (
    COPIES,
    RETAINS,
    SYNCHRONIZES,
    first_names,
    notice,
    quoted,
    warn_missing_publications,
    warn_other_origins,
    warn_unreadable,
    warn_unused_names,
    warn_without_identity,
    warning,
)
from subscriber.postgres.schema.relation_names import parse_names
from subscriber.publisher.table_checks import TableWithoutIdentity, UnreadableTable


def test_a_message_begins_with_its_severity_as_psql_prints_it():
    said: list[str] = []
    notice(said.append, "done")
    warning(said.append, "careful")
    warning(said.append, "careful", detail="why", hint="what to do")
    warning(said.append, "careful", hint="what to do")
    assert said == [
        "NOTICE:  done",
        "WARNING:  careful",
        "WARNING:  careful\nDETAIL:  why\nHINT:  what to do",
        "WARNING:  careful\nHINT:  what to do",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, '"t1"'),
        (2, '"t1", "t2"'),
        (5, '"t1", "t2", "t3", "t4", "t5"'),
        (6, '"t1", "t2", "t3", "t4", "t5" and 1 more'),
        (1005, '"t1", "t2", "t3", "t4", "t5" and 1,000 more'),
    ],
)
def test_of_many_names_the_first_five_are_told_and_the_number_of_the_others(count, text):
    names = [f"t{number}" for number in range(1, count + 1)]
    assert first_names(names) == text
    if count <= 5:
        assert quoted(names) == text


# Replica identity ---------------------------------------------------------------------------------


def without_identity(name: str, *, updates: bool = True, deletes: bool = True) -> TableWithoutIdentity:
    return TableWithoutIdentity("public", name, updates, deletes, f"ALTER TABLE {name} …")


@pytest.mark.parametrize(
    ("updates", "deletes", "detail"),
    [
        (
            True,
            True,
            (
                'UPDATE and DELETE on it fail, for every application: cannot update table "film" because it does not have a'
                ' replica identity and publishes updates; cannot delete from table "film" because it does not have a replica'
                " identity and publishes deletes."
            ),
        ),
        (
            True,
            False,
            (
                'UPDATE on it fails, for every application: cannot update table "film" because it does not have a replica'
                " identity and publishes updates."
            ),
        ),
        (
            False,
            True,
            (
                'DELETE on it fails, for every application: cannot delete from table "film" because it does not have a replica'
                " identity and publishes deletes."
            ),
        ),
    ],
    ids=["both", "updates", "deletes"],
)
def test_a_table_without_replica_identity_is_told_with_the_publishers_errors(updates, deletes, detail):
    """The errors are those of CheckCmdReplicaIdentity."""
    said: list[str] = []
    warn_without_identity(said.append, [without_identity("film", updates=updates, deletes=deletes)])
    assert said == [
        (
            'WARNING:  published table "public.film" has no replica identity\n'
            f"DETAIL:  At the publisher, {detail}\nHINT:  Run at the publisher: ALTER TABLE film …;"
        )
    ]


def test_several_tables_without_replica_identity_are_one_warning_with_one_script():
    said: list[str] = []
    warn_without_identity(said.append, [without_identity("a"), without_identity("b", deletes=False)])
    (text,) = said
    assert text.startswith('WARNING:  2 published tables have no replica identity: "public.a", "public.b"\n')
    assert "UPDATE and DELETE on each of them fail" in text
    assert text.endswith("HINT:  Run at the publisher: ALTER TABLE a …; ALTER TABLE b …;")


# Privileges ---------------------------------------------------------------------------------------


def test_tables_that_the_role_cannot_copy_are_told_with_each_grant_once():
    said: list[str] = []
    usage = "GRANT USAGE ON SCHEMA s TO ann"
    one = UnreadableTable("s", "a", "ann", (usage, "GRANT SELECT ON TABLE s.a TO ann"))
    two = UnreadableTable("s", "b", "ann", (usage, "GRANT SELECT ON TABLE s.b TO ann"))
    warn_unreadable(said.append, [one])
    warn_unreadable(said.append, [one, two])
    assert said == [
        (
            'WARNING:  role "ann" does not have the privilege to read published table "s.a"\n'
            "DETAIL:  The initial copy fails for it until the privilege is granted.\n"
            f"HINT:  Run at the publisher: {usage}; GRANT SELECT ON TABLE s.a TO ann;"
        ),
        (
            'WARNING:  role "ann" does not have the privilege to read 2 published tables: "s.a", "s.b"\n'
            "DETAIL:  The initial copy fails for each of them until the privilege is granted.\n"
            f"HINT:  Run at the publisher: {usage}; GRANT SELECT ON TABLE s.a TO ann; GRANT SELECT ON TABLE s.b TO ann;"
        ),
    ]


# Publications -------------------------------------------------------------------------------------


def test_missing_publications_are_told_in_postgresqls_words():
    """C54: check_publications."""
    said: list[str] = []
    warn_missing_publications(said.append, ["p"])
    warn_missing_publications(said.append, ["p", "q"])
    assert said == [
        'WARNING:  publication "p" does not exist on the publisher',
        'WARNING:  publications "p", "q" do not exist on the publisher',
    ]


def test_rows_of_other_origins_are_told_in_postgresqls_words():
    """C55: check_publications_origin."""
    said: list[str] = []
    warn_other_origins(said.append, COPIES, "s", ["p"])
    warn_other_origins(said.append, COPIES, "s", ["p", "q"])
    assert said == [
        'WARNING:  subscription "s" requested copy_data with origin = NONE but might copy data that had a different origin\n'
        f"DETAIL:  The subscription being created subscribes to {subscribes} tables that are written to by other subscriptions.\n"
        "HINT:  Verify that initial data copied from the publisher tables did not come from other origins."
        for subscribes in ('a publication ("p") that contains', 'publications ("p", "q") that contain')
    ]


def test_changes_of_other_origins_are_told_in_the_words_of_19():
    """C55: check_publications_origin_tables, check_publications_origin_sequences."""
    said: list[str] = []
    warn_other_origins(said.append, COPIES, "s", ["p"], 19)
    warn_other_origins(said.append, RETAINS, "s", ["p"])
    warn_other_origins(said.append, SYNCHRONIZES, "s", ["p", "q"])
    tables = 'a publication ("p") that contains tables that are written to by other subscriptions'
    sequences = 'publications ("p", "q") that contain sequences that are synchronized from other subscriptions'
    assert [text.splitlines()[1:] for text in said] == [
        [
            f"DETAIL:  The subscription subscribes to {tables}.",
            "HINT:  Verify that initial data copied from the publisher tables did not come from other origins.",
        ],
        [
            f"DETAIL:  The subscription subscribes to {tables}.",
            "HINT:  Consider using origin = NONE or disabling retain_dead_tuples.",
        ],
        [
            f"DETAIL:  The subscription subscribes to {sequences}.",
            "HINT:  Verify that the initial values copied from the publisher sequences did not come from other origins.",
        ],
    ]
    assert said[1].startswith(
        'WARNING:  subscription "s" enabled retain_dead_tuples but might not reliably detect conflicts for changes from different origins\n'
    )
    assert said[2].startswith(
        'WARNING:  subscription "s" requested origin = NONE but might synchronize sequence values that had a different origin\n'
    )


def test_nothing_to_tell_is_not_told():
    said: list[str] = []
    warn_without_identity(said.append, [])
    warn_unreadable(said.append, [])
    warn_missing_publications(said.append, [])
    warn_other_origins(said.append, COPIES, "s", [])
    warn_unused_names(said.append, parse_names("a.t => b.t, public.* => c.*"), [("a", "t"), ("public", "u")])
    assert said == []


def test_names_of_a_map_that_match_no_table_are_told():
    said: list[str] = []
    warn_unused_names(said.append, parse_names("a.t => b.t, a.u => b.u, c.* => d.*"), [("a", "t")])
    assert said == [
        'WARNING:  relation "a.u" of option "map" matches no table of the subscription',
        'WARNING:  schema "c" of option "map" matches no table of the subscription',
    ]
