"""Time zones of TZif files, in which the tz database is distributed (``tzloadbody`` of PostgreSQL's
``localtime.c``).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final, NamedTuple

from subscriber.types.datetimes.posix_zone import zone_of_specification
from subscriber.types.datetimes.timezone_data import CYCLE, MOST_MOMENTS, Kind, Zone

_MOST_NAME_BYTES: Final = 50
_HEADER: Final = struct.Struct(">4sc15x6I")


class _Block(NamedTuple):
    """The data block of a file, with moments of 32 or of 64 bits."""

    moments: list[int]
    places: list[int]
    kinds: list[Kind]
    names: bytes
    end: int


def _block(data: bytes, start: int, size: int) -> _Block:
    _, _, ut_count, std_count, leap_count, count, kind_count, name_count = _HEADER.unpack_from(data, start)
    at = start + _HEADER.size
    moments = list(struct.unpack_from(f">{count}{'q' if size == 8 else 'l'}", data, at))
    at += count * size
    places = list(data[at : at + count])
    at += count
    kinds = [
        Kind(offset, bool(is_dst), name_at)
        for offset, is_dst, name_at in struct.iter_unpack(">lBB", data[at : at + kind_count * 6])
    ]
    at += kind_count * 6
    names = data[at : at + name_count]
    return _Block(moments, places, kinds, names, at + name_count + leap_count * (size + 4) + std_count + ut_count)


def zone_of_file(data: bytes) -> Zone:
    """The time zone of a TZif file (``tzloadbody``).

    Leap seconds are not read, because no time zone of the tz database has any.
    """
    block = _block(data, 0, 4)
    footer = b""
    if data[4:5] != b"\0":
        block = _block(data, block.end, 8)
        footer = data[block.end :].strip(b"\n")
    moments, places, kinds, names = list(block.moments), list(block.places), list(block.kinds), block.names
    rule = zone_of_specification(footer.decode()) if footer else None
    if rule is not None:
        names, places_of_names = _with_names(names, rule)
        if places_of_names is not None:
            while len(moments) > 1 and places[-1] == places[-2]:
                del moments[-1], places[-1]
            room = MOST_MOMENTS - len(moments)
            later = bisect_right(rule.moments, moments[-1]) if moments else 0
            places += [len(kinds) + place for place in rule.places[later:][:room]]
            moments += rule.moments[later:][:room]
            kinds += [kind._replace(name_at=at) for kind, at in zip(rule.kinds, places_of_names, strict=True)]
    return _zone(moments, places, kinds, names)


def _with_names(names: bytes, rule: Zone) -> tuple[bytes, list[int] | None]:
    """The names extended by those of the rule, and the positions of the rule's names.

    The positions are None if there is no room for them.
    """
    found = []
    for kind in rule.kinds:
        name = rule.names[kind.name_at :].partition(b"\0")[0] + b"\0"
        at = names.find(name)
        if at < 0:
            at = len(names)
            if at + len(name) - 1 >= _MOST_NAME_BYTES:
                return names, None
            names += name
        found.append(at)
    return names, found


def _zone(moments: list[int], places: list[int], kinds: list[Kind], names: bytes) -> Zone:
    def same(one: int, other: int) -> bool:
        left, right = (
            (kind.offset, kind.is_dst, names[kind.name_at :].partition(b"\0")[0])
            for kind in (kinds[places[one]], kinds[places[other]])
        )
        return left == right

    last = len(moments) - 1
    before = any(moments[at] - moments[0] == CYCLE and same(at, 0) for at in range(1, len(moments)))
    after = any(moments[last] - moments[at] == CYCLE and same(at, last) for at in range(last))
    return Zone(tuple(moments), tuple(places), tuple(kinds), _default(places, kinds), names, before, after)


def _default(places: list[int], kinds: list[Kind]) -> int:
    """The index of the kind before the first moment.

    It is the first kind, unless the moments require another one, as in files of 2018 and older.
    """
    if 0 not in places:
        return 0
    if kinds[places[0]].is_dst:
        standard = [place for place in range(places[0]) if not kinds[place].is_dst]
        if standard:
            return standard[-1]
    return next((place for place, kind in enumerate(kinds) if not kind.is_dst), 0)
