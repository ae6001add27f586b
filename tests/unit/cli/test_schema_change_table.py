"""What ``subscriber status`` says of tables that were altered."""

from __future__ import annotations

from dataclasses import replace

from subscriber.catalog import SchemaChange
from subscriber.cli.schema_change_table import schema_change_parts
from tests.unit.cli.test_status import STATUS

ADDED = SchemaChange(
    "2026-11-21T10:00:00.000+00:00",
    "public.t",
    "0/100",
    "ALTER TABLE t ADD COLUMN c INT",
    'Column "c" came up.',
    None,
    None,
    "public",
    "t",
)
DIFFERS = replace(ADDED, statement=None, difference="Rows have NULL.")


def parts(*changes: SchemaChange) -> list[str]:
    return list(schema_change_parts([replace(STATUS, schema_changes=changes)]))


def test_each_alter_table_has_a_row():
    (table,) = parts(ADDED)
    assert [cell.strip() for cell in table.splitlines()[-2].split("|")] == [
        "shop",
        "public.t",
        "2026-11-21T10:00:00.000+00:00",
        "0/100",
        "ALTER TABLE t ADD COLUMN c INT",
    ]


def test_a_warning_is_shown_until_the_table_is_copied_again():
    (warning,) = parts(DIFFERS)
    assert warning.splitlines()[0] == (
        "WARNING:  rows of table public.t (shop) may differ from the publisher's since 0/100 (2026-11-21T10:00:00.000+00:00)"
    )
    assert warning.splitlines()[1] == 'DETAIL:  Column "c" came up. Rows have NULL.'
    assert warning.splitlines()[2] == (
        "HINT:  To copy the table again: ALTER SUBSCRIPTION shop REFRESH TABLE public.t; The warning also ends when"
        " `subscriber verify shop` finds the rows to be equal."
    )
    assert parts(replace(DIFFERS, resolved_at="2026-11-22T10:00:00.000+00:00")) == []


def test_tables_that_differ_for_the_same_reason_have_one_warning():
    tables = [replace(DIFFERS, relation=f"public.t{number}", name=f"t{number}") for number in range(7)]
    warning, _ = parts(*tables, replace(DIFFERS, reason="Another one."))
    assert warning.splitlines()[0] == (
        "WARNING:  rows of 7 tables, public.t0, public.t1, public.t2, public.t3, public.t4, … (shop)"
        " may differ from the publisher's since 0/100 (2026-11-21T10:00:00.000+00:00)"
    )
    named = ", ".join(f"public.t{number}" for number in range(7))
    hint = warning.splitlines()[2]
    assert hint.startswith(f"HINT:  To copy the tables again: ALTER SUBSCRIPTION shop REFRESH TABLE {named};")


def test_without_an_alter_table_nothing_is_printed():
    assert parts() == []
