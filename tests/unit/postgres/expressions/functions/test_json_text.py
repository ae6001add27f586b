"""json: a part of a document is the text that the document has there (the manual's 9.16)."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("""'[{"a":"foo"},{"b":"bar"},{"c":"baz"}]'::json -> 2""", '{"c":"baz"}'),
        ("""'[{"a":"foo"},{"b":"bar"},{"c":"baz"}]'::json -> -3""", '{"a":"foo"}'),
        ("""'{"a": {"b":"foo"}}'::json -> 'a'""", '{"b":"foo"}'),
        ("'[1,2,3]'::json ->> 2", "3"),
        ("""'{"a":1,"b":2}'::json ->> 'b'""", "2"),
        ("""'{"a": {"b": ["foo","bar"]}}'::json #> '{a,b,1}'""", '"bar"'),
        ("""'{"a": {"b": ["foo","bar"]}}'::json #>> '{a,b,1}'""", "bar"),
        ('json_array_length(\'[1,2,3,{"f1":1,"f2":[5,6]},4]\')', "5"),
        ("json_array_length(' [ ] ')", "0"),
        ('json_extract_path(\'{"f4":{"f5":99,"f6":"foo"}}\', \'f4\', \'f6\')', '"foo"'),
        ('json_extract_path_text(\'{"f4":{"f5":99,"f6":"foo"}}\', \'f4\', \'f6\')', "foo"),
        ("json_typeof('-123.4')", "number"),
        ("json_typeof(' {}')", "object"),
        ("json_typeof('[]')", "array"),
        ("json_typeof('\"\"')", "string"),
        ("json_typeof('true')", "boolean"),
        ("json_typeof('null')", "null"),
        # Blanks, the scale of numbers and the order of keys stay; the last of equal keys counts.
        ("""'{"a": { "c" :1.00 , "b":2} }'::json -> 'a'""", '{ "c" :1.00 , "b":2}'),
        ("""'{"a":1,"a":2}'::json -> 'a'""", "2"),
        ("""'{"a": "x\\u00e9\\n\\"y"}'::json ->> 'a'""", 'xé\n"y'),
        ("""'{"\\u0061": 1}'::json -> 'a'""", "1"),
        ("""json_strip_nulls('[{"f1":1, "f2":null}, 2, null, 3]')""", '[{"f1":1},2,null,3]'),
        ("""json_strip_nulls('[1, 2, null, 3]', true)""", "[1,2,3]"),
        # What is not there is NULL, and so is JSON's null as text.
        ("'[null]'::json -> 0", "null"),
        ("'[null]'::json ->> 0", None),
        ("'[1]'::json -> 1", None),
        ("'[1]'::json -> -2", None),
        ("'{}'::json -> 'a'", None),
        ("'[1]'::json -> 'a'", None),
        ("""'{"a":1}'::json -> 0""", None),
        ("'1'::json -> 0", None),
        ("'[1,2]'::json #> '{x}'", None),
        ("'[1,2]'::json #> '{NULL}'", None),
        ("' [1,2]'::json #> '{}'", "[1,2]"),
        ("NULL::json -> 0", None),
        # A path is searched in one pass over the document: all equal keys count, and the first long
        # array of a level, wherever it is, says which element a negative index means.
        ("""'{"a":{"b":1},"a":2}'::json #> '{a,b}'""", "1"),
        ("""'{"a":{"b":1},"a":{"b":3}}'::json #> '{a,b}'""", "3"),
        ("""'{"z":[1,2,3],"a":[5,6]}'::json #> '{a,-1}'""", None),
        ("""'{"z":[1,2,3],"a":[4,5,6,7]}'::json #>> '{a,-1}'""", "6"),
        ("""'{"z":[],"a":[5,6]}'::json #> '{a,-1}'""", "6"),
        ("""'{"a":[1,2],"a":[]}'::json #> '{a,-1}'""", "2"),
        ("'[[1,2],[3,4,5]]'::json #> '{-1,-1}'", "4"),
        # The operator -> searches one level, where a negative index means what it says.
        ("""'{"z":[1,2,3],"a":[5,6]}'::json -> 'a' -> -1""", "6"),
    ],
)
def test_documents(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        ("json_array_length('{}')", "22023", "cannot get array length of a non-array"),
        ("json_array_length('1')", "22023", "cannot get array length of a scalar"),
        # All strings of a document are read when a part is searched.
        ("""'{"a": "\\u0000", "b": 1}'::json -> 'b'""", "22P05", "unsupported Unicode escape sequence"),
        ("""'{"a": "\\ud800", "b": 1}'::json -> 'b'""", "22P02", "invalid input syntax for type json"),
    ],
)
def test_the_error_of_a_document(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
