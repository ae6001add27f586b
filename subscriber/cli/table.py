"""Tables as psql prints them: they neither wrap nor cut, so that a script can read them too."""

from __future__ import annotations

from collections.abc import Sequence


def format_rows(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A result as psql prints it: headings centred, numbers to the right, NULL empty, a row count."""
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(names)]
    numeric = [
        any(row[index] is not None for row in rows)
        and all(row[index] is None or isinstance(row[index], int | float) for row in rows)
        for index in range(len(names))
    ]
    lines = [
        "|".join(f" {name:^{width}} " for name, width in zip(names, widths, strict=True)).rstrip(),
        "+".join("-" * (width + 2) for width in widths),
    ]
    lines += [
        "|".join(
            f" {cell:>{width}} " if right else f" {cell:<{width}} "
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, f"({len(rows)} row{'' if len(rows) == 1 else 's'})"])
