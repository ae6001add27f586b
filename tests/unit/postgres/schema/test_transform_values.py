"""The values of columns that have a transform."""

from __future__ import annotations

import hashlib
import hmac
import sys
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriber.base.errors import NotSupportedError, TransformError, UsageError
from subscriber.postgres.schema.transform_rules import ColumnTransform, parse_transforms
from subscriber.postgres.schema.transform_values import (
    is_injective,
    transformed,
    transformed_batch,
    transformed_relation,
    with_fingerprint,
)
from subscriber.postgres.types.registry import family_of
from tests.changes import T, U
from tests.frames import OIDS, relation

SECRET = b"0123456789abcdef"
NULL, HASH = ColumnTransform("null"), ColumnTransform("sha256")

VALUES = {
    "int4": ["1", "-7", None],
    "bool": ["t", "f", None],
    "bytea": ["\\x00ff", None],
    "text": ["a", "", "é", None],
    "float8": ["0.1", "1e+20", "NaN", "-0", "-Infinity", None],
    "float4": ["0.1", "3.4028235e+38", None],
    "numeric": ["1.50", "NaN", None],
    "timestamptz": ["2026-01-01 00:00:00+00", "infinity", None],
    "date": ["2026-01-01", None],
    "jsonb": ['{"a": 1}', None],
    "int4[]": ["{1,NULL}", None],
}
"""PostgreSQL's texts of values of each type."""


@pytest.fixture(autouse=True)
def secret(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    monkeypatch.setenv("SUBSCRIBER_TRANSFORM_SECRET_FILE", str(file))
    return file


@pytest.fixture
def masks(monkeypatch):
    """A module of a user."""
    made = ModuleType("some_masks")
    monkeypatch.setitem(sys.modules, "some_masks", made)
    monkeypatch.setenv("SUBSCRIBER_FUNCTION_MODULES", "some_masks")
    return made


def calls(masks, function, *, injective=False) -> ColumnTransform:
    function.injective = injective
    masks.function = function
    return ColumnTransform("function", "some_masks:function")


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def digest(text: str) -> str:
    return hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize("kind", VALUES)
def test_a_hash_is_that_of_the_publishers_text_also_of_decoded_values(kind):
    expected = [None if text is None else digest(text) for text in VALUES[kind]]
    raw = pa.array([None if text is None else text.encode() for text in VALUES[kind]], pa.binary())
    decoded = family_of(OIDS[kind]).decode_text(raw)
    for as_text in (False, True):
        for values in (decoded, raw.cast(pa.string())):
            assert transformed(HASH, OIDS[kind], values, as_text=as_text).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("abcdef", "ab***f"), ("abcd", "ab*d"), ("abc", "***"), ("a", "*"), ("", ""), (None, None), ("ééééé", "éé**é")],
)
def test_a_text_that_is_shown_in_part_keeps_its_length_and_none_is_shown_whole(text, expected):
    part = ColumnTransform("partial", first=2, last=1)
    assert transformed(part, 25, texts(text), as_text=False).to_pylist() == [expected]


@given(st.text(max_size=8), st.integers(0, 5), st.integers(0, 5))
def test_a_text_is_never_shown_whole(text, first, last):
    (shown,) = transformed(
        ColumnTransform("partial", first=first, last=last), 25, texts(text), as_text=True
    ).to_pylist()
    assert len(shown) == len(text)
    assert "*" in shown or not text
    assert sum(one == "*" for one in shown) >= min(len(text), max(1, len(text) - first - last))


def test_the_blanks_of_a_character_column_are_not_characters():
    part = ColumnTransform("partial", first=1, last=1)
    assert transformed(part, 1042, texts("abc  ", "a    "), as_text=True).to_pylist() == ["a*c  ", "*    "]


