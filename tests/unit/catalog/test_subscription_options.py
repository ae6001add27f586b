"""subscription.options: names, defaults, values and combinations as in PostgreSQL 18 (C53, C54)."""

import subprocess
import sys

import pytest

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.catalog.subscription_options import (
    Form,
    SubscriptionOptions,
    parse_options,
    read_options,
    receiver_timeout,
)
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.postgres.schema.relation_names import SAME_NAMES, parse_names
from subscriber.postgres.sql.option_list import Option, OptionList, OptionValue


def options(**given: OptionValue) -> SubscriptionOptions:
    return parse_options(OptionList(tuple(Option(name, value, 0) for name, value in given.items())), "s")


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
        (
            {"slot_name": "pg_conflict_detection"},
            'replication slot name "pg_conflict_detection" is reserved',
            "42939",
        ),
        ({"wal_receiver_timeout": "foo"}, 'invalid value for parameter "wal_receiver_timeout": "foo"', "22023"),
        ({"wal_receiver_timeout": "1x"}, 'invalid value for parameter "wal_receiver_timeout": "1x"', "22023"),
        (
            {"wal_receiver_timeout": "30d"},
            'invalid value for parameter "wal_receiver_timeout": "30d"',
            "22023",
        ),
        (
            {"wal_receiver_timeout": -2},
            '-2 ms is outside the valid range for parameter "wal_receiver_timeout" (0 ms .. 2147483647 ms)',
            "22023",
        ),
        ({"parallel_apply": "4"}, "parallel_apply requires an integer value", "42601"),
        ({"parallel_apply": None}, "parallel_apply requires an integer value", "42601"),
        ({"parallel_apply": 0}, '0 is outside the valid range for parameter "parallel_apply" (1 .. 8)', "22023"),
        ({"parallel_apply": 9}, '9 is outside the valid range for parameter "parallel_apply" (1 .. 8)', "22023"),
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
    twice = (Option("copy_data", "false", 5), Option("copy_data", "false", 22))
    with pytest.raises(SQLSyntaxError, match=r"^conflicting or redundant options$") as caught:
        parse_options(OptionList(twice), "s")
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


@pytest.mark.parametrize(
    ("value", "stored", "seconds"),
    [(-1, "-1", 60.0), ("7s", "7s", 7.0), (0, "0", 0.0), (1500, "1500", 1.5), ("2 min", "2 min", 120.0)],
)
def test_the_timeout_is_stored_as_it_is_written_and_minus_one_is_the_settings(value, stored, seconds):
    """What PostgreSQL 19 stores in subwalrcvtimeout."""
    read = options(wal_receiver_timeout=value)
    assert (read.wal_receiver_timeout, receiver_timeout(read, 60.0)) == (stored, seconds)


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


def altering(form: Form, **given: OptionValue) -> dict[str, object]:
    return read_options(OptionList(tuple(Option(name, value, 0) for name, value in given.items())), form)


def test_what_is_altered_is_what_was_given():
    """C53: nothing gets its default again."""
    assert altering("SET", binary="on", slot_name="none") == {"binary": True, "slot_name": None}
    assert altering("PUBLICATION") == {}


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *(("SET", name) for name in ("connect", "enabled", "create_slot", "copy_data", "refresh", "lsn", "carrier")),
        *(("PUBLICATION", name) for name in ("binary", "create_tables", "lsn")),
        *(("REFRESH", name) for name in ("refresh", "binary")),
        *(("SKIP", name) for name in ("refresh", "binary")),
    ],
)
def test_each_form_knows_its_own_options(form, name):
    """C54."""
    with pytest.raises(SQLSyntaxError, match=f'^unrecognized subscription parameter: "{name}"$'):
        altering(form, **{name: "x"})


@pytest.mark.parametrize(("value", "lsn"), [("16/B374D848", 0x16B374D848), ("0/1", 1), ("none", 0)])
def test_the_lsn_to_skip_is_an_lsn_or_none(value, lsn):
    """C40, C41."""
    assert altering("SKIP", lsn=value) == {"lsn": lsn}


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
        altering("SKIP", lsn=value)
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
    assert altering("SET", map="") == {"map": SAME_NAMES}


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
    assert altering("SET", schema_changes="add_columns") == {"schema_changes": "add_columns"}
    assert refusal(schema_changes="drop_columns") == ('unrecognized schema_changes value: "drop_columns"', "22023")
    assert refusal(schema_changes=None) == ("schema_changes requires a parameter", "42601")


NEW_OPTION = """
    greeting: str = field(
        default="none",
        metadata=_option(
            read=option_list.read_text,
            column=_word("subgreeting", 20, server_default="none"),
            since=170000,
            restarts=False,
            heading="Greeting",
        ),
    )
"""

USE = """
import sys
from dataclasses import replace
from importlib.machinery import SourceFileLoader

get_code = SourceFileLoader.get_code

def with_one_more_option(self, name):
    if name != "subscriber.catalog.subscription_options":
        return get_code(self, name)
    source = self.get_source(name)
    assert source.count("    # Not in PostgreSQL:") == 1
    return compile(source.replace("    # Not in PostgreSQL:", {field!r}), self.path, "exec")

SourceFileLoader.get_code = with_one_more_option

from subscriber.catalog.subscriptions import get_subscription
from subscriber.cli.backslash import run_backslash
from subscriber.commands import requirements
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import parse
from subscriber.base.errors import NotSupportedError
from subscriber.worker.worker_state import needs_restart
from subscriber.base.settings import Settings
from subscriber.targets import open_target

with open_target("sqlite:///" + sys.argv[1]) as target:
    def run(sql):
        run_command(target, parse(sql), Settings.from_environment(), lambda _: None)
        with target.begin() as connection:
            return get_subscription(connection, sql.split()[2])

    made = run("CREATE SUBSCRIPTION new CONNECTION '' PUBLICATION p WITH (connect = false, greeting = hello)")
    assert made.options.greeting == "hello"
    with target.begin() as connection:
        assert get_subscription(connection, "old").options.greeting == "none"
    altered = run("ALTER SUBSCRIPTION new SET (greeting = hi)")
    assert altered.options.greeting == "hi"
    assert not needs_restart(made, altered)
    assert needs_restart(made, replace(altered, options=replace(altered.options, binary=True)))
    shown = [line.split("|") for line in run_backslash(chr(92) + "dRs+", target).splitlines() if "|" in line]
    place = [one.strip() for one in shown[0]].index("Greeting")
    assert {{row[place].strip() for row in shown[1:]}} == {{"hi", "none"}}
    try:
        requirements.check_publisher(160000, {{"greeting": "hi"}})
    except NotSupportedError as error:
        assert error.message == "greeting = hi needs PostgreSQL 17 or newer at the publisher"
    else:
        raise AssertionError("PostgreSQL 16 has the option")
"""


def test_a_new_option_is_one_field_for_catalog_commands_worker_and_prompt(target, tmp_path):
    """A catalog without the option's column gets it: the program is started with one more field."""
    with target.begin() as connection:
        insert_subscription(connection, "old", "", ("p",), SubscriptionOptions(slot_name="old"))
    target.engine.dispose()
    script = USE.format(field=NEW_OPTION)
    run = subprocess.run([sys.executable, "-c", script, str(target.file)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
