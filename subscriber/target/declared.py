"""The sizes in a column's declaration, and values that they do not suffice for.

Databases round a number that has too many decimals for its column, and most of them say nothing.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.errors import UnsupportedValue
from subscriber.target.table import TargetColumn


def check_decimals(column: TargetColumn, values: pa.Array) -> None:
    """Refuse a numeric (as text) with more decimals than the column's declaration has; zeros at the end do not count.

    Raises:
        UnsupportedValue: 22003, naming the column and not the value.
    """
    scale = declared_scale(column.declared_type)
    if pc.any(pc.match_substring_regex(values, rf"\.\d{{{scale}}}\d*[1-9]")).as_py():
        raise UnsupportedValue(
            f'a value of column "{column.name}" has more decimals than "{column.declared_type}" keeps',
            sqlstate="22003",
            column=column.name,
            hint="Give the column a larger scale in the target.",
        )


def declared_scale(declared: str) -> int:
    """The second number in the parentheses.

    >>> declared_scale("DECIMAL(10,2)"), declared_scale("decimal(5)"), declared_scale("decimal(6,3) unsigned")
    (2, 0, 3)
    """
    sized = re.search(r"\(\s*\d+\s*(?:,\s*(\d+)\s*)?\)", declared)
    return int(sized[1]) if sized is not None and sized[1] else 0


def declared_length(declared: str) -> int | None:
    """The number in the parentheses, of a text's type; None where there is none.

    >>> declared_length("varchar(20)"), declared_length("text")
    (20, None)
    """
    sized = re.search(r"\((\d+)\)", declared)
    return None if sized is None else int(sized[1])
