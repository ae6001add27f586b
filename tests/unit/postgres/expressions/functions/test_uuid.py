"""uuid: comparison, and what a value says of itself (the manual's 9.14)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import value

VERSION_1 = "'a6b0a9c8-0f8e-11ee-be56-0242ac120002'::uuid"
VERSION_7 = "'019535d9-3df7-79fb-b466-fa907fa17f9e'::uuid"
NOT_RFC = "'019535d9-3df7-79fb-0466-fa907fa17f9e'::uuid"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("uuid_extract_version('41db1265-8bc1-4ab3-992f-885799a4af1d'::uuid)", "4"),
        (f"uuid_extract_version({VERSION_7})", "7"),
        (f"uuid_extract_version({NOT_RFC})", None),
        (f"uuid_extract_timestamp({VERSION_1})", "2023-06-20 17:19:45.143239+00"),
        (f"uuid_extract_timestamp({VERSION_7})", "2025-02-24 02:46:24.503+00"),
        ("uuid_extract_timestamp('41db1265-8bc1-4ab3-992f-885799a4af1d'::uuid)", None),
        (f"uuid_extract_timestamp({NOT_RFC})", None),
        (f"{VERSION_7} < {VERSION_1}", "t"),
        (f"{VERSION_7} = {VERSION_7}", "t"),
        ("'7fffffff-0000-0000-0000-000000000000'::uuid < '80000000-0000-0000-0000-000000000000'::uuid", "t"),
        (f"{VERSION_7} <> NULL::uuid", None),
    ],
)
def test_uuids(expression, expected):
    assert value(expression) == expected
