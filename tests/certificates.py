"""Certificates of authorities that a test makes, by the openssl program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """A certification authority; ``certificate`` is its own certificate, in PEM format."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        _openssl(
            "req", "-x509", *_KEY, "-subj", f"/CN={name}", "-keyout", self._key, "-out", self._certificate, "-days", 9
        )

    @property
    def certificate(self) -> str:
        return self._certificate.read_text()

    def sign(self, common_name: str) -> tuple[str, str]:
        """A new certificate for 127.0.0.1 and this name, and its key."""
        request, key, certificate, names = (self._folder / f"new.{end}" for end in ("csr", "key", "crt", "names"))
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", "-new", *_KEY, "-subj", f"/CN={common_name}", "-keyout", key, "-out", request)
        signing = ("-CA", self._certificate, "-CAkey", self._key, "-CAcreateserial", "-days", 9, "-extfile", names)
        _openssl("x509", "-req", "-in", request, *signing, "-out", certificate)
        return certificate.read_text(), key.read_text()


def private(path: Path, text: str) -> None:
    """Write a file that only its owner may read. Its owner stays the same if it exists."""
    path.touch(0o600)
    os.chmod(path, 0o600)
    path.write_text(text)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)
