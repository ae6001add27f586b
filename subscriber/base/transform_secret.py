"""The secret with which the option ``transform = '… = sha256'`` computes hashes.

It is the content of the file that ``SUBSCRIBER_TRANSFORM_SECRET_FILE`` names, without a line feed
at its end. Every process reads the file itself, so the secret is in no task of Spark, no catalog
and no log. The catalog has its fingerprint, by which another secret is refused: a value would have
two hashes in one table.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from pathlib import Path
from typing import Final

from subscriber.base.errors import UsageError
from subscriber.base.settings import TRANSFORM_SECRET_FILE, Settings

LEAST_BYTES: Final = 16
_FINGERPRINT_OF: Final = b"subscriber: fingerprint of the secret of the option transform"
_DIGITS: Final = 16


def transform_secret(fingerprint: str = "") -> bytes:
    """The secret, which must have this fingerprint unless that is empty; UsageError otherwise."""
    name = Settings.from_environment().transform_secret_file
    if not name:
        raise UsageError(
            "the transform sha256 needs a secret",
            hint=f"Set {TRANSFORM_SECRET_FILE} to a file with at least {LEAST_BYTES} random bytes, for each process of the run.",
        )
    file = Path(name)
    try:
        found = file.stat()
        secret, known = _read(file, found.st_mtime_ns, found.st_size)
    except OSError as error:
        raise UsageError(
            f'could not read the file "{name}" that {TRANSFORM_SECRET_FILE} names: {error.strerror}',
            hint="Every process of the run must be able to read it, also on the machines of a Spark cluster.",
        ) from None
    if len(secret) < LEAST_BYTES:
        raise UsageError(
            f'the secret in the file "{name}" is too short: it has {len(secret)} of at least {LEAST_BYTES} bytes',
            hint="Write random bytes to it, such as those of: openssl rand -hex 32",
        )
    if fingerprint not in ("", known):
        raise UsageError(
            f'the secret in the file "{name}" is not the one with which the hashes in the target were made',
            hint="Bring the earlier file back. For another secret: DISABLE the subscription, SET (transform = '...') again,"
            " REFRESH the tables and ENABLE it.",
        )
    return secret


def secret_fingerprint() -> str:
    """What the catalog has of the secret."""
    return _fingerprint(transform_secret())


@lru_cache(maxsize=8)
def _read(file: Path, _modified: int, _size: int) -> tuple[bytes, str]:
    secret = file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
    return secret, _fingerprint(secret)


def _fingerprint(secret: bytes) -> str:
    return hmac.digest(secret, _FINGERPRINT_OF, "sha256").hex()[:_DIGITS]
