"""The meaning of the fields of a date or time: ``DecodeDateTime`` and ``DecodeTimeOnly`` of
PostgreSQL 18.

::

    parts_of ──▶ Part, Part, … ──▶ _Decoder: one step for each part ──▶ checks of the whole ──▶ Moment

The meaning of a number depends on the fields before it. The first number is a month (``DateOrder``
is MDY), or a year if it has at least three digits. The next numbers are the parts that are still
missing. Six digits are a date, or a time if there is already a date. So this module is a port of
PostgreSQL's functions, and not a grammar. The session's TimeZone is UTC. Values that depend on the
clock are refused (``now``, ``today``, and, without a date, an abbreviation whose meaning has
changed).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.datetimes import date_values as dates
from subscriber.postgres.types.datetimes.date_parts import (
    GREATEST_INT,
    WORDS,
    BadFormat,
    FieldMask,
    Guess,
    Part,
    Word,
    field_overflow,
    fraction,
    integer,
    julian_of_new_year,
    microseconds,
    parts_of,
    unchecked_integer,
    wrapped,
    zone_offset,
)
from subscriber.postgres.types.datetimes.timezones import TimeZone, abbreviated, unknown_zone, zone_named

_MOST_DATE_FIELDS: Final = 25
_DATE_PIECE: Final = re.compile(r"[^0-9a-z]*(?:([0-9]+)|([a-z]+))[\s\S]?")
_FIRST_JULIAN_MONTH: Final = (-4713, 11)
_AFTER_JULIAN_MONTHS: Final = (5_874_898, 6)
"""Year and month of the first day whose number the server computes, and of the first that has none.
"""


class Moment(NamedTuple):
    """The result of reading a date or time.

    If ``word`` is set (``epoch``, ``infinity``, ``-infinity``), the rest has no meaning. ``day``
    counts from 2000-01-01, without a limit, None without a date; ``time`` is in microseconds,
    ``zone`` in seconds west of Greenwich.
    """

    word: str | None
    day: int | None
    time: int
    zone: int


def decode_datetime(text: str, room: int) -> Moment:
    """Read a date with or without a time; ``room`` as in ``parts_of``."""
    return _Decoder(_parts(text, room), clock=False).datetime()


def decode_time(text: str, room: int) -> Moment:
    return _Decoder(_parts(text, room), clock=True).time_only()


def _parts(text: str, room: int) -> list[Part]:
    parts = parts_of(text, room)
    if parts is None:
        raise BadFormat
    return parts


def _date_order() -> DataException:
    return DataException(
        "date/time field value out of range",
        sqlstate="22008",
        hint="Dates are read as month, day and year; write the year first, as in 2024-02-29.",
    )


def _of_the_clock(what: str) -> NotSupportedError:
    return NotSupportedError(
        f"{what} depends on the time at which it is read, and is not supported",
        hint="Write the date, such as 2024-02-29.",
    )


class _Decoder:
    """The fields that have been read so far (``struct pg_tm`` and what accompanies it)."""

    def __init__(self, parts: list[Part], *, clock: bool) -> None:
        self._parts = parts
        self._guesses = [part.guess for part in parts]
        self._clock = clock
        self._has = FieldMask(0)
        self._year = self._month = self._day = self._day_of_year = 0
        self._hour = self._minute = self._second = self._fraction = 0
        self._zone = 0
        self._named: TimeZone | None = None
        self._abbreviated: TimeZone | None = None
        self._word: str | None = None
        self._label: str | int | None = None
        self._half: str | int | None = None
        self._has_text_month = self._is_julian = self._two_digits = self._before_christ = False

    # --- the whole ----------------------------------------------------------------------------

    def datetime(self) -> Moment:
        self._read()
        if self._word is not None:
            return Moment(self._word, None, 0, 0)
        self._check_date()
        self._apply_half_day()
        if not self._has_all(FieldMask.DATE):
            raise BadFormat
        return Moment(None, self._day_number(), self._time(), self._zone_of_whole())

    def time_only(self) -> Moment:
        self._read()
        self._check_date()
        self._apply_half_day()
        if self._time_overflows():
            raise field_overflow()
        if not self._has & FieldMask.TIME:
            raise BadFormat
        zone = self._zone_of_time()
        return Moment(None, self._day_number() if self._has_all(FieldMask.DATE) else None, self._time(), zone)

    def _read(self) -> None:
        for place, part in enumerate(self._parts):
            found = self._step(place, part)
            if found & self._has:
                raise BadFormat
            self._has |= found
        if self._label is not None:
            raise BadFormat

    def _has_all(self, fields: FieldMask) -> bool:
        return self._has & fields == fields

    def _day_number(self) -> int:
        return dates.day_number(self._year, self._month, self._day)

    def _time(self) -> int:
        return self._hour * dates.HOUR + self._minute * dates.MINUTE + self._second * dates.SECOND + self._fraction

    def _time_overflows(self) -> bool:
        within = 0 <= self._hour <= 24 and 0 <= self._minute <= 59 and 0 <= self._second <= 60
        return not within or not 0 <= self._fraction <= dates.SECOND or self._time() > dates.DAY

    def _check_date(self) -> None:
        """``ValidateDate``"""
        if self._has & FieldMask.YEAR and not self._is_julian:
            if self._before_christ:
                if self._year <= 0:
                    raise field_overflow()
                self._year = 1 - self._year
            elif self._two_digits:
                if self._year < 0:
                    raise field_overflow()
                if self._year < 100:
                    self._year += 2000 if self._year < 70 else 1900
            elif self._year <= 0:
                raise field_overflow()
        if self._has & FieldMask.DAY_OF_YEAR:
            julian = wrapped(julian_of_new_year(self._year) + self._day_of_year - 1)
            self._year, self._month, self._day = dates.civil((julian + 32_044) % 2**32 - 32_044 - dates.JULIAN_DAY)
        if self._has & FieldMask.MONTH and not 1 <= self._month <= 12:
            raise _date_order()
        if self._has & FieldMask.DAY and not 1 <= self._day <= 31:
            raise _date_order()
        if self._has_all(FieldMask.DATE) and self._day > dates.month_length(self._year, self._month):
            raise field_overflow()

    def _apply_half_day(self) -> None:
        if self._half is None:
            return
        if self._hour > 12:
            raise field_overflow()
        if self._half == "am" and self._hour == 12:
            self._hour = 0
        elif self._half == "pm" and self._hour != 12:
            self._hour += 12

    def _zone_of_whole(self) -> int:
        zone = self._zone
        for found in (self._named, self._abbreviated):
            if found is not None:
                if self._has & FieldMask.DST:
                    raise BadFormat
                zone = -self._offset_in(found)
        if not self._has & FieldMask.ZONE and self._has & FieldMask.DST:
            raise BadFormat
        return zone

    def _zone_of_time(self) -> int:
        zone = self._zone
        if self._named is not None:
            if self._has & FieldMask.DST:
                raise BadFormat
            only = self._named.zone.only_offset
            if only is None and not self._has_all(FieldMask.DATE):
                raise BadFormat
            zone = -(self._offset_in(self._named) if only is None else only)
        if self._abbreviated is not None:
            if self._has & FieldMask.DST:
                raise BadFormat
            if not self._has & FieldMask.DATE:
                raise _of_the_clock("a time zone abbreviation without a date")
            if not self._has_all(FieldMask.DATE):
                raise BadFormat
            zone = -self._offset_in(self._abbreviated)
        if not self._has & FieldMask.ZONE and (
            self._has & FieldMask.DST or self._has & FieldMask.DATE not in {FieldMask(0), FieldMask.DATE}
        ):
            raise BadFormat
        return zone

    def _offset_in(self, zone: TimeZone) -> int:
        if zone is self._named and not self._has_julian_day():
            return 0  # the server takes UTC for such a date
        return zone.offset_of(self._day_number() * dates.DAY + self._time())

    def _has_julian_day(self) -> bool:
        """Whether the server can compute the number of the day (``IS_VALID_JULIAN``)."""
        return _FIRST_JULIAN_MONTH <= (self._year, self._month) < _AFTER_JULIAN_MONTHS

    # --- a field ------------------------------------------------------------------------------

    def _step(self, place: int, part: Part) -> FieldMask:
        match part.guess:
            case Guess.DATE:
                return self._time_or_zone_or_date(place, part.text) if self._clock else self._date_or_zone(part.text)
            case Guess.TIME:
                self._take_label()
                self._read_time(part.text)
                if not self._clock and self._time_overflows():
                    raise field_overflow()
                return FieldMask.TIME
            case Guess.ZONE:
                self._zone = zone_offset(part.text)
                return FieldMask.ZONE
            case Guess.NUMBER:
                return self._number(place, part.text)
            case _:
                return self._in_letters(place, part.text)

    def _take_label(self) -> None:
        """Accept the label ``t``, which may precede a time; no other label is valid."""
        if self._label not in {None, "time"}:
            raise BadFormat
        self._label = None

    def _date_or_zone(self, text: str) -> FieldMask:
        if self._label == "julian":
            self._label = None
            day, rest = self._julian_number(text)
            self._set_julian(day)
            self._zone = zone_offset(rest)
            return FieldMask.DATE | FieldMask.TIME | FieldMask.ZONE
        if self._label is None and not self._has_all(FieldMask.MONTH | FieldMask.DAY):
            return self._date(text)
        if text[0].isdecimal() or self._label is not None:
            self._take_label()
            return self._time_and_zone(text, self._has)
        return self._named_zone(text)

    def _time_or_zone_or_date(self, place: int, text: str) -> FieldMask:
        if place == 0 and len(self._parts) >= 2 and (self._guesses[-1] is Guess.DATE or self._guesses[1] is Guess.TIME):
            return self._date(text)
        if text[0].isdecimal():
            return self._time_and_zone(text, self._has | FieldMask.DATE, place)
        self._guesses[place] = Guess.ZONE
        return self._named_zone(text)

    def _time_and_zone(self, text: str, has: FieldMask, place: int | None = None) -> FieldMask:
        if self._has & FieldMask.TIME:
            raise BadFormat
        digits, minus, zone = text.partition("-")
        if not minus:
            raise BadFormat
        self._zone = zone_offset(minus + zone)
        return self._run_together(digits, has, place) | FieldMask.ZONE

    def _named_zone(self, text: str) -> FieldMask:
        self._named = zone_named(text)
        if self._named is None:
            raise unknown_zone()
        return FieldMask.ZONE

    def _julian_number(self, text: str) -> tuple[int, str]:
        try:
            return integer(text)
        except OverflowError:
            raise field_overflow() from None

    def _set_julian(self, day: int) -> None:
        self._year, self._month, self._day = dates.civil(day - dates.JULIAN_DAY)
        self._is_julian = True

    def _number(self, place: int, text: str) -> FieldMask:
        if self._label is not None:
            return self._labelled_number(place, text)
        whole, point, _ = text.partition(".")
        if self._clock:
            if point:
                if place == 0 and len(self._parts) >= 2 and self._guesses[-1] is Guess.DATE:
                    return self._date(text)
                if len(whole) > 2:
                    return self._run_together(text, self._has | FieldMask.DATE, place)
                raise BadFormat
            if len(text) > 4:
                return self._run_together(text, self._has | FieldMask.DATE, place)
            return self._single(text, self._has | FieldMask.DATE, has_text_month=False)
        if point and not self._has & FieldMask.DATE:
            return self._date(text)
        if point and len(whole) > 2:
            return self._run_together(text, self._has)
        if len(text) >= 6 and (not self._has & FieldMask.DATE or not self._has & FieldMask.TIME):
            return self._run_together(text, self._has)
        return self._single(text, self._has, has_text_month=self._has_text_month)

    def _labelled_number(self, place: int, text: str) -> FieldMask:
        value, rest = self._julian_number(text)
        if rest and not rest.startswith("."):
            raise BadFormat
        label, self._label = self._label, None
        if label == "julian":
            self._set_julian(value)
            if not rest:
                return FieldMask.DATE
            microseconds = int(fraction(rest) * dates.DAY)
            self._hour, microseconds = divmod(microseconds, dates.HOUR)
            self._minute, microseconds = divmod(microseconds, dates.MINUTE)
            self._second, self._fraction = divmod(microseconds, dates.SECOND)
            return FieldMask.DATE | FieldMask.TIME
        if label != "time":
            raise BadFormat
        found = self._run_together(text, self._has | FieldMask.DATE, place)
        if found != FieldMask.TIME:
            raise BadFormat
        return found

    def _in_letters(self, place: int, text: str) -> FieldMask:
        zone = abbreviated(text)
        if zone is not None:
            self._guesses[place] = Guess.ZONE
            if zone.abbreviation is not None:
                self._abbreviated = zone
                return FieldMask.ZONE | FieldMask.CHANGING_ZONE
            kind = zone.zone.kinds[0]
            self._zone = -kind.offset
            return FieldMask.ZONE | (FieldMask.DST_OFFSET if kind.is_dst else FieldMask(0))
        word, meaning = WORDS.get(text, (None, ""))
        match word:
            case Word.IGNORED:
                return FieldMask(0)
            case Word.RESERVED:
                return self._reserved(str(meaning))
            case Word.MONTH if not self._clock:
                return self._month_in_letters(int(meaning))
            case Word.DST:
                self._zone -= int(meaning)
                return FieldMask.DST | FieldMask.DST_OFFSET
            case Word.HALF_DAY:
                self._half = meaning
                return FieldMask.HALF_DAY
            case Word.ERA:
                self._before_christ = meaning == "bc"
                return FieldMask.ERA
            case Word.DAY_OF_WEEK if not self._clock:
                return FieldMask.DAY_OF_WEEK
            case Word.UNIT | Word.ISO_TIME:
                is_early = word is Word.ISO_TIME and not self._clock and not self._has_all(FieldMask.DATE)
                if is_early or self._label is not None:
                    raise BadFormat
                self._label = meaning
                return FieldMask(0)
            case None:
                self._named = zone_named(text)
                if self._named is None:
                    raise BadFormat
                return FieldMask.ZONE
        raise BadFormat

    def _reserved(self, word: str) -> FieldMask:
        if word == "allballs":
            self._hour = self._minute = self._second = 0
            if not self._clock:
                self._zone = 0
            return FieldMask.TIME | FieldMask.ZONE
        if word == "now" or (not self._clock and word in {"today", "tomorrow", "yesterday"}):
            raise _of_the_clock(f'the word "{word}"')
        if self._clock:
            raise BadFormat
        self._word = word
        return FieldMask.DATE | FieldMask.TIME | FieldMask.ZONE

    def _month_in_letters(self, number: int) -> FieldMask:
        found = FieldMask.MONTH
        is_day = self._has & FieldMask.MONTH and not self._has_text_month and not self._has & FieldMask.DAY
        if is_day and 1 <= self._month <= 31:
            self._day = self._month  # the number was taken for the month
            found = FieldMask.DAY
        self._has_text_month = True
        self._month = number
        return found

    # --- dates --------------------------------------------------------------------------------

    def _date(self, text: str) -> FieldMask:
        pieces: list[str] = []
        at = 0
        while at < len(text) and len(pieces) < _MOST_DATE_FIELDS:
            match = _DATE_PIECE.match(text, at)
            if match is None:
                raise BadFormat
            pieces.append(match[1] or match[2])
            at = match.end()
        has, found, has_text_month = self._has, FieldMask(0), False
        for piece in pieces:
            if piece[0].isdecimal():
                continue
            word, meaning = WORDS.get(piece, (None, ""))
            if word is Word.IGNORED:
                continue
            if word is not Word.MONTH or has & FieldMask.MONTH:
                raise BadFormat
            self._month, has_text_month = int(meaning), True
            has |= FieldMask.MONTH
            found |= FieldMask.MONTH
        for piece in pieces:
            if piece[0].isdecimal() or WORDS.get(piece, (None, ""))[0] is Word.IGNORED:
                one = self._single(piece, has, has_text_month=has_text_month)
                if has & one:
                    raise BadFormat
                has |= one
                found |= one
        if has & ~(FieldMask.DAY_OF_YEAR | FieldMask.ZONE) != FieldMask.DATE:
            raise BadFormat
        return found

    def _single(self, text: str, has: FieldMask, *, has_text_month: bool) -> FieldMask:
        """Read a number that is one field of a date (``DecodeNumber``)."""
        try:
            value, rest = integer(text)
        except OverflowError:
            raise field_overflow() from None
        if rest == text:
            raise BadFormat
        if rest.startswith("."):
            if len(text) - len(rest) > 2:
                return self._run_together(text, has | FieldMask.DATE)
            self._fraction = microseconds(rest)
        elif rest:
            raise BadFormat
        if len(text) == 3 and has & FieldMask.DATE == FieldMask.YEAR and 1 <= value <= 366:
            self._day_of_year = value
            return FieldMask.DAY_OF_YEAR | FieldMask.MONTH | FieldMask.DAY
        match has & FieldMask.DATE:
            case 0:
                field = FieldMask.YEAR if len(text) >= 3 else FieldMask.MONTH
            case FieldMask.YEAR | FieldMask.DAY:
                field = FieldMask.MONTH
            case FieldMask.MONTH:
                field = FieldMask.YEAR if has_text_month and len(text) >= 3 else FieldMask.DAY
            case year_and_month if year_and_month == FieldMask.YEAR | FieldMask.MONTH:
                if has_text_month and len(text) >= 3 and self._two_digits:
                    # The number that was taken for the year is the day.
                    self._day, self._year, self._two_digits = self._year, value, False
                    return FieldMask.DAY
                field = FieldMask.DAY
            case month_and_day if month_and_day == FieldMask.MONTH | FieldMask.DAY:
                field = FieldMask.YEAR
            case FieldMask.DATE:
                return self._run_together(text, has)
            case _:
                raise BadFormat
        if field is FieldMask.YEAR:
            self._year, self._two_digits = value, len(text) <= 2
        elif field is FieldMask.MONTH:
            self._month = value
        else:
            self._day = value
        return field

    # --- times --------------------------------------------------------------------------------

    def _run_together(self, text: str, has: FieldMask, place: int | None = None) -> FieldMask:
        """Read a date or time without delimiters (``DecodeNumberField``)."""
        if not all(character in "0123456789." for character in text):
            raise BadFormat
        digits, point, decimals = text.partition(".")
        if point:
            self._fraction = microseconds(point + decimals)
        elif has & FieldMask.DATE != FieldMask.DATE and len(digits) >= 6:
            self._year, self._month, self._day = (
                unchecked_integer(digits[:-4]),
                int(digits[-4:-2]),
                int(digits[-2:]),
            )
            self._two_digits = self._two_digits or len(digits) == 6
            self._guess(place, Guess.DATE)
            return FieldMask.DATE
        if not has & FieldMask.TIME and len(digits) in {4, 6}:
            self._hour, self._minute, self._second = int(digits[:2]), int(digits[2:4]), int(digits[4:] or 0)
            self._guess(place, Guess.TIME)
            return FieldMask.TIME
        raise BadFormat

    def _guess(self, place: int | None, guess: Guess) -> None:
        if place is not None:
            self._guesses[place] = guess

    def _read_time(self, text: str) -> None:
        hours, _, rest = text.partition(":")
        if len(hours.lstrip("0")) > 19 or int(hours) > 2**63 - 1:
            raise field_overflow()
        hour, second, fraction = int(hours), 0, 0
        try:
            minute, rest = integer(rest)
            if rest.startswith("."):
                fraction = microseconds(rest)
                if hour > GREATEST_INT:
                    raise OverflowError
                hour, minute, second = 0, hour, minute
            elif rest.startswith(":"):
                second, rest = integer(rest[1:])
                if rest.startswith("."):
                    fraction = microseconds(rest)
                elif rest:
                    raise BadFormat
            elif rest:
                raise BadFormat
        except OverflowError:
            raise field_overflow() from None
        if minute > 59 or minute < 0 or not 0 <= second <= 60 or hour > GREATEST_INT:
            raise field_overflow()
        self._hour, self._minute, self._second, self._fraction = hour, minute, second, fraction
