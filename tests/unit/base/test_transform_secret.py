"""The secret of hashes: read from a file, and known by its fingerprint."""

from __future__ import annotations

import os

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.transform_secret import secret_fingerprint, transform_secret

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def file(tmp_path, monkeypatch):
    made = tmp_path / "secret"
    made.write_bytes(SECRET + b"\n")
    monkeypatch.setenv("SUBSCRIBER_TRANSFORM_SECRET_FILE", str(made))
    return made


def test_the_secret_is_the_content_of_the_file_without_its_last_line_feed(file):
    assert transform_secret() == SECRET
    file.write_bytes(SECRET + b"\r\n")
    assert transform_secret() == SECRET
    file.write_bytes(SECRET)
    assert transform_secret() == SECRET


def test_the_fingerprint_is_that_of_the_secret_and_does_not_show_it(file):
    known = secret_fingerprint()
    assert transform_secret(known) == SECRET
    assert len(known) == 16
    assert known.encode() not in SECRET


def test_another_secret_is_refused_and_the_earlier_one_is_accepted_again(file):
    known = secret_fingerprint()
    file.write_bytes(b"another secret of another file")
    with pytest.raises(UsageError, match="is not the one with which the hashes in the target were made") as caught:
        transform_secret(known)
    assert "another secret" not in str(caught.value)
    file.write_bytes(SECRET)
    os.utime(file, ns=(1, 1))
    assert transform_secret(known) == SECRET


def test_a_secret_that_is_missing_short_or_not_readable_is_refused_with_what_to_do(file, monkeypatch):
    file.write_bytes(b"short\n")
    with pytest.raises(UsageError, match="is too short: it has 5 of at least 16 bytes"):
        transform_secret()
    file.unlink()
    with pytest.raises(UsageError, match=r"could not read the file .* No such file"):
        transform_secret()
    monkeypatch.delenv("SUBSCRIBER_TRANSFORM_SECRET_FILE")
    with pytest.raises(UsageError, match="needs a secret") as caught:
        transform_secret()
    assert "SUBSCRIBER_TRANSFORM_SECRET_FILE" in (caught.value.hint or "")
