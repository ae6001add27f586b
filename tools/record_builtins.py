"""Record PostgreSQL's built-in objects for ``subscriber/postgres/expressions``.

Run it when a new major version is released. Each line of ``builtin_objects.tsv`` begins with the
major versions that have the object, or with nothing if all recorded versions have it.
"""

from __future__ import annotations

from pathlib import Path

from subscriber.postgres.expressions.builtin_catalog import built_in_objects
from subscriber.testing.servers.open_servers import open_postgresql

VERSIONS = (15, 16, 18)
FILE = Path(__file__).resolve().parent.parent / "subscriber/postgres/expressions/builtin_objects.tsv"


def main() -> None:
    """Query each server and write the file."""
    found: dict[str, list[int]] = {}
    for version in VERSIONS:
        with open_postgresql(version, {}) as server:
            for (line,) in server.execute(built_in_objects(version * 10000)):
                found.setdefault(line, []).append(version)
    lines = [("" if len(at) == len(VERSIONS) else ",".join(map(str, at))) + "\t" + line for line, at in found.items()]
    FILE.write_text("\n".join(sorted(lines, key=_order)) + "\n")
    print(f"{len(lines)} objects in {FILE}")


def _order(line: str) -> tuple[str, int, str]:
    kind, oid = line.split("\t")[1:3]
    return kind, int(oid), line


if __name__ == "__main__":
    main()
