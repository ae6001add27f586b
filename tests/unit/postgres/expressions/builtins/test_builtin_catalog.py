"""The catalogs in memory: what a name, a signature or an operator finds."""

from __future__ import annotations

import pytest

from subscriber.postgres.expressions.builtin_catalog import Catalog, catalog_of, recorded_lines

BOOL, INT8, INT4, TEXT = 16, 20, 23, 25
OWN = "\n".join(  # noqa: FLY002 - a row a line
    [
        "type\t16500\tpublic\tmood\te\tE\t0\t0\t0\t0\t0\t-1\t0\t0",
        "type\t16502\tother\tint4\tb\tU\t0\t0\t0\t0\t0\t-1\t0\t0",
        "function\t16510\tpublic\tlower\t25\t25\tf\ti\t0\t0\t0\t\t",
        "function\t16511\tpublic\tgone\t99999\t16\tf\ti\t0\t0\t0\t\t",
        "operator\t16512\tpublic\t=\t25\t25\t16\t16510\t0",
        "operator\t16513\tpublic\t===\t25\t25\t16\t16510\t0",
        "collation\t16514\tpublic\told_spelling",
    ]
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return catalog_of(180000)


@pytest.fixture(scope="module")
def with_own() -> Catalog:
    return catalog_of(180000, OWN, ("public", "other"))


def test_pg_catalog_is_searched_first_unless_the_search_path_names_it():
    assert catalog_of(180000).search_path == ("pg_catalog", "public")
    assert catalog_of(180000, "", ("a", "pg_catalog")).search_path == ("a", "pg_catalog")


def test_a_type_is_found_by_its_name_and_schema(with_own):
    found = with_own.find_type(None, "int4")
    assert found is not None
    assert (found.oid, found.category, found.array) == (INT4, "N", 1007)
    assert with_own.find_type("other", "int4") == with_own.types[16502]
    assert with_own.find_type(None, "mood") == with_own.types[16500]
    assert with_own.find_type("public", "int4") is None
    assert with_own.find_type(None, "nothing") is None


def test_the_schema_that_comes_first_hides_the_others():
    first = catalog_of(180000, OWN, ("other", "pg_catalog"))
    found = first.find_type(None, "int4")
    assert found is not None
    assert found.oid == 16502


def test_a_collation_is_found_by_name_and_by_oid(with_own):
    assert with_own.find_collation(None, "C") == 950
    assert with_own.find_collation("public", "old_spelling") == 16514
    assert with_own.find_collation("pg_catalog", "old_spelling") is None
    assert (with_own.collation_name(950), with_own.collation_name(1)) == ("C", None)


def test_functions_come_with_the_place_of_their_schema(with_own):
    both = {place: row.oid for place, row in with_own.find_functions(None, "lower") if row.arguments == (TEXT,)}
    assert both == {0: 870, 1: 16510}
    assert [row.oid for _, row in with_own.find_functions("public", "lower")] == [16510]
    assert with_own.find_functions(None, "nothing") == []


def test_of_operators_with_the_same_types_the_first_schema_has_it(with_own):
    def equal(schema: str | None) -> list[int]:
        found = with_own.find_operators(schema, "=", prefix=False)
        return [one.oid for one in found if (one.left, one.right) == (TEXT, TEXT)]

    assert equal(None) == [98]
    assert equal("public") == [16512]


def test_prefix_operators_have_no_left_type(catalog):
    prefix = catalog.find_operators(None, "-", prefix=True)
    assert {one.left for one in prefix} == {0}
    assert INT4 in {one.right for one in prefix}
    assert 0 not in {one.left for one in catalog.find_operators(None, "-", prefix=False)}


def test_a_signature_has_the_schema_unless_it_is_pg_catalog(with_own):
    assert with_own.signature(with_own.functions[870]) == "lower(text)"
    assert with_own.signature(with_own.functions[16510]) == "public.lower(text)"
    assert with_own.signature(with_own.functions[16511]) == "public.gone(99999)"
    assert with_own.function_of("lower(text)").oid == 870
    assert with_own.function_of("public.lower(text)").oid == 16510


def test_casts_are_found_by_their_types(catalog):
    cast = catalog.casts[INT4, INT8]
    assert (catalog.signature(catalog.functions[cast.function]), cast.context, cast.method) == ("int8(int4)", "i", "f")
    assert catalog.casts[TEXT, 1043].method == "b"
    assert (TEXT, INT4) not in catalog.casts


@pytest.mark.parametrize(("name", "strategy"), [("<", 1), ("<=", 2), ("=", 3), (">=", 4), (">", 5), ("<>", 6)])
def test_an_operator_has_its_strategy_in_the_btree_family(catalog, name, strategy):
    """6 stands for ``<>``, which is the negator of ``=``."""
    (oid,) = [
        one.oid for one in catalog.find_operators(None, name, prefix=False) if (one.left, one.right) == (INT4, INT4)
    ]
    family = catalog.default_family(INT4)
    assert (family, strategy) in catalog.interpretations(oid)


def test_an_operator_without_an_order_has_no_interpretation(catalog):
    (oid,) = [one.oid for one in catalog.find_operators(None, "@>", prefix=False) if one.left == one.right == 3802]
    assert catalog.interpretations(oid) == set()


def test_a_family_has_operators_for_pairs_of_types(catalog):
    family = catalog.default_family(INT4)
    assert family is not None
    found = catalog.family_operator(family, 1, INT4, INT8)
    assert found is not None
    assert (found.name, found.left, found.right) == ("<", INT4, INT8)
    assert catalog.family_operator(family, 1, INT4, TEXT) is None
    assert catalog.default_family(600) is None  # point


@pytest.mark.parametrize(
    ("version", "recorded"),
    [(90600, 150000), (150004, 150000), (170002, 160000), (180000, 180000), (990000, 180000)],
)
def test_a_version_that_is_not_recorded_uses_the_newest_before_it(version, recorded):
    found = catalog_of(version)
    assert found.functions == catalog_of(recorded).functions
    assert found.major == version // 10000


def test_a_line_without_versions_is_in_every_version():
    newer = "function\t" + str(next(row.oid for _, row in catalog_of(180000).find_functions(None, "crc32")))
    assert any(line.startswith(newer + "\t") for line in recorded_lines(18))
    assert not any(line.startswith(newer + "\t") for line in recorded_lines(15))
    boolean = "type\t16\tpg_catalog\tbool\t"
    assert all(any(line.startswith(boolean) for line in recorded_lines(major)) for major in (15, 16, 18))
