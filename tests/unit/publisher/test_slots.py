"""Replication commands, version by version."""

from __future__ import annotations

import threading

import pytest

from subscriber.base.errors import NotSupportedError
from subscriber.base.lsn import LSN
from subscriber.publisher.slots import CreatedSlot, StreamOptions, alter_slot, create_slot, start_command

P = StreamOptions(("p",))


class Recording:
    """A replication connection that keeps the commands."""

    conninfo, application_name, process_id = "", "s", 1

    def __init__(self, server_version: int) -> None:
        self.server_version = server_version
        self.commands: list[str] = []

    def execute(self, command: str, stop: threading.Event | None = None) -> list[dict[str, str | None]]:
        self.commands.append(command)
        return [
            {"slot_name": "s", "consistent_point": "16/B374D848", "snapshot_name": "00000003-1", "output_plugin": "p"}
        ]


def created(server_version: int, name: str = "s", **options) -> str:
    connection = Recording(server_version)
    create_slot(connection, name, **options)  # type: ignore[arg-type]
    (command,) = connection.commands
    return command


@pytest.mark.parametrize(
    ("server", "options", "command"),
    [
        (100000, {"snapshot": "export"}, "EXPORT_SNAPSHOT"),
        (140000, {"snapshot": "use"}, "USE_SNAPSHOT"),
        (149999, {"snapshot": "nothing"}, "NOEXPORT_SNAPSHOT"),
        (150000, {"snapshot": "export"}, "(SNAPSHOT 'export')"),
        (150000, {"snapshot": "nothing", "two_phase": True}, "(TWO_PHASE, SNAPSHOT 'nothing')"),
        (170000, {"snapshot": "use", "two_phase": True, "failover": True}, "(TWO_PHASE, FAILOVER, SNAPSHOT 'use')"),
    ],
)
def test_a_slot_is_created_in_the_words_of_the_server_s_version(server, options, command):
    """Rule A37."""
    assert created(server, **options) == f'CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput {command}'


@pytest.mark.parametrize(
    ("server", "options"), [(100000, "EXPORT_SNAPSHOT"), (149999, "EXPORT_SNAPSHOT"), (150000, "(SNAPSHOT 'export')")]
)
def test_a_temporary_slot_is_one_since_the_oldest_version(server, options):
    """Rule A37."""
    command = created(server, snapshot="export", temporary=True)
    assert command == f'CREATE_REPLICATION_SLOT "s" TEMPORARY LOGICAL pgoutput {options}'


def test_a_new_slot_says_where_it_begins_and_what_it_exports():
    connection = Recording(180000)
    slot = create_slot(connection, "s", snapshot="export")  # type: ignore[arg-type]
    assert slot == CreatedSlot(LSN(0x16_B374D848), "00000003-1")


@pytest.mark.parametrize(
    ("server", "options", "since"),
    [(140009, {"two_phase": True}, 15), (160004, {"failover": True}, 17)],
)
def test_an_option_that_the_server_is_too_old_for_is_refused_before_anything_is_made(server, options, since):
    """Invariant refuse_not_guess."""
    connection = Recording(server)
    with pytest.raises(NotSupportedError) as caught:
        create_slot(connection, "s", snapshot="nothing", **options)  # type: ignore[arg-type]
    assert f"needs PostgreSQL {since} or newer at the publisher" in caught.value.message
    assert f"PostgreSQL {server // 10000}" in str(caught.value.detail)
    assert caught.value.hint
    assert connection.commands == []


@pytest.mark.parametrize(
    ("server", "arguments"),
    [
        (100000, "proto_version '1', publication_names '\"p\"'"),
        (140000, "proto_version '2', streaming 'on', publication_names '\"p\"'"),
        (150000, "proto_version '3', streaming 'on', publication_names '\"p\"'"),
        (160000, "proto_version '4', streaming 'parallel', origin 'any', publication_names '\"p\"'"),
    ],
)
def test_the_default_options_ask_for_what_each_version_has(server, arguments):
    """Rule A33: streaming falls back where the server has less of it, since the outcome is the
    same.
    """
    expected = f'START_REPLICATION SLOT "s" LOGICAL 16/B374D848 ({arguments})'
    assert start_command(server, "s", LSN(0x16_B374D848), P) == expected


def test_every_option_stands_in_postgresql_s_order():
    options = StreamOptions(("p", "q"), "on", two_phase=True, binary=True, messages=True, origin="none")
    assert start_command(180000, "s", LSN(0), options) == (
        "START_REPLICATION SLOT \"s\" LOGICAL 0/0 (proto_version '4', streaming 'on', two_phase 'on', origin 'none', "
        "publication_names '\"p\",\"q\"', binary 'true', messages 'true')"
    )


def test_streaming_off_is_not_mentioned():
    assert "streaming" not in start_command(180000, "s", LSN(0), StreamOptions(("p",), "off"))


@pytest.mark.parametrize(
    ("server", "options"),
    [
        (140000, StreamOptions(("p",), two_phase=True)),
        (150000, StreamOptions(("p",), origin="none")),
        (130000, StreamOptions(("p",), binary=True)),
        (130000, StreamOptions(("p",), messages=True)),
    ],
    ids=["two_phase", "origin", "binary", "messages"],
)
def test_an_option_that_would_change_the_outcome_is_refused_by_an_older_server(server, options):
    with pytest.raises(NotSupportedError, match="or newer at the publisher"):
        start_command(server, "s", LSN(0), options)


def test_names_are_quoted_whatever_they_hold():
    """Invariant names_are_data: an identifier inside a literal inside a command."""
    command = start_command(180000, 'a"b', LSN(0), StreamOptions(("it's", 'x"y', "a,b")))
    assert 'SLOT "a""b" LOGICAL' in command
    assert """publication_names '"it''s","x""y","a,b"'""" in command
    assert created(180000, 'a"b', snapshot="nothing").startswith('CREATE_REPLICATION_SLOT "a""b" LOGICAL')


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ({"failover": True}, "FAILOVER true"),
        ({"two_phase": False}, "TWO_PHASE false"),
        ({"failover": False, "two_phase": True}, "FAILOVER false, TWO_PHASE true"),
    ],
)
def test_only_the_options_that_are_given_are_altered(options, listed):
    connection = Recording(180000)
    alter_slot(connection, 'a"b', **options)  # type: ignore[arg-type]
    assert connection.commands == [f'ALTER_REPLICATION_SLOT "a""b" ({listed})']
