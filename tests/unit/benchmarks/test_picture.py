"""The picture is well-formed, and a dot is where its ratio is."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from benchmarks.picture import THEMES, TICKS, picture, place

RESULTS = {
    "workloads": {
        "W1": {"what": "one & only", "subscribers": {"native": {}, "sqlite": {"ratio": 0.5}, "duckdb": {"ratio": 2.0}}},
        "W2": {"what": "two", "subscribers": {"native": {}, "sqlite": {"failure": "did not finish within 9 s"}}},
    }
}


def test_places_are_logarithmic():
    assert place(0.1) - place(0.01) == pytest.approx(place(1.0) - place(0.1), abs=0.2)


def test_a_ratio_beyond_the_scale_is_at_its_end():
    assert place(0) == place(TICKS[0])
    assert place(1000) == place(TICKS[-1])


@pytest.mark.parametrize("theme", THEMES)
def test_a_picture_has_a_dot_for_every_ratio_and_a_sentence_for_every_failure(theme):
    root = ET.fromstring(picture(RESULTS, THEMES[theme]))
    tag = "{http://www.w3.org/2000/svg}"
    dots = [(float(dot.attrib["cx"]), dot.get("fill")) for dot in root.iter(f"{tag}circle")]
    sqlite, duckdb = THEMES[theme].subscribers[:2]
    assert dots[2:] == [(place(0.5), sqlite), (place(2.0), duckdb)]  # the legend has two
    words = [text.text for text in root.iter(f"{tag}text")]
    assert {"one & only", "0.50", "2.00", "sqlite: did not finish within 9 s"} <= set(words)
