"""Child processes import this package, and nothing from the current directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from subscriber.base import interpreter
from subscriber.base.interpreter import search_path

ROOT = Path(interpreter.__file__).resolve().parents[2]


@pytest.mark.parametrize("inherited", [None, "", os.pathsep, f"{os.pathsep}/a{os.pathsep}{os.pathsep}/b"])
def test_a_child_process_does_not_import_from_the_current_directory(inherited, tmp_path):
    """`python -m` would look there first, and so does an empty entry of PYTHONPATH"""
    (tmp_path / "json.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "subscriber.py").write_text("raise SystemExit('not ours')")
    environment = {**os.environ, "PYTHONPATH": inherited} if inherited is not None else dict(os.environ)
    if inherited is None:
        environment.pop("PYTHONPATH", None)
    environment.pop("PYTHONSAFEPATH", None)
    answer = subprocess.run(
        [sys.executable, "-m", "subscriber.base.failpoints"],
        env={**environment, **search_path(environment)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_a_checkout_is_searched_before_the_installed_packages():
    places = search_path({"PYTHONPATH": f"/a{os.pathsep}{ROOT}"})["PYTHONPATH"].split(os.pathsep)
    assert places == [str(ROOT), "/a"]


def test_the_folder_of_an_installed_package_is_not_searched_before_the_standard_library(monkeypatch):
    monkeypatch.setattr(interpreter, "__file__", "/lib/python3/site-packages/subscriber/base/interpreter.py")
    assert search_path({"PYTHONPATH": "/a"})["PYTHONPATH"] == "/a"
