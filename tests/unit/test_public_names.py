from __future__ import annotations

import subprocess
import sys

import pytest

import subscriber


@pytest.mark.parametrize("name", subscriber.__all__)
def test_every_public_name_is_there(name):
    assert getattr(subscriber, name) is not None


def test_public_names_are_sorted():
    assert sorted(subscriber.__all__) == subscriber.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'emulte'"):
        subscriber.emulte  # noqa: B018


def test_help_does_not_wait_for_spark():
    code = (
        "import sys; from subscriber.cli import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
