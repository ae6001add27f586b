"""subscription.options: names, defaults, values and combinations as in PostgreSQL 18 (C53, C54)."""

import pytest

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.subscription_options import ALTERABLE, REFRESHING, SKIPPING, parse_options, read_options
from subscriber.errors import SQLSyntaxError, UsageError
from subscriber.schema.relation_names import SAME_NAMES, parse_names
from subscriber.sql.option_list import Option, OptionValue


def options(**given: OptionValue) -> SubscriptionOptions:
    return parse_options("", [Option(name, value, 0) for name, value in given.items()], "s")


def refusal(**given: OptionValue) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        options(**given)
    return caught.value.message, caught.value.sqlstate


BOOLEANS = (
    *("connect", "enabled", "create_slot", "copy_data", "binary", "two_phase", "disable_on_error"),
    *("password_required", "run_as_owner", "failover", "create_tables"),
    "log_conflict_values",
)


def test_the_defaults_are_postgresqls():
    """C53."""
    assert options() == SubscriptionOptions(
        connect=True,
        enabled=True,
        create_slot=True,
        slot_name="s",
        copy_data=True,
        binary=False,
        streaming="parallel",
        two_phase=False,
        disable_on_error=False,
        password_required=True,
        run_as_owner=False,
        failover=False,
        origin="any",
        synchronous_commit="off",
        create_tables=False,
        map=SAME_NAMES,
        schema_changes="stop",
        log_conflict_values=False,
    )


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize(
    ("value", "meaning"),
    [("true", True), ("ON", True), (1, True), (None, True), ("False", False), ("off", False), (0, False)],
)
def test_a_boolean_is_written_as_postgresql_takes_it(name, value, meaning):
    """DefGetBoolean; connect=false also turns the options off that need a connection."""
    assert getattr(options(**{name: value}), name) is meaning


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", ["1", "yes", "t", "", 2, -1, "1.0"])
def test_what_is_no_boolean_is_refused(name, value):
    assert refusal(**{name: value}) == (f"{name} requires a Boolean value", "42601")


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("parallel", "parallel"),
        ("Parallel", "parallel"),
        ("on", "on"),
        (None, "on"),
        (1, "on"),
        ("false", "off"),
        (0, "off"),
    ],
)
def test_streaming_is_a_boolean_or_parallel(value, meaning):
    assert options(streaming=value).streaming == meaning


@pytest.mark.parametrize("value", ["maybe", 2, ""])
def test_streaming_refuses_the_rest(value):
    assert refusal(streaming=value) == ('streaming requires a Boolean value or "parallel"', "42601")


@pytest.mark.parametrize(
    ("given", "message", "sqlstate"),
    [
        ({"origin": "foo"}, 'unrecognized origin value: "foo"', "22023"),
        ({"origin": None}, "origin requires a parameter", "42601"),
        ({"slot_name": None}, "slot_name requires a parameter", "42601"),
        ({"slot_name": ""}, 'replication slot name "" is too short', "42602"),
        ({"slot_name": "a" * 64}, f'replication slot name "{"a" * 64}" is too long', "42622"),
        ({"slot_name": "Foo"}, 'replication slot name "Foo" contains invalid character', "42602"),
        ({"slot_name": "NONE"}, 'replication slot name "NONE" contains invalid character', "42602"),
        ({"slot_name": -1}, 'replication slot name "-1" contains invalid character', "42602"),
        ({"synchronous_commit": "foo"}, 'invalid value for parameter "synchronous_commit": "foo"', "22023"),
        ({"synchronous_commit": None}, "synchronous_commit requires a parameter", "42601"),
        ({"refresh": "false"}, 'unrecognized subscription parameter: "refresh"', "42601"),
        ({"Enabled": "true"}, 'unrecognized subscription parameter: "Enabled"', "42601"),
    ],
)
def test_a_wrong_option_is_refused_in_postgresqls_words(given, message, sqlstate):
    assert refusal(**given) == (message, sqlstate)


def test_a_repeated_option_is_refused_even_with_the_same_value():
    """A28's text, which subscriptions share."""
    twice = [Option("copy_data", "false", 5), Option("copy_data", "false", 22)]
    with pytest.raises(SQLSyntaxError, match=r"^conflicting or redundant options$") as caught:
        parse_options("", twice, "s")
    assert "At character 23 (" in caught.value.report()


def test_the_first_wrong_option_is_the_one_that_is_named():
    assert refusal(connect="x", nope=None)[0] == "connect requires a Boolean value"
    assert refusal(nope=None, connect="x")[0] == 'unrecognized subscription parameter: "nope"'


@pytest.mark.parametrize(("value", "slot"), [("a_1", "a_1"), (5, "5"), ("a" * 63, "a" * 63)])
def test_a_slot_name_has_letters_digits_and_underscores(value, slot):
    assert options(slot_name=value).slot_name == slot


