"""Find inputs of the decoders, and add those with a new outcome to ``decoder_inputs.tsv``.

    python -m tests.recordings.record_decoder_inputs      (a minute)

The messages that servers have sent, texts and bytes near to values, and these with a byte changed,
cut off or added: an input is kept if no shorter one before it had its outcome. What is in the file
already stays there.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.envelope import XLogData, decode_envelope
from tests.decoder_inputs import DECODERS, FILE, outcome, recorded

STREAMS = ("pg18-proto4-parallel-binary", "pg18-proto3-streaming-two-phase", "pg18-proto3-two-phase-binary")
TEXTS = (
    "", "0", "-1", "7.50", "1e400", "NaN", "-Infinity", "infinity", "t", "off", "x", "\\x00ff", "\\x0", "{1,NULL,2}", "{{1},{2}}", "{",
    "2026-11-27", "2026-11-27 01:02:03.5+02", "0001-01-01 BC", "12:34:56", "24:00:00", "1 day 02:03:04", "P1Y2M", "(1,2)", "(1,2),(0,0)",
    "<(1,2),3>", "{1,-1,0}", "[(0,0),(1,1)]", "[1,5)", "empty", "{[1,3),[5,7)}", "10.0.0.1/8", "::1", "08:00:2b:01:02:03",
    "08:00:2b:01:02:03:04:05", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "101", "16/B374D848", '{"a": [1, null]}', "<a>b</a>", "$1,234.50",
    "a & b", "'fat':1A 'cat':2", "10:20:10,15", "(42,3)", "público",
)  # fmt: skip


def seeds() -> Iterator[tuple[str, bytes]]:
    """Inputs that are right."""
    for name in STREAMS:
        content = json.loads(gzip.decompress((Path(__file__).parent / f"{name}.json.gz").read_bytes()))
        in_stream = False
        for data in map(bytes.fromhex, content["copy_data"]):
            yield "envelope of the server", data
            envelope = decode_envelope(data)
            if isinstance(envelope, XLogData):
                yield "message in a stream" if in_stream else "message", envelope.payload
                parallel = content["streaming"] == "parallel"
                message = decode(envelope.payload, in_stream=in_stream, write_abort_info=parallel)
                in_stream = not isinstance(message, m.StreamStop) and (in_stream or isinstance(message, m.StreamStart))
    yield "envelope of the client", b"r" + bytes(33)
    yield "envelope of the client", b"h" + bytes(24)
    for decoder in DECODERS:
        if decoder.endswith(", text"):
            yield from ((decoder, text.encode()) for text in TEXTS)
        elif decoder.endswith(", binary"):
            yield from ((decoder, bytes(size)) for size in range(33))
            yield from ((decoder, text.encode()) for text in TEXTS)


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """The input with a byte changed, cut off, or added."""
    for _ in range(12):
        at = chance.randrange(len(data) + 1)
        yield data[:at]
        yield data[:at] + bytes([chance.choice((0, 1, 2, 127, 128, 255, *b"KNOntub-{}"))]) + data[at + 1 :]
    yield data + b"\0"
    yield data.replace(b"\0", b"\xff", 1)


def main() -> None:
    """Write the file."""
    chance = random.Random(18)
    lines = list(recorded()) if FILE.exists() else []
    known = {(decoder, kind_of(decoder, result)) for decoder, _, result in lines}
    sent = sorted(dict.fromkeys(seeds()), key=lambda one: (len(one[1]), one))
    for decoder, right in sent:
        for data in (right, *damaged(right, chance)):
            result = outcome(decoder, data)
            if (key := (decoder, kind_of(decoder, result))) not in known and len(data) < 400:
                known.add(key)
                lines.append((decoder, data, result))
    FILE.write_text("".join(f"{decoder}\t{data.hex()}\t{result}\n" for decoder, data, result in lines))


def kind_of(decoder: str, result: str) -> str:
    """An outcome without its numbers; the values of a type are of one kind for each length."""
    return str(len(result) // 8) if result.startswith(("'", '"')) else re.sub(r"\d+", "0", result)


if __name__ == "__main__":
    main()
