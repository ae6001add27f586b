"""Suggestions for misspelt names."""

from __future__ import annotations

import pytest

from subscriber.base.suggestions import closest, perhaps

OPTIONS = ("copy_data", "create_slot", "create_tables", "enabled", "slot_name")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("copy_dat", "copy_data"),
        ("copydata", "copy_data"),
        ("Enabled", "enabled"),
        ("create_slots", "create_slot"),
        ("speed", None),
        ("connect", None),
        ("", None),
    ],
)
def test_the_closest_name_is_found_whatever_its_case(name, found):
    assert closest(name, OPTIONS) == found


def test_without_names_there_is_no_suggestion():
    assert closest("shop", []) is None


def test_the_hint_is_in_postgresqls_words():
    assert perhaps("publication", "shopp", ["shop", "stock"]) == 'Perhaps you meant the publication "shop".'
    assert perhaps("publication", "orders", ["shop"]) is None


def test_a_name_keeps_its_own_case():
    assert closest("Shopp", ["SHOP", "other"]) == "SHOP"
