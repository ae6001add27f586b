"""The Java installation that Spark runs on, among programs that only print a version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from subscriber.base.errors import UsageError
from subscriber.spark import session
from subscriber.spark.session import find_java

MakeJava = Callable[[str, str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch) -> MakeJava:
    """A function that installs a program ``java`` that prints what it is given."""
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def make(name: str, says: str) -> Path:
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
        program.chmod(0o755)
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    ("says", "suits"),
    [
        ('openjdk version "17.0.11" 2024-04-16', True),
        ('java version "21" 2023-09-19 LTS', True),
        ('openjdk version "11.0.2" 2019-01-15', False),
        ('java version "1.8.0_391"', False),
        ("Error: no JVM", False),
    ],
)
def test_the_environments_java_is_taken_if_it_is_new_enough(install, monkeypatch, says, suits):
    home = install("given", says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    newer = install("on-path", 'openjdk version "25"')
    monkeypatch.setenv("PATH", str(newer / "bin") + ":/bin")
    assert find_java() == (home if suits else newer)


def test_a_java_on_path_is_found_through_its_link(install, monkeypatch, tmp_path):
    """/usr/bin/java is a link to the installation."""
    home = install("jdk", 'openjdk version "17"')
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", f"{links}:/bin")
    assert find_java() == home


def test_without_a_new_java_it_is_said_what_to_install(install, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(install("old", 'openjdk version "11"')))
    monkeypatch.setattr(session, "OLDEST_JAVA", 99)
    with pytest.raises(UsageError, match=r"^Spark needs Java 99 or newer, and none was found$") as raised:
        find_java()
    assert "JAVA_HOME" in (raised.value.hint or "")


def test_a_java_home_without_a_java_is_passed_over(install, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "removed"))
    home = install("jdk", 'openjdk version "17"')
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin")
    assert find_java() == home
