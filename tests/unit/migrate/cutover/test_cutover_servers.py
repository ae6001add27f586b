"""The result of a comparison, as a cutover tells it."""

from __future__ import annotations

from subscriber.base.lsn import LSN
from subscriber.migrate.cutover.cutover_servers import verify_result
from subscriber.verify.report import TableVerification, VerifyReport


def test_each_table_that_differs_is_one_line_without_the_hint_of_its_error():
    """A HINT of one table would be taken for that of the command."""
    report = VerifyReport(
        "s",
        (
            TableVerification("public.a", "public.a", LSN(0x100), 3, 3),
            TableVerification("public.b", "public.b", LSN(0x100), 3, 3, 1, 2, 4),
            TableVerification("public.c", "public.c", error='ERROR:  relation "c" does not exist\nHINT:  Create it.'),
        ),
    )
    result = verify_result(report)
    assert not result.is_equal
    assert result.differing == [
        "public.b: 1 differing, 2 only at the publisher, 4 only in the target",
        'public.c: relation "c" does not exist',
    ]
    assert result.report["tables"][2]["error"].endswith("HINT:  Create it.")
