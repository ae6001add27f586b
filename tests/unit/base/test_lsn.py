"""subscriber.base.lsn: positions as text and back."""

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import INVALID_LSN, MAX_LSN, format_lsn, parse_lsn


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0/0", INVALID_LSN),
        ("16/B374D848", 0x16_B374_D848),
        ("16/b374d848", 0x16_B374_D848),
        ("0/016B3778", 0x16B3778),
        ("00000001/00000000", 1 << 32),
        ("FFFFFFFF/FFFFFFFF", MAX_LSN),
    ],
)
def test_an_lsn_is_read_with_and_without_leading_zeros(text, value):
    """A19a: 19 prints %X/%08X, before it was %X/%X."""
    assert parse_lsn(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "0",
        "0/",
        "/0",
        "0/0/0",
        "123456789/0",
        "0/123456789",
        "G/0",
        "-1/0",
        " 0/0",
        "0/0 ",
        "0x1/0",
        "1_0/0",
        "٣/0",
    ],
)
def test_a_text_that_is_not_an_lsn_is_refused_with_postgresqls_message(text):
    with pytest.raises(UsageError) as caught:
        parse_lsn(text)
    assert caught.value.message == f'invalid input syntax for type pg_lsn: "{text}"'
    assert caught.value.sqlstate == "22P02"


@pytest.mark.parametrize("value", [0, 1, 0xFFFF_FFFF, 1 << 32, MAX_LSN])
def test_every_lsn_is_read_as_it_was_written(value):
    assert parse_lsn(format_lsn(value)) == value


def test_an_lsn_is_written_without_leading_zeros():
    assert format_lsn((1 << 32) + 0x16B3778) == "1/16B3778"
