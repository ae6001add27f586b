"""Geometric types: the bytes of their send functions, and the texts of their output functions."""

from __future__ import annotations

import math

import pytest

from subscriber.postgres.types.registry import equality_of
from tests.type_samples import OIDS, SAMPLES, doubles, from_binary, refused_binary

NAMES = ("point", "lseg", "path", "box", "polygon", "line", "circle")


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("point", doubles(-10, 0.1), "(-10,0.1)"),
        ("point", doubles(math.nan, -math.inf), "(NaN,-Infinity)"),
        ("lseg", doubles(1, 2, 3, 4), "[(1,2),(3,4)]"),
        ("box", doubles(3, 3, 1, 1), "(3,3),(1,1)"),
        ("path", b"\1\0\0\0\2" + doubles(1, 2, 3, 4), "((1,2),(3,4))"),
        ("path", b"\0\0\0\0\1" + doubles(1, 2), "[(1,2)]"),
        ("polygon", b"\0\0\0\3" + doubles(2, 0, 2, 4, 0, 0), "((2,0),(2,4),(0,0))"),
        ("line", doubles(0, -1, 5), "{0,-1,5}"),
        ("line", doubles(0, 0.000002, 5), "{0,2e-06,5}"),
        ("circle", doubles(5, 1, 3), "<(5,1),3>"),
        ("circle", doubles(0, 0, 0), "<(0,0),0>"),
        ("circle", doubles(0, 0, math.nan), "<(0,0),NaN>"),
    ],
)
def test_the_coordinates_are_written_in_the_brackets_of_the_type(name, data, text):
    assert from_binary(name, data) == [text]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("path", b"\2\0\0\0\1" + doubles(0, 0)),
        ("path", b"\0\0\0\0\0"),
        ("path", b"\0\0\0\0\2" + doubles(0, 0)),
        ("polygon", b"\0\0\0\0"),
        ("polygon", b"\xff\xff\xff\xff"),
        ("line", doubles(0, 0, 1)),
        ("line", doubles(0.000001, -0.000001, 1)),
        ("circle", doubles(0, 0, -1)),
    ],
    ids=["closed", "no points", "missing points", "empty polygon", "negative count", "zero", "nearly zero", "radius"],
)
def test_bytes_that_no_server_sends_are_refused(name, bad):
    error = refused_binary(name, SAMPLES[name][1], bad)
    assert (error.sqlstate, error.message) == ("22P03", f"incorrect binary data format for type {name}")


@pytest.mark.parametrize("name", NAMES)
def test_geometric_types_have_no_equality(name):
    """Their operators ``=`` compare areas or tolerate differences."""
    assert not equality_of(OIDS[name]).exists
    assert not equality_of(OIDS[f"{name}[]"]).exists
