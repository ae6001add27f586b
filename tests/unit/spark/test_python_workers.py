"""The Python of Spark's processes, and the package that they get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from subscriber.base import fork_client
from subscriber.spark.python_workers import package_archive, worker_python


@pytest.fixture
def no_choice(monkeypatch):
    """The user has not set PYSPARK_PYTHON."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def test_spark_uses_this_python_while_the_block_runs(no_choice, tmp_path):
    with worker_python(tmp_path, tmp_path / "spark.log", local=False):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.mark.parametrize("local", [True, False])
def test_the_users_choice_is_left_alone(monkeypatch, tmp_path, local):
    monkeypatch.setenv("PYSPARK_PYTHON", "/their/python")
    with worker_python(tmp_path, tmp_path / "spark.log", local=local):
        assert os.environ["PYSPARK_PYTHON"] == "/their/python"
    assert os.environ["PYSPARK_PYTHON"] == "/their/python"


def test_the_setting_is_removed_after_an_error(no_choice, tmp_path):
    with pytest.raises(ZeroDivisionError), worker_python(tmp_path, tmp_path / "spark.log", local=True):
        raise ZeroDivisionError
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_local_python_does_not_see_sparks_zip_and_gets_its_arguments(no_choice, tmp_path):
    show = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], sys.argv[1:]]))"
    places = ["/spark/python/lib/pyspark.zip", "/a place", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/*"]
    with worker_python(tmp_path, tmp_path / "spark.log", local=True):
        program = os.environ["PYSPARK_PYTHON"]
        assert program != sys.executable
        answer = subprocess.run(
            [program, "-I", "-c", show, "an argument", "*"],
            env={"PYTHONPATH": ":".join(places), "PATH": "/bin:/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert json.loads(answer.stdout) == ["/a place:/*", ["an argument", "*"]]


def test_a_local_python_asks_for_what_imports_most(no_choice, tmp_path, monkeypatch):
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\necho "$@"\n')
    shown.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(shown))
    (tmp_path / "scratch").mkdir()
    with worker_python(tmp_path / "scratch", tmp_path / "spark.log", local=True):
        program = os.environ["PYSPARK_PYTHON"]
    client, socket = Path(fork_client.__file__), tmp_path / "scratch" / "fork-server"
    for arguments, expected in (
        ("-m pyspark.daemon pyspark.worker", f"-I -S {client} {socket} -m pyspark.daemon pyspark.worker"),
        ("-m pyspark.other 1", "-m pyspark.other 1"),
    ):
        printed = subprocess.run([program, *arguments.split()], capture_output=True, text=True, check=True).stdout
        assert printed.strip() == expected


def test_the_archive_has_the_modules_and_the_data_of_the_package(tmp_path):
    archive = package_archive(tmp_path / "subscriber.zip")
    with zipfile.ZipFile(archive) as zipped:
        names = zipped.namelist()
    assert archive.parent == tmp_path
    assert {"subscriber/__init__.py", "subscriber/spark/python_workers.py"} <= set(names)
    assert {os.path.splitext(name)[1] for name in names} == {".py", ".tsv"}
    assert len(names) == len(set(names))
