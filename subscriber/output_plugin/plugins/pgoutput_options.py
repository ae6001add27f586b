"""The options of pgoutput (rules A27-A31; ``parse_output_parameters`` and ``pgoutput_startup``).

The errors are those of the server whose catalogs are decoded: PostgreSQL 15 has no option
``origin``, and servers before 17 have other texts for missing options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from subscriber.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.output_plugin.context import LogicalDecodingContext, PluginOption
from subscriber.publication.publication_options import split_identifiers
from subscriber.schema.server_features import ServerFeatures
from subscriber.sql.option_list import as_boolean, read_boolean, read_text

Streaming = Literal["off", "on", "parallel"]

_LEAST_VERSION: Final = 1
_STREAMING_VERSION: Final = 2
_TWO_PHASE_VERSION: Final = 3
_PARALLEL_VERSION: Final = 4
"""The versions of ``logicalproto.h``."""

_UINT32: Final = 2**32
_ULONG: Final = 2**64
_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)", re.ASCII)
_HINT: Final = "The options are proto_version, publication_names, binary, messages, streaming, two_phase and origin."


@dataclass(frozen=True, slots=True)
class PgOutputOptions:
    """The options that a client has given.

    Attributes:
        proto_version: the version of the protocol.
        publication_names: the publications; None if they were not given.
        binary: whether values are sent in binary format, if their type has one.
        messages: whether logical messages are sent.
        streaming: whether transactions in progress are streamed, and with the information that
            parallel apply needs.
        two_phase: whether transactions are decoded at PREPARE.
        publish_no_origin: whether changes that have a replication origin are left out.
    """

    proto_version: int = 0
    publication_names: tuple[str, ...] | None = None
    binary: bool = False
    messages: bool = False
    streaming: Streaming = "off"
    two_phase: bool = False
    publish_no_origin: bool = False


def parse_output_parameters(given: Iterable[PluginOption], server_version: int) -> PgOutputOptions:
    """Read the options of a client.

    Args:
        given: names and values, in their order.
        server_version: the version of the server, such as 180000.

    Raises:
        SQLSyntaxError: 42601, an option is given twice, or a Boolean is none.
        UsageError: 22023, a value is wrong, or an option is missing; 42602, the list of
            publications is not valid; XX000, an option is unknown.
    """
    features = ServerFeatures(server_version)
    readers = _readers(features)
    fields: dict[str, Any] = {}
    for name, value in given:
        if name not in readers:
            raise UsageError(f"unrecognized pgoutput option: {name}", sqlstate="XX000", hint=_HINT)
        field, read = readers[name]
        if field in fields:
            raise SQLSyntaxError(
                "conflicting or redundant options", hint=f"Give the option {name} once.", context=f"option {name}"
            )
        fields[field] = read(name, value)
    if features.major >= 17:
        for name in ("proto_version", "publication_names"):
            if name not in fields:
                raise UsageError(f'option "{name}" missing', sqlstate="22023", hint=f"Give the option {name}.")
    return replace(PgOutputOptions(), **fields)


def start(ctx: LogicalDecodingContext, options: PgOutputOptions, server_version: int) -> None:
    """Check the options against each other, and switch streaming and two-phase decoding off or on
    (rule A29).

    Raises:
        NotSupportedError: 0A000, the server does not have the version.
        UsageError: 22023, a feature needs a newer version of the protocol, or a publication.
    """
    features = ServerFeatures(server_version)
    version = options.proto_version
    _check_version(version, features)
    if features.major < 17 and not options.publication_names:
        raise UsageError(
            "publication_names parameter missing", sqlstate="22023", hint="Give the option publication_names."
        )
    if options.streaming == "off":
        ctx.streaming = False
    elif options.streaming == "on" and version < _STREAMING_VERSION:
        raise _needs(version, "streaming", _STREAMING_VERSION)
    elif options.streaming == "parallel" and version < _PARALLEL_VERSION:
        raise _needs(version, "parallel streaming", _PARALLEL_VERSION)
    elif not ctx.streaming:
        raise _not_supported("streaming")
    if not options.two_phase:
        ctx.twophase_opt_given = False
    elif version < _TWO_PHASE_VERSION:
        raise _needs(version, "two-phase commit", _TWO_PHASE_VERSION)
    elif not ctx.twophase:
        raise _not_supported("two-phase commit")
    else:
        ctx.twophase_opt_given = True


def _check_version(version: int, features: ServerFeatures) -> None:
    shown = version - _UINT32 if version >= _UINT32 // 2 else version  # PostgreSQL prints it with %d
    who = "server only supports" if features.major >= 16 else "we only support"
    for wrong, limit, word in (
        (version > features.protocol_version, features.protocol_version, "lower"),
        (version < _LEAST_VERSION, _LEAST_VERSION, "higher"),
    ):
        if wrong:
            raise NotSupportedError(
                f"client sent proto_version={shown} but {who} protocol {limit} or {word}",
                hint=f"Give a proto_version from {_LEAST_VERSION} to {features.protocol_version}.",
            )


def _needs(version: int, what: str, least: int) -> UsageError:
    return UsageError(
        f"requested proto_version={version} does not support {what}, need {least} or higher",
        sqlstate="22023",
        hint=f"Give proto_version {least}, or leave the option out.",
    )


def _not_supported(what: str) -> UsageError:
    return UsageError(
        f"{what} requested, but not supported by output plugin",
        sqlstate="22023",
        hint="The plugin lacks the callbacks: do not remove them from it.",
    )


# Values -----------------------------------------------------------------------------------------


def _readers(features: ServerFeatures) -> dict[str, tuple[str, Callable[[str, str | None], object]]]:
    """For each option that the server has: the field, and the function that reads its value."""
    readers: dict[str, tuple[str, Callable[[str, str | None], object]]] = {
        "proto_version": ("proto_version", _version),
        "publication_names": ("publication_names", _names),
        "binary": ("binary", read_boolean),
        "messages": ("messages", read_boolean),
        "streaming": ("streaming", _streaming if features.protocol_version >= _PARALLEL_VERSION else _streaming_of_15),
    }
    if features.two_phase:
        readers["two_phase"] = ("two_phase", read_boolean)
    if features.origin_option:
        readers["origin"] = ("publish_no_origin", _origin)
    return readers


def _version(name: str, value: str | None) -> int:
    """A number as ``strtoul`` reads it, which takes space before it and a sign."""
    text = read_text(name, value)
    match = _NUMBER.fullmatch(text)
    if match is None and text:
        raise UsageError("invalid proto_version", sqlstate="22023", hint="Give a number from 1 to 4.")
    magnitude = 0 if match is None else int(match[2])
    if magnitude >= _ULONG:
        raise UsageError("invalid proto_version", sqlstate="22023", hint="Give a number from 1 to 4.")
    number = -magnitude % _ULONG if match is not None and match[1] == "-" else magnitude
    if number >= _UINT32:
        raise UsageError(f'proto_version "{text}" out of range', sqlstate="22023", hint="Give a number from 1 to 4.")
    return number


def _names(name: str, value: str | None) -> tuple[str, ...]:
    found = split_identifiers(read_text(name, value))
    if found is None:
        raise UsageError(
            "invalid publication_names syntax",
            sqlstate="42602",
            hint="Separate the names by commas, and write a name with special characters in double quotes.",
        )
    return tuple(found)


def _streaming(name: str, value: str | None) -> Streaming:
    found = as_boolean(value)
    if found is not None:
        return "on" if found else "off"
    if value is not None and value.lower() == "parallel":
        return "parallel"
    raise SQLSyntaxError(f'{name} requires a Boolean value or "parallel"')


def _streaming_of_15(name: str, value: str | None) -> Streaming:
    return "on" if read_boolean(name, value) else "off"


def _origin(name: str, value: str | None) -> bool:
    """Whether changes that have an origin are left out."""
    text = read_text(name, value)
    known = {"none": True, "any": False}
    if text.lower() not in known:
        raise UsageError(f'unrecognized origin value: "{text}"', sqlstate="22023", hint="The values are none and any.")
    return known[text.lower()]
