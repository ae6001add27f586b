"""What is told about expressions without a server."""

from __future__ import annotations

import pytest

from subscriber.publisher.shapes import is_constant


@pytest.mark.parametrize(
    ("expression", "constant"),
    [
        ("5", True),
        ("(- 5)", True),
        ("'-5'::integer", True),
        ("'x'::character varying(5)", True),
        ("'{1,2}'::integer[]", True),
        ("ARRAY[1, 2]", True),
        ("B'101'::\"bit\"", True),
        ("'1 day'::interval", True),
        ("'ok'::sales.mood", True),
        ("NULL::text", True),
        ("true", True),
        ("(1 + 2)", False),
        ("now()", False),
        ("CURRENT_TIMESTAMP", False),
        ("('now'::text)::date", False),
        ("sales.f(1)", False),
        ("nextval('s'::regclass)", False),
        ("random()", False),
        ("not ( an expression", False),
    ],
)
def test_a_constant_is_told_from_what_is_computed(expression, constant):
    assert is_constant(expression) is constant
