"""The data of a time zone, as in PostgreSQL's ``localtime.c``: the moments at which its offset
changes.

::

    TZif file (zone_file) ──▶ moments that are listed ──┐
              its footer ───▶ rule for all later ones ──┴▶ Zone ◀── a POSIX specification (posix_zone), such as EST5EDT,M3.2.0,M11.1.0

A time zone has at most 2,000 moments, as in PostgreSQL. The Gregorian calendar repeats after 400
years. If the first or the last moment repeats another moment 400 years from it, all times before
the first moment, or after the last moment, repeat as well.

*Rejected:* ``zoneinfo.ZoneInfo``. It resolves a local time by PEP 495. PostgreSQL searches for the
next change of the offset, and resolves local times that do not exist, or that exist twice, by the
offsets before and after that change. Also, ``zoneinfo.ZoneInfo`` does not read POSIX
specifications.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

SECONDS_OF_DAY: Final = 86_400
CYCLE: Final = 146_097 * SECONDS_OF_DAY
"""The length of 400 years in seconds."""
MOST_MOMENTS: Final = 2000
"""The greatest number of moments of a time zone."""


class Kind(NamedTuple):
    """A kind of local time (``ttinfo``).

    Attributes:
        offset: seconds east of Greenwich.
        is_dst: whether it is daylight saving time.
        name_at: the position of its abbreviation in :attr:`Zone.names`.
    """

    offset: int
    is_dst: bool
    name_at: int


class Boundary(NamedTuple):
    """A change of the offset: the kinds before and after it, and its moment.

    The moment is None if there is no such change.
    """

    before: Kind
    moment: int | None
    after: Kind


@dataclass(frozen=True, slots=True)
class Zone:
    """The data of a time zone. Moments are seconds since 1970-01-01 00:00:00 UTC.

    Attributes:
        moments: the moments at which another kind of local time begins, ascending.
        places: for each moment, the index in ``kinds`` of the kind that begins.
        kinds: all kinds of local time.
        default: the index of the kind before the first moment.
        names: the abbreviations, each with a zero byte after it.
        repeats_before: whether times before the first moment have the offsets of 400 years later.
        repeats_after: whether times after the last moment have the offsets of 400 years earlier.
    """

    moments: tuple[int, ...]
    places: tuple[int, ...]
    kinds: tuple[Kind, ...]
    default: int
    names: bytes
    repeats_before: bool = False
    repeats_after: bool = False

    def kind_at(self, moment: int) -> Kind:
        """The kind of local time at a moment (``pg_localtime``)."""
        return self._kind_before(bisect_right(self.moments, moment + self._cycles(moment) * CYCLE))

    def next_boundary(self, moment: int) -> Boundary:
        """The first change of the offset after a moment (``pg_next_dst_boundary``)."""
        shift = self._cycles(moment) * CYCLE
        place = bisect_right(self.moments, moment + shift)
        before = self._kind_before(place)
        if place == len(self.moments):
            return Boundary(before, None, before)
        return Boundary(before, self.moments[place] - shift, self.kinds[self.places[place]])

    def _kind_before(self, place: int) -> Kind:
        return self.kinds[self.places[place - 1] if place else self.default]

    def _cycles(self, moment: int) -> int:
        """How often 400 years must be added to a moment so that it is between the listed
        moments.
        """
        if self.repeats_before and moment < self.moments[0]:
            return (self.moments[0] - moment - 1) // CYCLE + 1
        if self.repeats_after and moment > self.moments[-1]:
            return -((moment - self.moments[-1] - 1) // CYCLE + 1)
        return 0

    def kind_named(self, name: str, moment: int) -> Kind | None:
        """The kind that an abbreviation means (``pg_interpret_timezone_abbrev``).

        It is the kind that has this abbreviation at the moment or was the last to have it before
        the moment. If there is none, it is the first one after the moment.
        """
        name_at = self._name_at(name)
        if name_at is None:
            return None
        cutoff = bisect_right(self.moments, moment)
        before = [*reversed(self.places[:cutoff]), self.default]
        for place in (*before, *self.places[cutoff:]):
            if self.kinds[place].name_at == name_at:
                return self.kinds[place]
        return None

    def _name_at(self, name: str) -> int | None:
        at = 0
        for one in self.names.split(b"\0")[:-1]:
            if one == name.encode():
                return at
            at += len(one) + 1
        return None

    @property
    def only_offset(self) -> int | None:
        """The offset of a time zone that has always had the same one (``pg_get_timezone_offset``);
        None for other time zones.
        """
        offsets = {kind.offset for kind in self.kinds}
        return offsets.pop() if len(offsets) == 1 else None
