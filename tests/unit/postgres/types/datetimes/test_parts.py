"""The fields of the text of a date, time or interval (``ParseDateTime``)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.types.datetimes.date_parts import Guess, Part, parts_of

NUMBER, DATE, TIME, STRING, SPECIAL, ZONE = (
    Guess.NUMBER,
    Guess.DATE,
    Guess.TIME,
    Guess.STRING,
    Guess.SPECIAL,
    Guess.ZONE,
)
ROOM = 129


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("  \t\n\v\f\r ", []),
        ("2024-02-29 10:11:12.5+02:30", [(DATE, "2024-02-29"), (TIME, "10:11:12.5"), (ZONE, "+02:30")]),
        ("January 8, 1999", [(STRING, "january"), (NUMBER, "8"), (NUMBER, "1999")]),
        ("08-Jan-99", [(DATE, "08-jan-99")]),
        ("1/8/1999", [(DATE, "1/8/1999")]),
        ("1-2", [(DATE, "1-2")]),
        ("1999.008", [(NUMBER, "1999.008")]),
        ("1.2.2000", [(DATE, "1.2.2000")]),
        (".5", [(NUMBER, ".5")]),
        (".", [(NUMBER, ".")]),
        ("Europe/Berlin", [(DATE, "europe/berlin")]),
        ("GMT+5", [(DATE, "gmt+5")]),
        ("Jan5", [(STRING, "jan"), (NUMBER, "5")]),
        ("J2451187", [(STRING, "j"), (NUMBER, "2451187")]),
        ("20011225T040506", [(NUMBER, "20011225"), (STRING, "t"), (NUMBER, "040506")]),
        ("-infinity", [(SPECIAL, "-infinity")]),
        ("+ Infinity", [(SPECIAL, "+infinity")]),
        ("- 5 days", [(ZONE, "-5"), (STRING, "days")]),
        ("-1:30", [(ZONE, "-1:30")]),
        ("@ 1,2;3", [(NUMBER, "1"), (NUMBER, "2"), (NUMBER, "3")]),
    ],
)
def test_a_text_is_split_into_fields_with_a_guess_of_their_meaning(text, parts):
    assert parts_of(text, ROOM) == [Part(*part) for part in parts]


@pytest.mark.parametrize("text", ["é", "1 é", "-", "+", "1 -", "- /", "+.5", "\u0661"])
def test_a_text_with_something_that_cannot_begin_a_field_has_no_fields(text):
    assert parts_of(text, ROOM) is None


def test_there_are_at_most_25_fields():
    assert len(parts_of("1 " * 25, ROOM) or []) == 25
    assert parts_of("1 " * 26, ROOM) is None
    assert parts_of("1 " * 25 + ",", ROOM) is None


def test_every_field_needs_one_character_more_than_its_length():
    assert parts_of("1" * (ROOM - 1), ROOM) is not None
    assert parts_of("1" * ROOM, ROOM) is None
    assert parts_of("12 34", 6) is not None
    assert parts_of("12 34", 5) is None


@given(st.text("0123 :./-+abcT,é\t", max_size=20))
def test_the_fields_have_the_letters_of_the_text_in_their_order(text):
    parts = parts_of(text, ROOM)
    if parts is None:
        return
    rest = iter(text.lower())
    assert all(character in rest for part in parts for character in part.text)
    assert sum(character.isalnum() for part in parts for character in part.text) == sum(map(str.isalnum, text))
