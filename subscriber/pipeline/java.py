"""Finds the Java installation that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from subscriber.errors import UsageError

OLDEST_JAVA: Final = 17


def find_java() -> Path:
    """Return the JAVA_HOME to use: that of the environment, else that of the ``java`` on PATH, else
    an installed one.

    Raises:
        UsageError: there is no Java of version 17 or newer.
    """
    given = os.environ.get("JAVA_HOME")
    candidates = [Path(given)] if given else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    candidates += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    candidates += [Path("/opt/homebrew/opt/openjdk/libexec/openjdk.jdk/Contents/Home")]
    for home in candidates:
        version = _java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
    raise UsageError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found",
        hint="Install it (Debian: apt install openjdk-17-jre-headless; macOS: brew install openjdk), or set JAVA_HOME.",
    )


def _java_version(java: Path) -> int | None:
    if not java.exists():
        return None
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match[1]) if match else None
