"""The sizes of rows and keys in MariaDB. ``tests/conformance/test_limits.py`` compares them with
the server.
"""

from __future__ import annotations

import pytest

from subscriber.postgres.schema.shape import ForeignKey, UniqueKey
from subscriber.targets.mariadb.ddl import fit, key_bytes
from tests.table_shapes import column_shape, table_shape

TEXT = " CHARACTER SET utf8mb4 COLLATE c"


def fitted(declared: list[str], *, key: tuple[str, ...] = (), **properties):
    names = [f"c{place}" for place in range(len(declared))]
    columns = tuple(column_shape(name, 25, "text") for name in names)
    found = fit(table_shape("public", "t", columns, key, **properties), dict(zip(names, declared, strict=True)))
    return list(found.declared.values()), found


@pytest.mark.parametrize(
    ("declared", "size"),
    [
        ("INT", 4),
        ("BIGINT AUTO_INCREMENT", 8),
        (f"VARCHAR(10){TEXT}", 40),
        ("VARBINARY(255)", 255),
        ("DECIMAL(10,2)", 5),
        ("DECIMAL(65,30)", 30),
        ("DECIMAL(4,0)", 2),
        ("LONGTEXT", 0),
    ],
)
def test_a_column_of_a_key_has_the_bytes_of_its_longest_value(declared, size):
    assert key_bytes(declared) == size


def test_a_table_that_fits_is_left_as_it_is():
    declared = ["INT", f"VARCHAR(255){TEXT}", "LONGBLOB"]
    kept, found = fitted(declared, key=("c0",))
    assert kept == declared
    assert (found.differences, found.obstacle) == ((), None)


def test_the_longest_texts_of_a_row_are_stored_apart_the_last_ones_first():
    kept, found = fitted(["INT", *[f"VARCHAR(255){TEXT}"] * 65], key=("c0",))
    assert kept == ["INT", *[f"VARCHAR(255){TEXT}"] * 64, f"LONGTEXT{TEXT}"]
    (difference,) = found.differences
    assert (difference.kind, difference.object, difference.instead) == ("row size", "c65", "LONGTEXT")
    assert difference.reason == (
        'column "c65" is LONGTEXT and not VARCHAR(255), so that a row of the table is not too large'
    )


def test_a_short_text_takes_less_of_a_page_if_it_is_declared_longer():
    kept, found = fitted(["INT", *[f"VARCHAR(63){TEXT}"] * 33], key=("c0",))
    assert kept == ["INT", *[f"VARCHAR(63){TEXT}"] * 31, *[f"VARCHAR(64){TEXT}"] * 2]
    assert found.obstacle is None


def test_columns_that_have_no_smaller_type_are_an_obstacle():
    _, found = fitted(["INT", *["BIGINT"] * 998], key=("c0",))
    assert found.obstacle == "a row of it needs 8,131 bytes of a page, and 8,125 are possible"
    _, found = fitted([f"VARCHAR(768){TEXT}"] * 33, unique=tuple(UniqueKey((f"c{place}",)) for place in range(33)))
    assert str(found.obstacle).startswith("a row of it has up to 101,")


def test_a_table_whose_rows_may_be_too_large_is_told():
    _, found = fitted([f"LONGTEXT{TEXT}"] * 198)
    assert [one.kind for one in found.differences] == ["large row"]
    assert fitted([f"LONGTEXT{TEXT}"] * 190)[1].differences == ()


@pytest.mark.parametrize("properties", [{"key": ("c0", "c1")}, {"unique": (UniqueKey(("c0", "c1")),)}])
def test_only_the_longest_columns_of_a_key_are_shortened(properties):
    kept, found = fitted(["VARBINARY(3000)", "INT", "VARBINARY(255)"], **properties)
    assert kept == ["VARBINARY(3000)", "INT", "VARBINARY(255)"]
    kept, found = fitted([f"VARCHAR(700){TEXT}", f"VARCHAR(90){TEXT}"], **properties)
    assert kept == [f"VARCHAR(678){TEXT}", f"VARCHAR(90){TEXT}"]
    assert [one.instead for one in found.differences] == ["VARCHAR(678)", "VARCHAR(90)"]
    assert found.differences[0].reason == (
        'column "c0" is VARCHAR(678), because there are no keys of unlimited length; a longer value is refused'
        " (22001), and stops the subscription"
    )


def test_a_column_that_refers_to_a_key_has_its_limit_too():
    reference = ForeignKey(("c0",), "public", "p", ("id",))
    (difference,) = fitted([f"VARCHAR(255){TEXT}"], foreign_keys=(reference,))[1].differences
    assert (difference.kind, difference.ddl) == ("key length", "c0 text")
