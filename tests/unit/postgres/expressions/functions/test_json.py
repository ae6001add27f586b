"""jsonb: the examples of the manual (9.16), casts, NULL and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value

LIST = """'[{"a":"foo"},{"b":"bar"},{"c":"baz"}]'::jsonb"""
NESTED = """'{"a": {"b": ["foo","bar"]}}'::jsonb"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of json and jsonb operators.
        (f"{LIST} -> 2", '{"c": "baz"}'),
        (f"{LIST} -> -3", '{"a": "foo"}'),
        (f"{LIST} -> 3", None),
        ("""'{"a": {"b":"foo"}}'::jsonb -> 'a'""", '{"b": "foo"}'),
        ("'[1,2,3]'::jsonb ->> 2", "3"),
        ("""'{"a":1,"b":2}'::jsonb ->> 'b'""", "2"),
        (f"{NESTED} #> '{{a,b,1}}'", '"bar"'),
        (f"{NESTED} #>> '{{a,b,-2}}'", "foo"),
        (f"{NESTED} #> '{{a,c}}'", None),
        # The table of additional jsonb operators.
        ("""'{"a":1, "b":2}'::jsonb @> '{"b":2}'::jsonb""", "t"),
        ("""'{"b":2}'::jsonb <@ '{"a":1, "b":2}'::jsonb""", "t"),
        ("""'{"a":1, "b":2}'::jsonb ? 'b'""", "t"),
        ("""'["a", "b", "c"]'::jsonb ? 'b'""", "t"),
        ("""'{"a":1, "b":2, "c":3}'::jsonb ?| array['b', 'd']""", "t"),
        ("""'["a", "b", "c"]'::jsonb ?& array['a', 'b']""", "t"),
        ("""'["a", "b"]'::jsonb || '["a", "d"]'::jsonb""", '["a", "b", "a", "d"]'),
        ("""'{"a": "b"}'::jsonb || '{"c": "d"}'::jsonb""", '{"a": "b", "c": "d"}'),
        ("'[1, 2]'::jsonb || '3'::jsonb", "[1, 2, 3]"),
        ("""'{"a": "b"}'::jsonb || '42'::jsonb""", '[{"a": "b"}, 42]'),
        ("""'{"a": "b", "c": "d"}'::jsonb - 'a'""", '{"c": "d"}'),
        ("""'["a", "b", "c", "b"]'::jsonb - 'b'""", '["a", "c"]'),
        ("""'{"a": "b", "c": "d"}'::jsonb - '{a,c}'::text[]""", "{}"),
        ("""'["a", "b"]'::jsonb - 1""", '["a"]'),
        ("""'["a", {"b":1}]'::jsonb #- '{1,b}'""", '["a", {}]'),
        # The table of functions.
        ('jsonb_array_length(\'[1,2,3,{"f1":1,"f2":[5,6]},4]\')', "5"),
        ("jsonb_array_length('[]')", "0"),
        ('jsonb_extract_path(\'{"f2":{"f3":1},"f4":{"f5":99,"f6":"foo"}}\', \'f4\', \'f6\')', '"foo"'),
        ('jsonb_extract_path_text(\'{"f2":{"f3":1},"f4":{"f5":99,"f6":"foo"}}\', \'f4\', \'f6\')', "foo"),
        ('jsonb_strip_nulls(\'[{"f1":1, "f2":null}, 2, null, 3]\')', '[{"f1": 1}, 2, null, 3]'),
        ("jsonb_strip_nulls('[1,2,null,3,4]', true)", "[1, 2, 3, 4]"),
        ("jsonb_typeof('-123.4')", "number"),
        ("jsonb_typeof('null'::jsonb)", "null"),
        # Containment, as in the manual's 8.14.
        ("""'"foo"'::jsonb @> '"foo"'::jsonb""", "t"),
        ("'[1, 2, 3]'::jsonb @> '[1, 3]'::jsonb", "t"),
        ("'[1, 2, 3]'::jsonb @> '[3, 1, 3]'::jsonb", "t"),
        ("'[1, 2, [1, 3]]'::jsonb @> '[1, 3]'::jsonb", "f"),
        ("'[1, 2, [1, 3]]'::jsonb @> '[[1, 3]]'::jsonb", "t"),
        ("""'{"foo": {"bar": "baz"}}'::jsonb @> '{"bar": "baz"}'::jsonb""", "f"),
        ("""'{"foo": {"bar": "baz"}}'::jsonb @> '{"foo": {}}'::jsonb""", "t"),
        ("""'["foo", "bar"]'::jsonb @> '"bar"'::jsonb""", "t"),
        ("""'"bar"'::jsonb @> '["bar"]'::jsonb""", "f"),
        ("""'{"foo": {"bar": 1}}'::jsonb ? 'bar'""", "f"),
        ("""'"foo"'::jsonb ? 'foo'""", "t"),
        # JSON's null is no NULL, except as text.
        ("'[null]'::jsonb -> 0", "null"),
        ("'[null]'::jsonb ->> 0", None),
        ("""'{"a":1}'::jsonb -> 'b'""", None),
        ("""'{"a":1}'::jsonb -> 0""", None),
        ("'[1]'::jsonb -> 'a'", None),
        ("'7'::jsonb -> 0", "7"),
        ("""'{"a":1}'::jsonb #> '{}'""", '{"a": 1}'),
        ("""'{"a":1}'::jsonb #> '{NULL}'""", None),
        ("'[1,2]'::jsonb #> '{x}'", None),
        # Equality does not depend on the scale of numbers.
        ("'1.0'::jsonb = '1.00'::jsonb", "t"),
        ("""'{"a":1,"b":2}'::jsonb = '{"b":2,"a":1}'::jsonb""", "t"),
        ("'[1]'::jsonb <> '1'::jsonb", "t"),
        # Order: object > array > boolean > number > string > null, and the empty array before all.
        ("""'{}'::jsonb > '[1]'::jsonb""", "t"),
        ("'true'::jsonb > '1'::jsonb", "t"),
        ("""'1'::jsonb > '"a"'::jsonb""", "t"),
        ("""'"a"'::jsonb > 'null'::jsonb""", "t"),
        ("'[]'::jsonb < 'null'::jsonb", "t"),
        ("'[9]'::jsonb < '[1,2]'::jsonb", "t"),
        ("""'{"a":9}'::jsonb < '{"b":1}'::jsonb""", "t"),
        # Casts.
        ("'true'::jsonb::boolean", "t"),
        ("'1.50'::jsonb::numeric", "1.50"),
        ("'2.5'::jsonb::integer", "3"),
        ("'7'::jsonb::smallint", "7"),
        ("'7'::jsonb::bigint", "7"),
        ("'1.5'::jsonb::float8", "1.5"),
        ("'1.5'::jsonb::real", "1.5"),
        ("'null'::jsonb::integer", None),
        ("'null'::jsonb::boolean", None),
        # Deletion.
        ("'[1,2,3]'::jsonb - (-1)", "[1, 2]"),
        ("'[1,2,3]'::jsonb - 7", "[1, 2, 3]"),
        ("'[1,[2,3]]'::jsonb #- '{1,-1}'", "[1, [2]]"),
        ("""'{"a":{"b":1}}'::jsonb #- '{a,c}'""", '{"a": {"b": 1}}'),
        ("NULL::jsonb -> 0", None),
        ("'[1]'::jsonb -> NULL::int", None),
        ("'[1]'::jsonb || NULL", None),
        # Other documents.
        (
            """jsonb_set('[{"f1":1,"f2":null},2,null,3]', '{0,f1}', '[2,3,4]', false)""",
            '[{"f1": [2, 3, 4], "f2": null}, 2, null, 3]',
        ),
        ("""jsonb_set('[{"f1":1,"f2":null},2]', '{0,f3}', '[2,3,4]')""", '[{"f1": 1, "f2": null, "f3": [2, 3, 4]}, 2]'),
        ("""jsonb_set('{"a": []}', '{a,5}', '1')""", '{"a": [1]}'),
        ("""jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new_value"')""", '{"a": [0, "new_value", 1, 2]}'),
        ("""jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new_value"', true)""", '{"a": [0, 1, "new_value", 2]}'),
        (
            """jsonb_set_lax('[{"f1":1,"f2":null},2,null,3]', '{0,f1}', NULL)""",
            '[{"f1": null, "f2": null}, 2, null, 3]',
        ),
        ("""jsonb_set_lax('{"a":1}', '{a}', NULL, true, 'delete_key')""", "{}"),
        ("""jsonb_pretty('[{"f1":1}, {}, 2]')""", '[\n    {\n        "f1": 1\n    },\n    {\n    },\n    2\n]'),
        ("json_object('{a, 1, b, \"def\", c, 3.5}')", '{"a" : "1", "b" : "def", "c" : "3.5"}'),
        ("jsonb_object('{a, b}', '{1,NULL}')", '{"a": "1", "b": null}'),
    ],
)
def test_documents(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("jsonb_array_length('{}')", "22023", "cannot get array length of a non-array"),
        ("jsonb_array_length('1')", "22023", "cannot get array length of a scalar"),
        ("'1'::jsonb - 'a'", "22023", "cannot delete from scalar"),
        ("'1'::jsonb - '{a}'::text[]", "22023", "cannot delete from scalar"),
        ("'1'::jsonb - 1", "22023", "cannot delete from scalar"),
        ("""'{"a":1}'::jsonb - 1""", "22023", "cannot delete from object using integer index"),
        ("'1'::jsonb #- '{a}'", "22023", "cannot delete path in scalar"),
        ("'[1]'::jsonb #- '{x}'", "22P02", "path element at position 1 is not an integer"),
        ("""'{"a":1}'::jsonb #- '{NULL}'""", "22004", "path element at position 1 is null"),
        ("""'{"a":1}'::jsonb #- '{{a},{b}}'""", "2202E", "wrong number of array subscripts"),
        ("""'"1"'::jsonb::integer""", "22023", "cannot cast jsonb string to type integer"),
        ("'true'::jsonb::numeric", "22023", "cannot cast jsonb boolean to type numeric"),
        ("'1'::jsonb::boolean", "22023", "cannot cast jsonb numeric to type boolean"),
        ("'[]'::jsonb::float8", "22023", "cannot cast jsonb array to type double precision"),
        ("'{}'::jsonb::bigint", "22023", "cannot cast jsonb object to type bigint"),
        ("'32768'::jsonb::smallint", "22003", "smallint out of range"),
        ("jsonb_set('1', '{a}', '2')", "22023", "cannot set path in scalar"),
        ("""jsonb_insert('{"a": 1}', '{a}', '2')""", "22023", "cannot replace existing key"),
        ("jsonb_set('[1]', '{x}', '2')", "22P02", "path element at position 1 is not an integer"),
        ("jsonb_set('[1]', '{NULL}', '2')", "22004", "path element at position 1 is null"),
        ("jsonb_set_lax('[1]', '{0}', NULL, true, 'raise_exception')", "22004", "JSON value must not be null"),
        ("json_object('{a}')", "2202E", "array must have even number of elements"),
        ("json_object('{{a,b,c}}')", "2202E", "array must have two columns"),
        ("jsonb_object('{a,b}', '{1}')", "2202E", "mismatched array dimensions"),
        ("jsonb_object('{NULL,b}')", "22004", "null value not allowed for object key"),
    ],
)
def test_the_error_of_a_document(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)


def test_a_cast_of_null_is_an_error_before_18():
    assert failure("'null'::jsonb::integer", version=160000) == ("22023", "cannot cast jsonb null to type integer")
