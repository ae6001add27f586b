"""Notices: what a server says beside its data."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ProtocolError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol.envelope import Notice, decode_notice, encode_notice

# As PostgreSQL 18 sends it.
SKIPPED = {
    "S": "WARNUNG",
    "V": "WARNING",
    "C": "55000",
    "M": 'skipped loading publication "p"',
    "D": "The publication does not exist at this point in the WAL.",
    "H": "Create the publication if it does not exist.",
    "W": 'slot "sl", output plugin "pgoutput", in the change callback, associated LSN 0/1AF49C8',
    "F": "pgoutput.c",
    "L": "1813",
    "R": "LoadPublications",
}


def notice(**fields: str) -> Notice:
    return decode_notice(encode_notice({code: text.encode() for code, text in {**SKIPPED, **fields}.items()}))


def test_a_notice_is_read_as_the_server_has_sent_it():
    found = notice()
    assert (found.severity, found.sqlstate, found.message) == ("WARNING", "55000", 'skipped loading publication "p"')
    assert found.report() == (
        'WARNING:  skipped loading publication "p"\n'
        "DETAIL:  The publication does not exist at this point in the WAL.\n"
        "HINT:  Create the publication if it does not exist."
    )


def test_the_lsn_is_that_of_the_change_that_was_decoded():
    assert notice().lsn == LSN(0x1AF49C8)
    assert notice(W="zugehörige LSN 1A/2B").lsn == LSN(0x1A_0000_002B)
    assert notice(W="").lsn is None


@pytest.mark.parametrize(
    ("changed", "skips"),
    [
        ({"M": "Publikation «p» wird übersprungen"}, True),
        ({"V": "NOTICE"}, False),
        ({"R": "StandbySlotsHaveCaughtup"}, False),
    ],
    ids=["translated", "no warning", "another warning"],
)
def test_a_publication_that_is_skipped_is_told_by_the_servers_function(changed, skips):
    assert notice(**changed).skips_publication is skips


def test_fields_that_are_missing_are_empty():
    found = decode_notice(encode_notice({"V": b"NOTICE", "M": b"hello"}))
    assert found == Notice("NOTICE", "", "hello")
    assert found.report() == "NOTICE:  hello"


@pytest.mark.parametrize("frame", [b"N", b"NMhello", b"NMhello\0", b"N\0x"])
def test_a_broken_notice_is_refused(frame):
    with pytest.raises(ProtocolError):
        decode_notice(frame)
