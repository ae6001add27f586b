"""The option ``transform`` in commands: what is refused, what is told, and what is stored."""

from __future__ import annotations

import pytest

from subscriber.base.errors import NotSupportedError, ProgressConflict, SubscriberError, TargetRelationError, UsageError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import check_replicated
from subscriber.catalog.table_states import RelationState
from subscriber.commands.check_transforms import check_transforms, refuse_transforms
from subscriber.postgres.schema.history_rules import parse_history_tables
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.transform_rules import parse_transforms
from subscriber.publisher.client import PublisherClient

CREATE = "CREATE SUBSCRIPTION s CONNECTION 'host=a' PUBLICATION p WITH (connect = false, {})"
ALTER = "ALTER SUBSCRIPTION s SET (transform = '{}')"
FILM = PublishedTable("public", "film", columns=("id", "year"))


@pytest.fixture
def secret(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef")
    monkeypatch.setenv("SUBSCRIBER_TRANSFORM_SECRET_FILE", str(file))
    return file


def refused(session, publisher, text: str, **options) -> SubscriberError | None:
    publisher.add_table("film", "id", "year")
    wanted = SubscriptionOptions(transform=parse_transforms(text), **options)
    client = PublisherClient(publisher.connection)
    return next(iter(refuse_transforms(session.target, client, [FILM], wanted)), None)


# What is stored -----------------------------------------------------------------------------------


def test_the_option_is_stored_with_the_fingerprint_of_the_secret_and_taken_back(session, secret):
    session.run(CREATE.format("transform = 'public.t.a = sha256, public.t.b = constant(''x'')'"))
    (stored,) = session.rows("SELECT subtransform FROM subscriber_subscription")
    text = stored["subtransform"]
    assert text.startswith("public.t.a = sha256('") and text.endswith("'), public.t.b = constant('x')")
    assert secret.read_text() not in str(session.dump())
    session.run(ALTER.format(""))
    assert session.rows("SELECT subtransform FROM subscriber_subscription") == [{"subtransform": None}]


def test_a_hash_without_a_secret_is_refused(session, monkeypatch):
    monkeypatch.delenv("SUBSCRIBER_TRANSFORM_SECRET_FILE", raising=False)
    error = session.refused(CREATE.format("transform = 'public.t.a = sha256'"))
    assert "needs a secret" in error.message
    session.run(CREATE.format("transform = 'public.t.a = null'"))


def test_added_columns_would_arrive_as_they_are_so_both_options_exclude_each_other(session):
    both = "transform and schema_changes = add_columns are mutually exclusive options"
    assert (
        session.refused(CREATE.format("transform = 'public.t.a = null', schema_changes = add_columns")).message == both
    )
    session.run(CREATE.format("transform = 'public.t.a = null'"))
    assert session.refused("ALTER SUBSCRIPTION s SET (schema_changes = add_columns)").message == both


# What is refused ----------------------------------------------------------------------------------


def test_a_table_that_fits_is_accepted(session, publisher, secret):
    session.execute("CREATE TABLE film (id INTEGER PRIMARY KEY, year VARCHAR(64))")
    assert refused(session, publisher, "public.film.year = sha256") is None


def test_a_table_that_is_created_fits(session, publisher, secret):
    assert refused(session, publisher, "public.film.id = sha256, public.film.year = null", create_tables=True) is None


@pytest.mark.parametrize(
    ("declared", "text", "sqlstate", "reason"),
    [
        ("INTEGER", "public.film.year = sha256", "42804", "it is declared INTEGER, and the values are text"),
        ("CHARACTER VARYING(20)", "public.film.year = sha256", "42804", "which does not hold the value"),
        ("INTEGER", "public.film.year = constant(''x'')", "42804", "the constant is not a value of type integer"),
        ("INTEGER", "public.film.year = constant(''007'')", "42804", "PostgreSQL writes this value of type integer as '7'"),
        ("INTEGER NOT NULL", "public.film.year = null", "42P16", "it does not allow NULL in the target"),
        ("INTEGER", "public.film.year = partial(1, 1)", "42804", "it is of type integer"),
        ("INTEGER", "public.film.id = null", "42P16", "because rows are found by it"),
        ("INTEGER", "public.film.id = constant(''1'')", "42P16", "because rows are found by it"),
        ("INTEGER", "public.film.name = null", "42703", 'does not send column "name"'),
        ("INTEGER", "public.movie.year = null", "42P01", "matches no table of the subscription"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(session, publisher, secret, declared, text, sqlstate, reason):
    session.execute(f"CREATE TABLE film (id INTEGER PRIMARY KEY, year {declared})")
    error = refused(session, publisher, text.replace("''", "'"))
    assert error is not None
    assert error.sqlstate == sqlstate
    assert reason in error.message


def test_the_target_s_primary_key_counts_too(session, publisher):
    session.execute("CREATE TABLE film (id INTEGER, year INTEGER PRIMARY KEY)")
    error = refused(session, publisher, "public.film.year = constant('1')")
    assert isinstance(error, NotSupportedError)
    assert error.sqlstate == "42P16"


def test_a_table_with_a_row_for_each_change_has_no_key(session, publisher):
    history = parse_history_tables("public.film = append")
    assert refused(session, publisher, "public.film.id = null", history_tables=history, create_tables=True) is None


def test_the_command_raises_the_first_error_and_warns_of_a_key_with_other_values(session, publisher, secret):
    publisher.add_table("film", "id", "year")
    client = PublisherClient(publisher.connection)
    options = SubscriptionOptions(transform=parse_transforms("public.film.id = sha256"), create_tables=True)
    check_transforms(session.target, client, [FILM], options, session.said.append)
    (said,) = session.said
    assert said.startswith('WARNING:  table "public.film": its key has other values: id (sha256)\nDETAIL:  ')
    session.execute("CREATE TABLE film (id INTEGER PRIMARY KEY, year INTEGER)")
    with pytest.raises(TargetRelationError, match="the values are text"):
        check_transforms(session.target, client, [FILM], options, session.said.append)


# What is changed ----------------------------------------------------------------------------------


@pytest.fixture
def film(session, publisher):
    publisher.add_table("film", "id", "year")
    session.execute("CREATE TABLE film (id INTEGER PRIMARY KEY, year INTEGER)")
    return session


def test_rows_that_are_there_must_be_copied_again(film):
    film.subscribe(tables={"film": RelationState.READY}, enabled=False)
    film.run(ALTER.format("public.film.year = null"))
    (said,) = film.said
    assert said.startswith("WARNING:  rows that are in the target keep the values that they have\nDETAIL:  ")
    assert said.endswith("HINT:  ALTER SUBSCRIPTION s REFRESH TABLE public.film;")
    assert film.subscription().options.transform == parse_transforms("public.film.year = null")
    film.run("ALTER SUBSCRIPTION s REFRESH TABLE public.film")
    film.said.clear()
    film.run(ALTER.format("public.film.year = constant(''7'')"))
    assert film.said == []


def test_an_enabled_subscription_with_rows_is_refused_with_the_statements(film):
    film.subscribe(tables={"film": RelationState.READY})
    error = film.refused(ALTER.format("public.film.year = null"))
    assert isinstance(error, UsageError)
    assert error.sqlstate == "55000"
    assert "REFRESH TABLE public.film;" in (error.hint or "")
    film.run(ALTER.format("public.other.year = null"))
    assert film.said == ['WARNING:  relation "public.other" of option "transform" matches no table of the subscription']


def test_set_refuses_what_create_refuses(film):
    film.subscribe(tables={"film": RelationState.INIT})
    assert film.refused(ALTER.format("public.film.name = null")).sqlstate == "42703"
    assert film.refused(ALTER.format("public.film.id = null")).sqlstate == "42P16"


def test_a_copy_that_began_with_other_transforms_does_not_commit(film):
    before = film.subscribe(tables={"film": RelationState.INIT})
    with film.target.begin() as connection:
        check_replicated(connection, before)
    film.run(ALTER.format("public.film.year = null"))
    with film.target.begin() as connection:
        with pytest.raises(ProgressConflict, match="has changed"):
            check_replicated(connection, before)
        check_replicated(connection, film.subscription())


def test_a_table_with_transforms_must_not_leave_the_publications_unnoticed(film):
    """If it was renamed, REFRESH PUBLICATION would copy it under its new name as it is."""
    film.subscribe(
        tables={"film": RelationState.READY, "movie": RelationState.READY},
        transform=parse_transforms("public.movie.year = null, public.later.a = null"),
    )
    error = film.refused("ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    assert error.sqlstate == "42P01"
    assert 'relation "public.movie"' in error.message