def test_a_constant_is_the_value_of_every_row_and_null_of_none():
    assert transformed(ColumnTransform("constant", "7"), 23, pa.array([1, None]), as_text=False).to_pylist() == [7, 7]
    found = transformed(NULL, 23, pa.array([1, None], pa.int32()), as_text=False)
    assert (found.type, found.to_pylist()) == (pa.int32(), [None, None])


def test_a_function_gets_texts_and_returns_texts(masks):
    seen = []

    def decades(values: pa.Array) -> pa.Array:
        seen.append(values)
        return texts(*(None if one is None else f"{one[:-1]}0" for one in values.to_pylist()))

    found = transformed(calls(masks, decades), 23, pa.array([17, None], pa.int32()), as_text=False)
    assert (found.type, found.to_pylist()) == (pa.int32(), [10, None])
    assert seen == [texts("17", None)]


def fails(values: pa.Array) -> pa.Array:
    raise ValueError(f"bad {values}")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (fails, "it raised ValueError in "),
        (lambda values: values.to_pylist(), "it did not return an Arrow array of strings"),
        (lambda values: pa.array([1] * len(values)), "it did not return an Arrow array of strings"),
        (lambda values: values.slice(1), "it returned 0 values for 1"),
        (lambda values: texts("654321x"), "its result is not a value of the column's type"),
    ],
)
def test_the_failure_of_a_function_is_told_without_a_value(masks, function, reason):
    with pytest.raises(TransformError, match=reason) as caught:
        transformed(calls(masks, function), 23, pa.array([123456]), as_text=False)
    assert "123456" not in str(caught.value)
    assert "654321x" not in str(caught.value)


def test_only_a_function_that_says_whether_it_is_injective_is_called(masks):
    masks.function = lambda values: values
    with pytest.raises(UsageError, match='has no attribute "injective"'):
        transformed(ColumnTransform("function", "some_masks:function"), 25, texts("a"), as_text=True)
    with pytest.raises(UsageError, match="is not allowed"):
        with_fingerprint(parse_transforms("public.t.a = os:system"))


def test_a_function_of_another_module_is_never_imported(masks):
    with pytest.raises(UsageError, match='"other:function" is not allowed') as caught:
        transformed(ColumnTransform("function", "other:function"), 25, texts("a"), as_text=True)
    assert caught.value.sqlstate == "42501"


def test_a_key_may_have_a_hash_or_an_injective_function_only(masks):
    assert is_injective(HASH)
    assert not is_injective(NULL)
    backwards = calls(masks, lambda values: values, injective=True)
    assert is_injective(backwards)
    rules = parse_transforms("public.t.a = some_masks:function, public.u.a = null")
    assert transformed_relation(rules, T) == T
    assert transformed_relation(rules, U) == U  # REPLICA IDENTITY FULL: equal rows are as good as each other
    calls(masks, lambda values: values)
    with pytest.raises(NotSupportedError, match="because rows are found by it"):
        transformed_relation(rules, T)


def test_only_columns_that_were_sent_are_transformed_and_an_error_names_the_column():
    users = relation("public.users", {"id": "int4", "email": "text", "phone": "text"}, ["id"])
    rules = parse_transforms("public.users.email = sha256, public.users.phone = null").of("public", "users")
    rows = pa.RecordBatch.from_pydict({"id": [1], "email": ["x"]})
    found = transformed_batch(rules, users, rows, as_text=False)
    assert found.to_pydict() == {"id": [1], "email": [digest("x")]}
    wrong = {"email": ColumnTransform("sha256", "f" * 16)}
    with pytest.raises(UsageError) as caught:
        transformed_batch(wrong, users, rows, as_text=False)
    assert (caught.value.relation, caught.value.column) == ("public.users", "email")


def test_the_stored_rules_have_the_fingerprint_of_the_secret_alone():
    stored = with_fingerprint(parse_transforms("public.t.b = sha256('0'), public.t.c = null"))
    fingerprint = stored.of("public", "t")["b"].text
    assert len(fingerprint) == 16
    assert SECRET.decode() not in str(stored)
    assert stored.of("public", "t")["c"] == NULL
