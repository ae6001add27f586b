"""Time zones of filters beside the server's own, over the server's own files of the tz database
(rules B11, B27).

The releases of the database differ between servers and the package ``tzdata``; what is compared
here is how it is read.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.types.datetimes import timezones
from subscriber.postgres.types.datetimes.date_values import DAY, TIMESTAMP_LIMITS, timestamp_out
from tests.random_seed import random_seed
from tests.server_functions import Row, differences, open_session, zones_of

pytestmark = pytest.mark.server

SEED: Final = random_seed()
SPECIFICATIONS: Final = (
    "EST5EDT", "EST5EDT,M3.2.0,M11.1.0", "<+03>-3", "UTC+3", "+02", "-08:30", "5:45:10", "A1", "AB-1", "CET-1CEST,M3.5.0,M10.5.0/3", "<>5",
    "5", "+", "<x", "<x>", "x5y,J60/2,J300", "x5y,59,300/-4:30", "x5y4,0,365", "x5y,M13.1.0,M1.1.1", "x5y;M3.2.0,M4.1.0", "x5y,M3.2.0",
    "x-10y-11:30,M10.1.0,M4.1.0/3", "x167y", "x168", "x5:60", "x5:30:60", "x5:", "x5:30:", "XX3YY,0/0,J365/25", "IST-1GMT0,M10.5.0,M3.5.0/1",
    ":UTC", ":x5", "america", "America/", "Foo/Bar", "gmt", "Gmt+5", "etc/gmt-14", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "x0y,J366,1",
    "x0y,J1/167,J365/-167", "x 5", "5x", "x5 y", "é5", "x5y9,J100,J100", "x5y,J100/2,J100/3", "", "a" * 254 + "5", "a" * 300 + "5",
)  # fmt: skip


@pytest.fixture
def server_files(postgresql):
    """Use the zones of the server's files instead of those of the package."""
    with zones_of(postgresql) as are_here:
        if not are_here:
            pytest.skip("the files of this server's time zones are not on this machine")
        yield


def moments(random: Random, name: str) -> list[int]:
    """Timestamps, most of them within hours of a change of the zone's offset."""
    found = [random.randint(*TIMESTAMP_LIMITS), random.randint(-90_000 * DAY, 200_000 * DAY)]
    try:
        changes = timezones.time_zone(name).zone.moments
    except DataException:
        changes = ()
    for change in random.sample(changes, min(len(changes), 8)):
        near = random.choice([0, -1, 1, 3_600_000_000, -3_600_000_000, 7_200_000_000, random.randint(-DAY, DAY)])
        found.append((change - 946_684_800) * 1_000_000 + near)
    return found


@pytest.mark.usefixtures("server_files")
def test_every_zone_abbreviation_and_specification_is_the_servers(postgresql):
    random = Random(f"{SEED} zones")
    rows: list[Row] = []
    for name in (*timezones._zone_names().values(), *timezones._abbreviations(), *SPECIFICATIONS):
        rows += [(name, timestamp_out(moment)) for moment in moments(random, name)]
    with open_session(postgresql.conninfo()) as session:
        found = []
        for signature in ("timezone(text,timestamp)", "timezone(text,timestamptz)"):
            type_name = signature[:-1].rpartition(",")[2]
            found += differences(session, signature, ["text", type_name], rows)
        truncated: list[Row] = [
            (random.choice(["hour", "day", "week", "month", "year"]), moment, name) for name, moment in rows
        ]
        found += differences(
            session,
            "date_trunc(text,timestamptz,text)",
            ["text", "timestamptz", "text"],
            random.sample(truncated, 1500),
        )
        if session.major >= 16:
            for signature in ("date_add(timestamptz,interval,text)", "date_subtract(timestamptz,interval,text)"):
                lengths = [
                    "1 day",
                    "-1 day",
                    "1 mon",
                    "-11 mons 3 days",
                    "5 days 3:00",
                    "1 year -2 days -0:30",
                    "178000000 years",
                ]
                added: list[Row] = [
                    (moment, random.choice(lengths), name) for name, moment in random.sample(rows, 1000)
                ]
                found += differences(session, signature, ["timestamptz", "interval", "text"], added)
    assert not found, f"SEED={SEED}: {len(found)} {found[:5]}"
    assert len(rows) > 5000


def test_the_abbreviations_are_those_of_the_server(postgresql):
    """``timezone_abbreviations = Default``, the same for 15, 16 and 18."""
    names = {row[0] for row in postgresql.execute("SELECT lower(abbrev) FROM pg_timezone_abbrevs")}
    assert set(timezones._abbreviations()) == names - {"lmt"}
