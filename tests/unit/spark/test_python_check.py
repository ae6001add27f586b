from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from subscriber.base.errors import UsageError
from subscriber.spark.python_check import check_python, check_python_of_spark


def executable(folder: Path, status: int) -> str:
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_the_package_is_refused_with_the_one_to_name(tmp_path):
    with pytest.raises(UsageError, match="which cannot import the package subscriber") as caught:
        check_python(executable(tmp_path, 1))
    assert f'PYSPARK_PYTHON="{sys.executable}"' in str(caught.value.hint)


def test_a_python_of_the_path_is_looked_for_there(tmp_path, monkeypatch):
    executable(tmp_path, 1)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UsageError, match=str(tmp_path)):
        check_python("python3")


def test_another_python_with_the_package_and_this_one_are_accepted(tmp_path):
    check_python(executable(tmp_path, 0))
    check_python(sys.executable)


def test_without_a_session_and_without_such_a_program_nothing_is_refused():
    check_python_of_spark()
    check_python("python-that-is-not-there")


def test_a_session_of_spark_connect_is_not_asked_for_a_context_that_it_lacks(monkeypatch):
    """Its server runs the source, and nothing is known of that one's Python."""
    monkeypatch.setattr(SparkSession, "getActiveSession", object)
    check_python_of_spark()
