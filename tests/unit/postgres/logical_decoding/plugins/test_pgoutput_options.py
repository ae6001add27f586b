"""Options of pgoutput: the errors were compared with servers of the versions 18, 16 and 15."""

from __future__ import annotations

from typing import Any

import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.logical_decoding import CollectingWriter, HistoricCatalog, LogicalDecoding, ReplicationSlot
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext
from subscriber.postgres.logical_decoding.plugins.pgoutput import (
    PgOutput,
    PgOutputOptions,
    parse_output_parameters,
)
from subscriber.postgres.schema.publisher_tables import PublisherTables

REQUIRED = {"proto_version": "4", "publication_names": "p"}


def start(given: Any, version: int = 180000, plugin: object | None = None) -> LogicalDecodingContext:
    catalog = HistoricCatalog(PublisherTables(version, {}, frozenset({950})))
    slot = ReplicationSlot("s", "pgoutput", two_phase=True)
    with LogicalDecoding(plugin or PgOutput(), slot, CollectingWriter(), given, catalog=catalog) as decoding:
        return decoding.ctx


def refused(given: Any, version: int = 180000) -> tuple[str, str]:
    with pytest.raises(SubscriberError) as caught:
        start(given, version)
    assert caught.value.context is not None
    assert caught.value.context.endswith('slot "s", output plugin "pgoutput", in the startup callback')
    return caught.value.sqlstate, caught.value.message


def parsed(**options: str | None) -> PgOutputOptions:
    return parse_output_parameters({**REQUIRED, **options}.items(), 180000)


def test_the_defaults_are_off():
    """A27."""
    assert parsed() == PgOutputOptions(4, ("p",))


@pytest.mark.parametrize(
    ("text", "names"),
    [("p", ("p",)), ("A , b", ("a", "b")), ('"A b",c', ("A b", "c")), ('"a"",b"', ('a",b',)), ("", ())],
)
def test_publication_names_are_identifiers(text, names):
    assert parsed(publication_names=text).publication_names == names


@pytest.mark.parametrize(
    ("text", "value"), [("on", True), ("TRUE", True), ("off", False), ("false", False), (None, True)]
)
def test_a_boolean_is_true_false_on_or_off(text, value):
    options = parsed(binary=text, messages=text, two_phase=text)
    assert (options.binary, options.messages, options.two_phase) == (value, value, value)
    assert parsed(streaming=text).streaming == ("on" if value else "off")


@pytest.mark.parametrize("text", ["1", "0", "yes", "t", ""])
def test_other_words_are_no_boolean(text):
    assert refused({**REQUIRED, "messages": text}) == ("42601", "messages requires a Boolean value")


@pytest.mark.parametrize("text", ["1", "x", "", "par"])
def test_streaming_is_a_boolean_or_parallel(text):
    """A30."""
    assert refused({**REQUIRED, "streaming": text}) == ("42601", 'streaming requires a Boolean value or "parallel"')
    assert refused({**REQUIRED, "proto_version": "3", "streaming": text}, 150000) == (
        "42601",
        "streaming requires a Boolean value",
    )
    assert parsed(streaming="Parallel").streaming == "parallel"


@pytest.mark.parametrize(("text", "no_origin"), [("none", True), ("NONE", True), ("any", False)])
def test_origin_is_none_or_any(text, no_origin):
    assert parsed(origin=text).publish_no_origin is no_origin


@pytest.mark.parametrize("text", [" 4", "+4", "4", "\t04"])
def test_the_version_is_read_as_strtoul_reads_it(text):
    assert parsed(proto_version=text).proto_version == 4


