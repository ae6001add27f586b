"""Record the abbreviations of time zones that every installation of PostgreSQL knows
(``timezone_abbreviations = Default``).

They are in ``share/timezonesets/Default`` of the server, and have been the same from PostgreSQL 15
to 18.
"""

from __future__ import annotations

import sys
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "subscriber/types/datetimes/timezone_abbreviations.tsv"


def main(source: str) -> None:
    """Read the server's file and write ours: abbreviation, seconds east of Greenwich or the zone
    that it stands for, D for daylight saving time.
    """
    found = {}
    for line in Path(source).read_text().splitlines():
        words = line.partition("#")[0].split()
        if words:
            found[words[0].lower()] = "\t".join(words[1:3])
    FILE.write_text("".join(f"{name}\t{meaning}\n" for name, meaning in sorted(found.items())))
    print(f"{len(found)} abbreviations in {FILE}")


if __name__ == "__main__":
    main(sys.argv[1])
