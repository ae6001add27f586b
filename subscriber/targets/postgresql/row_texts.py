r"""Rows as texts that the server reads: the data of COPY, and an array of a table's row type.

::

    copy_data      1\tO'Neil\t\N\n                     a tab between values, \N for NULL, a row is a line
    row_array      {"(1,O'Neil,)","(2,\"a,b\",)"}      a comma between values, nothing for NULL

Each value is read by the input function of its column, with the column's modifier, as PostgreSQL's
apply worker reads it. The functions are pure and work on whole columns.

https://www.postgresql.org/docs/current/sql-copy.html, "Text Format";
https://www.postgresql.org/docs/current/rowtypes.html, "Composite Type Input and Output Syntax";
https://www.postgresql.org/docs/current/arrays.html, "Array Input and Output Syntax".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_IN_COPY: Final = r"[\\\t\n\r]"
"""A value with one of these is escaped in COPY's data."""
_IN_ROW: Final = r'^$|[\\",()]'
"""A value that is empty, or has one of these, is quoted in a row."""


def copy_data(columns: Sequence[pa.Array]) -> bytes:
    """Rows in COPY's text format.

    Args:
        columns: the texts of each column, at least one; all of the same length.
    """
    values = [_escaped(one, _IN_COPY, (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))) for one in columns]
    lines = pc.binary_join_element_wise(*values, "\t", null_handling="replace", null_replacement="\\N")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def row_array(columns: Sequence[pa.Array | None]) -> str:
    """Rows as an array of a row type.

    Args:
        columns: the texts of each column of the type; None for a column that is NULL in each row.
            All are of the same length, and at least one is given.
    """
    values = ["" if one is None else _quoted(one) for one in columns]
    rows = pc.binary_join_element_wise(*values, ",", null_handling="replace", null_replacement="")
    return '{"(' + ')","('.join(rows.to_pylist()) + ')"}'


def _quoted(texts: pa.Array) -> pa.Array:
    """Values of a row that is itself quoted as an element of an array."""
    quoted = _escaped(texts, _IN_ROW, (("\\", "\\\\\\\\"), ('"', '\\\\\\"')))
    if quoted is texts:
        return texts
    return pc.binary_join_element_wise('\\"', quoted, '\\"', "")


def _escaped(texts: pa.Array, special: str, escapes: Sequence[tuple[str, str]]) -> pa.Array:
    """The texts with their escapes; ``texts`` itself if none of them matches ``special``."""
    if not pc.any(pc.match_substring_regex(texts, special)).as_py():
        return texts
    for character, escape in escapes:
        texts = pc.replace_substring(texts, character, escape)
    return texts