@pytest.mark.parametrize(
    ("given", "sqlstate", "message"),
    [
        ({}, "22023", 'option "proto_version" missing'),
        ({"proto_version": "4"}, "22023", 'option "publication_names" missing'),
        ({"proto_version": "x"}, "22023", "invalid proto_version"),
        ({"proto_version": "4 "}, "22023", "invalid proto_version"),
        ({"proto_version": "0x4"}, "22023", "invalid proto_version"),
        ({"proto_version": "99999999999999999999999"}, "22023", "invalid proto_version"),
        ({"proto_version": "-1"}, "22023", 'proto_version "-1" out of range'),
        ({"proto_version": "4294967296"}, "22023", 'proto_version "4294967296" out of range'),
        ({"proto_version": None}, "42601", "proto_version requires a parameter"),
        ({"publication_names": "a,,b"}, "42602", "invalid publication_names syntax"),
        ({**REQUIRED, "origin": "x"}, "22023", 'unrecognized origin value: "x"'),
        ({**REQUIRED, "foo": "1"}, "XX000", "unrecognized pgoutput option: foo"),
        ({**REQUIRED, "Binary": "on"}, "XX000", "unrecognized pgoutput option: Binary"),
        ([*REQUIRED.items(), ("binary", "on"), ("binary", "x")], "42601", "conflicting or redundant options"),
        ([*REQUIRED.items(), ("origin", "none"), ("origin", "any")], "42601", "conflicting or redundant options"),
    ],
)
def test_wrong_options_give_postgresqls_errors(given, sqlstate, message):
    """A28."""
    assert refused(given) == (sqlstate, message)


@pytest.mark.parametrize(
    ("version", "server", "message"),
    [
        ("5", 180000, "client sent proto_version=5 but server only supports protocol 4 or lower"),
        ("0", 180000, "client sent proto_version=0 but server only supports protocol 1 or higher"),
        ("", 160000, "client sent proto_version=0 but server only supports protocol 1 or higher"),
        ("4294967295", 180000, "client sent proto_version=-1 but server only supports protocol 4 or lower"),
        ("4", 150000, "client sent proto_version=4 but we only support protocol 3 or lower"),
    ],
)
def test_a_version_that_the_server_does_not_have_is_refused_first(version, server, message):
    """A29."""
    given = {**REQUIRED, "proto_version": version, "streaming": "on", "two_phase": "on"}
    assert refused(given, server) == ("0A000", message)


@pytest.mark.parametrize(
    ("options", "version", "message"),
    [
        ({"streaming": "on", "two_phase": "on"}, 1, "requested proto_version=1 does not support streaming, need 2 or higher"),
        ({"streaming": "parallel"}, 3, "requested proto_version=3 does not support parallel streaming, need 4 or higher"),
        ({"two_phase": "on"}, 2, "requested proto_version=2 does not support two-phase commit, need 3 or higher"),
    ],
)  # fmt: skip
def test_a_feature_needs_a_version_of_the_protocol(options, version, message):
    """A29."""
    assert refused({**REQUIRED, **options, "proto_version": str(version)}) == ("22023", message)
    start({**REQUIRED, **options})


@pytest.mark.parametrize(
    ("callbacks", "option", "what"),
    [
        ([name for name in dir(PgOutput) if "stream" in name], "streaming", "streaming"),
        (
            ["begin_prepare", "prepare", "commit_prepared", "rollback_prepared", "stream_prepare"],
            "two_phase",
            "two-phase commit",
        ),
    ],
)
def test_a_plugin_without_the_callbacks_cannot_be_asked_for_the_feature(callbacks, option, what):
    """A29."""
    methods = {name: value for name, value in vars(PgOutput).items() if name not in callbacks and name[0] != "_"}
    with pytest.raises(SubscriberError, match=f"{what} requested, but not supported by output plugin"):
        start({**REQUIRED, option: "on"}, plugin=type("Part", (), methods)())


def test_older_servers_have_fewer_options_and_other_texts():
    """A28: compared with PostgreSQL 16 and 15."""
    assert refused({"publication_names": "p"}, 160000) == (
        "0A000",
        "client sent proto_version=0 but server only supports protocol 1 or higher",
    )
    assert refused({"proto_version": "1"}, 160000) == ("22023", "publication_names parameter missing")
    assert refused({"proto_version": "1", "publication_names": ""}, 150000) == (
        "22023",
        "publication_names parameter missing",
    )
    assert refused({**REQUIRED, "origin": "none"}, 150000) == ("XX000", "unrecognized pgoutput option: origin")
    assert refused({**REQUIRED, "two_phase": "on"}, 140000) == ("XX000", "unrecognized pgoutput option: two_phase")


@pytest.mark.parametrize(("mode", "streams"), [("off", False), ("on", True), ("parallel", True)])
def test_streaming_and_two_phase_are_on_if_the_client_asks_for_them(mode, streams):
    """E6."""
    ctx = start({**REQUIRED, "streaming": mode, "two_phase": "on" if streams else "off"})
    assert ctx.streaming is streams
    assert ctx.twophase_opt_given is streams
