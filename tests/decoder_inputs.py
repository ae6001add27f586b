"""The inputs of ``tests/data/decoder_inputs.tsv``, and what the decoders make of them.

An input is there because it is the first with its outcome: a message of each kind, a value of each
type, and each error that a decoder can raise. `python -m tests.recordings.record_decoder_inputs`
finds such inputs. An input that a decoder once got wrong is added by hand, at the end of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from subscriber.base.errors import SubscriberError
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.envelope import decode_envelope, decode_reply, encode_envelope
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.family import TypeFamily
from subscriber.postgres.types.oids import ELEMENT_TYPES
from subscriber.postgres.types.registry import FAMILIES

_SOME = {"integer[]", "text[]", "box[]", "int4range", "tsrange", "int4multirange"}
EACH = [
    family
    for family in FAMILIES
    if family.name in _SOME or not (family.oid in ELEMENT_TYPES or family.name.endswith("range"))
]
"""Every family, but only some arrays and ranges, because one decoder reads all arrays and one all
ranges.
"""
FILE = Path(__file__).parent / "data" / "decoder_inputs.tsv"


def _message(read: Callable[[bytes], Any], write: Callable[[Any], bytes], data: bytes) -> str:
    message = read(data)
    assert write(message) == data, "a message that was decoded encodes to the same bytes"
    return type(message).__name__


def _value(family: TypeFamily, form: str, data: bytes) -> str:
    decoded = (family.decode_text if form == "text" else family.decode_binary)(pa.array([data], pa.binary()))
    decoded.validate(full=True)
    (text,) = output_texts(decoded)
    return repr(text)


DECODERS: dict[str, Callable[[bytes], str]] = {
    "message": partial(_message, decode, encode),
    "message in a stream": partial(_message, partial(decode, in_stream=True), encode),
    "envelope of the server": partial(_message, decode_envelope, encode_envelope),
    "envelope of the client": partial(_message, decode_reply, encode_envelope),
    **{
        f"{family.name}, {form}": partial(_value, family, form)
        for family in EACH
        for form in ("text", "binary")
        if form == "text" or family.reads_binary
    },
}


def outcome(decoder: str, data: bytes) -> str:
    """What a decoder makes of an input: the kind of message or the value's text, or the error."""
    try:
        return DECODERS[decoder](data)
    except SubscriberError as error:
        return f"{error.sqlstate} {error.message}"


def recorded() -> Iterator[tuple[str, bytes, str]]:
    """The decoder, the input and the outcome of each line."""
    for line in FILE.read_text().splitlines():
        decoder, data, result = line.split("\t")
        yield decoder, bytes.fromhex(data), result
