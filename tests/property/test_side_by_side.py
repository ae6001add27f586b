"""Two random outputs side by side: a line is marked if the comparison fails there, and every line
is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from subscriber.testing.session.expect import compare_output
from subscriber.testing.session.session_file import SessionStatement
from subscriber.testing.side_by_side import LineMark, side_by_side

MESSAGES = ("NOTICE:  n", "NOTICE:  m", "ERROR:  e", "DETAIL:  d", "INSERT 0 1", "DETAIL:   2", "")


def table(rows: Sequence[str]) -> list[str]:
    return [" a ", "---", *(f" {row}" for row in rows), f"({len(rows)} rows)", ""]


tables = st.lists(st.sampled_from("1223"), max_size=4).map(table)
outputs = st.lists(st.one_of(tables, st.sampled_from(MESSAGES).map(lambda line: [line])), max_size=3).map(
    lambda blocks: [line for block in blocks for line in block]
)
statements = st.sampled_from(
    ["SELECT 1;", "SELECT 1 ORDER BY 1;", "SELECT 1; SELECT 2 ORDER BY 1;", "COPY t TO STDOUT;", "\\d t", "BEGIN;"]
)


@given(statements, outputs, outputs)
@example("SELECT 1;", [" 2", *table("12")], [" 2", *table("21")])
@example("SELECT 1 ORDER BY 1;", table("122"), table("221"))
def test_a_line_is_marked_exactly_when_the_comparison_fails_and_no_line_is_lost(text, expected, printed):
    pairs = side_by_side(SessionStatement("test_sub", "", 1, text, tuple(expected), 1), "\n".join(printed))
    sides = [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
    marks = {line.mark for side in sides for line in side if line} - {LineMark.AGREES, LineMark.ASIDE}
    assert bool(marks) == (compare_output(text, expected, "\n".join(printed)) is not None)
    for side, lines in zip(sides, (expected, printed), strict=True):
        assert [line.text for line in side if line] == [line.rstrip(" ") for line in lines if line.strip(" ")]
    assert all(left or right for left, right in pairs)
    for left, right in pairs:
        changed = [line is not None and line.mark is LineMark.CHANGED for line in (left, right)]
        assert changed[0] == changed[1]
