"""Arrays: the examples of the manual (9.19), bounds, NULL and errors."""

from __future__ import annotations

import pytest

from tests.filter_expressions import failure, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # The table of array operators.
        ("ARRAY[1,4,3] @> ARRAY[3,1,3]", "t"),
        ("ARRAY[2,2,7] <@ ARRAY[1,7,4,2,6]", "t"),
        ("ARRAY[1,4,3] && ARRAY[2,1]", "t"),
        ("ARRAY[1,4] && ARRAY[2,3]", "f"),
        ("ARRAY[1,2,3] || ARRAY[4,5,6,7]", "{1,2,3,4,5,6,7}"),
        ("ARRAY[1,2,3] || ARRAY[[4,5,6],[7,8,9]]", "{{1,2,3},{4,5,6},{7,8,9}}"),
        ("3 || ARRAY[4,5,6]", "{3,4,5,6}"),
        ("ARRAY[4,5,6] || 7", "{4,5,6,7}"),
        ("ARRAY[1.1,2.1,3.1]::int[] = ARRAY[1,2,3]", "t"),
        # The table of array functions.
        ("array_append(ARRAY[1,2], 3)", "{1,2,3}"),
        ("array_cat(ARRAY[1,2,3], ARRAY[4,5])", "{1,2,3,4,5}"),
        ("array_dims(ARRAY[[1,2,3], [4,5,6]])", "[1:2][1:3]"),
        ("array_fill(11, ARRAY[2,3])", "{{11,11,11},{11,11,11}}"),
        ("array_fill(7, ARRAY[3], ARRAY[2])", "[2:4]={7,7,7}"),
        ("array_length(ARRAY[1,2,3], 1)", "3"),
        ("array_length(ARRAY[]::int[], 1)", None),
        ("array_length(ARRAY['text'], 2)", None),
        ("array_lower('[0:2]={1,2,3}'::integer[], 1)", "0"),
        ("array_ndims(ARRAY[[1,2,3], [4,5,6]])", "2"),
        ("array_position(ARRAY['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'], 'mon')", "2"),
        ("array_position(ARRAY[1,2,1], 1, 2)", "3"),
        ("array_positions(ARRAY['A','A','B','A'], 'A')", "{1,2,4}"),
        ("array_prepend(1, ARRAY[2,3])", "{1,2,3}"),
        ("array_remove(ARRAY[1,2,3,2], 2)", "{1,3}"),
        ("array_replace(ARRAY[1,2,5,4], 5, 3)", "{1,2,3,4}"),
        ("array_reverse(ARRAY[[1,2],[3,4],[5,6]])", "{{5,6},{3,4},{1,2}}"),
        ("array_upper(ARRAY[1,8,3,7], 1)", "4"),
        ("cardinality(ARRAY[[1,2],[3,4]])", "4"),
        ("cardinality(ARRAY[]::int[])", "0"),
        ("trim_array(ARRAY[1,2,3,4,5,6], 2)", "{1,2,3,4}"),
        # Order: element by element, then the length, then the dimensions and their bounds.
        ("ARRAY[1,3] > ARRAY[1,2,3]", "t"),
        ("ARRAY[1,2] < ARRAY[1,2,0]", "t"),
        ("ARRAY[1,2] < ARRAY[[1],[2]]", "t"),
        ("'[2:3]={1,2}'::int[] > ARRAY[1,2]", "t"),
        ("'[2:3]={1,2}'::int[] = ARRAY[1,2]", "f"),
        ("btarraycmp(ARRAY[1], ARRAY[2])", "-1"),
        ("array_larger(ARRAY[1], ARRAY[2])", "{2}"),
        ("array_smaller(ARRAY[1], ARRAY[2])", "{1}"),
        # NULL equals NULL in a comparison of arrays and is greater than all values ...
        ("ARRAY[1,NULL] = ARRAY[1,NULL]", "t"),
        ("ARRAY[NULL::int] > ARRAY[1]", "t"),
        # ... but no array contains NULL.
        ("ARRAY[1,NULL] @> ARRAY[NULL::int]", "f"),
        ("ARRAY[NULL::int] && ARRAY[NULL::int]", "f"),
        ("'{}'::int[] <@ ARRAY[1]", "t"),
        ("array_position(ARRAY[1,NULL], NULL)", "2"),
        ("array_remove(ARRAY[1,NULL], NULL)", "{1}"),
        ("array_replace(ARRAY[1,NULL], NULL, 0)", "{1,0}"),
        # NULL in place of an array is an empty array for the functions that add to one.
        ("array_append(NULL::int[], 1)", "{1}"),
        ("array_prepend(NULL::int, NULL::int[])", "{NULL}"),
        ("array_cat(NULL::int[], ARRAY[1])", "{1}"),
        ("array_cat(NULL::int[], NULL)", None),
        ("array_position(NULL::int[], 1)", None),
        ("array_positions(NULL::int[], 1)", None),
        ("array_length(NULL::int[], 1)", None),
        # Bounds.
        ("array_prepend(0, '[5:6]={1,2}'::int[])", "[5:7]={0,1,2}"),
        ("array_append('[5:6]={1,2}'::int[], 3)", "[5:7]={1,2,3}"),
        ("array_upper('[0:2]={1,2,3}'::int[], 2)", None),
        ("array_ndims('{}'::int[])", None),
        ("array_dims('{}'::int[])", None),
        ("array_fill(1, '{}'::int[])", "{}"),
        ("array_fill(NULL::int, ARRAY[2])", "{NULL,NULL}"),
        ("array_remove(ARRAY[1], 1)", "{}"),
        ("trim_array(ARRAY[1], 1)", "{}"),
        ("array_position('[5:6]={1,2}'::int[], 2)", "6"),
        ("array_append('[2147483645:2147483645]={1}'::int[], 1)", "[2147483645:2147483646]={1,1}"),
    ],
)
def test_arrays(expression, expected):
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "sqlstate", "message"),
    [
        (
            "array_position(ARRAY[[1]], 1)",
            "0A000",
            "searching for elements in multidimensional arrays is not supported",
        ),
        ("array_position(ARRAY[1], 1, NULL)", "22004", "initial position must not be null"),
        (
            "array_remove(ARRAY[[1]], 1)",
            "0A000",
            "removing elements from multidimensional arrays is not supported",
        ),
        ("array_append(ARRAY[[1]], 1)", "22000", "argument must be empty or one-dimensional array"),
        # The last subscript of an array is 2147483646.
        ("array_append('[2147483646:2147483646]={1}'::int[], 1)", "54000", "array lower bound is too large"),
        ("'[2147483645:2147483646]={1,2}'::int[] || ARRAY[3]", "54000", "array lower bound is too large"),
        ("array_prepend(1, '[-2147483648:-2147483648]={1}'::int[])", "22003", "integer out of range"),
        ("array_cat(ARRAY[[1,2]], ARRAY[[1]])", "2202E", "cannot concatenate incompatible arrays"),
        ("array_cat(ARRAY[[[1]]], ARRAY[1])", "2202E", "cannot concatenate incompatible arrays"),
        ("trim_array(ARRAY[1,2], 3)", "2202E", "number of elements to trim must be between 0 and 2"),
        ("trim_array(ARRAY[1,2], -1)", "2202E", "number of elements to trim must be between 0 and 2"),
        ("array_fill(1, NULL)", "22004", "dimension array or low bound array cannot be null"),
        ("array_fill(1, ARRAY[NULL::int])", "22004", "dimension values cannot be null"),
        ("array_fill(1, ARRAY[[1]])", "2202E", "wrong number of array subscripts"),
        ("array_fill(1, ARRAY[1], ARRAY[1,1])", "2202E", "wrong number of array subscripts"),
        (
            "array_fill(1, ARRAY[1,1,1,1,1,1,1])",
            "54000",
            "number of array dimensions (7) exceeds the maximum allowed (6)",
        ),
        ("array_fill(1, ARRAY[2147483647])", "54000", "array size exceeds the maximum allowed (134217727)"),
        ("array_fill(1, ARRAY[1], ARRAY[2147483647])", "54000", "array lower bound is too large"),
    ],
)
def test_the_error_of_an_array(expression, sqlstate, message):
    assert failure(expression) == (sqlstate, message)
