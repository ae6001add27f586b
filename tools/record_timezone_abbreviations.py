"""Record the abbreviations of time zones that every installation of PostgreSQL knows.

They are the abbreviations of ``timezone_abbreviations = Default``, in the file
``share/timezonesets/Default`` of the server. They are the same in PostgreSQL 15 to 18.
"""

from __future__ import annotations

import sys
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "subscriber/types/datetimes/timezone_abbreviations.tsv"


def main(source: str) -> None:
    """Read the server's file and write the file of this package.

    A line has the abbreviation, then the seconds east of Greenwich or the time zone that it stands
    for, then D for daylight saving time.
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