@pytest.mark.parametrize("other", ["enabled", "create_slot", "copy_data"])
def test_connect_false_excludes_what_needs_a_connection(other):
    """C54."""
    message = f"connect = false and {other} = true are mutually exclusive options"
    assert refusal(**{other: None, "connect": "false"}) == (message, "42601")


def test_connect_false_turns_off_what_was_not_given():
    """C54."""
    found = options(connect="false")
    assert (found.enabled, found.create_slot, found.copy_data) == (False, False, False)
    assert options(connect="false", slot_name="none").slot_name is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "subscription with slot_name = NONE must also set enabled = false"),
        ({"enabled": "false"}, "subscription with slot_name = NONE must also set create_slot = false"),
        ({"create_slot": "false"}, "subscription with slot_name = NONE must also set enabled = false"),
        ({"enabled": "true"}, "slot_name = NONE and enabled = true are mutually exclusive options"),
        (
            {"enabled": "false", "create_slot": "true"},
            "slot_name = NONE and create_slot = true are mutually exclusive options",
        ),
    ],
)
def test_no_slot_needs_a_disabled_subscription_without_one(given, message):
    """C54."""
    assert refusal(slot_name="none", **given) == (message, "42601")


def test_no_slot_is_possible():
    assert options(slot_name="none", enabled="off", create_slot="off").slot_name is None


def altering(known: frozenset[str], **given: OptionValue) -> dict[str, object]:
    return read_options("", [Option(name, value, 0) for name, value in given.items()], known)


def test_what_is_altered_is_what_was_given():
    """C53: nothing gets its default again."""
    assert altering(ALTERABLE, binary="on", slot_name="none") == {"binary": True, "slot_name": None}
    assert altering(REFRESHING) == {}


@pytest.mark.parametrize(
    ("known", "name"),
    [
        *(
            (ALTERABLE, name)
            for name in ("connect", "enabled", "create_slot", "copy_data", "refresh", "lsn", "carrier")
        ),
        *((REFRESHING, name) for name in ("binary", "create_tables", "lsn")),
        *((SKIPPING, name) for name in ("refresh", "binary")),
    ],
)
def test_each_form_knows_its_own_options(known, name):
    """C54."""
    with pytest.raises(SQLSyntaxError, match=f'^unrecognized subscription parameter: "{name}"$'):
        altering(known, **{name: "x"})


@pytest.mark.parametrize(("value", "lsn"), [("16/B374D848", 0x16B374D848), ("0/1", 1), ("none", 0)])
def test_the_lsn_to_skip_is_an_lsn_or_none(value, lsn):
    """C40, C41."""
    assert altering(SKIPPING, lsn=value) == {"lsn": lsn}


@pytest.mark.parametrize(
    ("value", "message", "sqlstate"),
    [
        ("0/0", "invalid WAL location (LSN): 0/0", "22023"),
        ("NONE", 'invalid input syntax for type pg_lsn: "NONE"', "22P02"),
        (7, 'invalid input syntax for type pg_lsn: "7"', "22P02"),
        (None, "lsn requires a parameter", "42601"),
    ],
)
def test_another_lsn_is_refused(value, message, sqlstate):
    with pytest.raises(UsageError) as caught:
        altering(SKIPPING, lsn=value)
    assert (caught.value.message, caught.value.sqlstate) == (message, sqlstate)


def test_a_carrier_is_the_name_of_a_publication():
    assert options(carrier="all_rows").carrier == "all_rows"
    assert options().carrier is None
    with pytest.raises(SQLSyntaxError, match=r"^carrier requires the name of a publication$"):
        options(carrier="")
    with pytest.raises(SQLSyntaxError, match=r"^carrier requires a parameter$"):
        options(carrier=None)


def test_a_map_is_read_with_the_option_and_may_be_taken_back():
    assert options(map="public.t => archive.t").map == parse_names("public.t => archive.t")
    assert altering(ALTERABLE, map="") == {"map": SAME_NAMES}


@pytest.mark.parametrize(
    ("value", "message", "sqlstate"),
    [
        (None, "map requires a parameter", "42601"),
        ("t => u", 'invalid syntax in parameter "map"', "42601"),
        ("a.t => b.t, a.t => c.t", 'relation "a.t" is mapped more than once', "42710"),
    ],
)
def test_a_malformed_map_is_refused_when_it_is_given(value, message, sqlstate):
    assert refusal(map=value) == (message, sqlstate)


def test_schema_changes_stop_the_worker_or_add_columns():
    assert (options(schema_changes="ADD_columns").schema_changes, options(schema_changes="stop").schema_changes) == (
        "add_columns",
        "stop",
    )
    assert altering(ALTERABLE, schema_changes="add_columns") == {"schema_changes": "add_columns"}
    assert refusal(schema_changes="drop_columns") == ('unrecognized schema_changes value: "drop_columns"', "22023")
    assert refusal(schema_changes=None) == ("schema_changes requires a parameter", "42601")
