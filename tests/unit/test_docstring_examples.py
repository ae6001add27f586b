"""The examples of docstrings print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)


def modules_with_examples() -> list[str]:
    files = sorted((ROOT / "subscriber").rglob("*.py"))
    return [
        ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if EXAMPLE.search(file.read_text())
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_docstring_print_what_they_say(name):
    failed, examples = doctest.testmod(importlib.import_module(name))
    assert examples
    assert not failed
