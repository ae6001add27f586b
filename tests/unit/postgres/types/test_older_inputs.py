"""Constants of servers before 17. The conformance tests compare them with servers of 15 and 16."""

from __future__ import annotations

import pytest

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.types.older_inputs import input_of
from subscriber.postgres.types.registry import form_of

INT2, INT4, INT8, OID, NUMERIC, INTERVAL, DATE, INT4_ARRAY, INT4RANGE = 21, 23, 20, 26, 1700, 1186, 1082, 1007, 3904


def read(type_oid: int, text: str, major: int) -> str:
    """The value as the output function prints it, or the SQLSTATE."""
    form, function = form_of(type_oid), input_of(type_oid, major)
    assert form is not None
    assert function is not None
    try:
        return form.to_text(function(text, -1))
    except (DataException, NotSupportedError) as error:
        return error.sqlstate


@pytest.mark.parametrize(
    ("type_oid", "text", "answers"),
    [
        (INT4, "-0x80000000", ("22P02", "-2147483648", "-2147483648")),
        (INT4, " +07 ", ("7", "7", "7")),
        (INT4, "x", ("22P02", "22P02", "22P02")),
        (INT2, "32769x", ("22003", "22P02", "22P02")),
        (INT2, "32768", ("22003", "22003", "22003")),
        (INT8, "1_000", ("22P02", "1000", "1000")),
        (OID, "017", ("17", "15", "15")),
        (OID, "-08", ("4294967288", "22P02", "22P02")),
        (OID, "x", ("22P02", "22P02", "22P02")),
        (NUMERIC, "1_0.5", ("22P02", "10.5", "10.5")),
        (NUMERIC, "0x1F", ("22P02", "31", "31")),
        (NUMERIC, "1e x", ("0A000", "22P02", "22P02")),
        (NUMERIC, "0xg", ("22P02", "22P02", "22P02")),
        (NUMERIC, "1,5", ("22P02", "22P02", "22P02")),
        (INTERVAL, "infinity", ("22007", "22007", "infinity")),
        (INTERVAL, "1 day day", ("0A000", "0A000", "22007")),
        (INTERVAL, "@ 1-2 ago 1:00", ("0A000", "0A000", "22007")),
        (INTERVAL, "x", ("22007", "22007", "22007")),
        (DATE, "+infinity", ("0A000", "infinity", "infinity")),
        (DATE, "epoch 1:00", ("0A000", "22007", "22007")),
        (DATE, "2024-02-30", ("22008", "22008", "22008")),
        (INT4_ARRAY, "{{},{}}", ("22P02", "22P02", "{}")),
        (INT4_ARRAY, "{0x1F}", ("22P02", "{31}", "{31}")),
        (INT4_ARRAY, "[1:2-]={1,2}", ("0A000", "0A000", "22P02")),
        (INT4_ARRAY, "{1", ("22P02", "22P02", "22P02")),
        (INT4RANGE, "[0x1,5)", ("22P02", "[1,5)", "[1,5)")),
    ],
)
def test_a_constant_is_read_as_the_version_reads_it_or_refused(type_oid, text, answers):
    assert tuple(read(type_oid, text, major) for major in (15, 16, 18)) == answers


def test_a_type_without_a_form_has_no_input_function():
    assert input_of(600, 15) is None
    assert input_of(1017, 18) is None
    assert input_of(1017, 15) is None
