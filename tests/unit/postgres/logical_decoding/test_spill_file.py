"""Changes on disk: in their order, a chunk at a time, without an open file in between."""

from __future__ import annotations

import errno
import os

import pytest

from subscriber.base.errors import OutputPluginError
from subscriber.postgres.logical_decoding.reorder_txn import SpillFile


@pytest.mark.parametrize("chunk", [1, 100, 1_000_000])
def test_items_are_read_in_the_order_in_which_they_were_appended(chunk, tmp_path):
    file = SpillFile(str(tmp_path / "f"), 700)
    file.append([(number, "x" * number) for number in range(50)])
    file.append([(number, "x" * number) for number in range(50, 60)])
    assert [number for number, _ in file.read(chunk)] == list(range(60))


def test_no_file_is_open_between_two_items(tmp_path):
    """bounded_memory."""
    file = SpillFile(str(tmp_path / "f"), 700)
    file.append([(1,), (2,)])
    before = len(os.listdir("/proc/self/fd"))
    items = file.read(1)
    assert next(items) == (1,)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_deleted_file_is_gone(tmp_path):
    file = SpillFile(str(tmp_path / "f"), 700)
    file.append([(1,)])
    file.delete()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "sqlstate"), [(errno.ENOSPC, "53100"), (errno.EIO, "58030")])
def test_a_file_that_cannot_be_written_is_postgresqls_error(number, sqlstate, tmp_path, monkeypatch):
    def fail(*_arguments, **_named):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("builtins.open", fail)
    with pytest.raises(OutputPluginError, match=r"^could not write to data file for XID 700: ") as caught:
        SpillFile(str(tmp_path / "f"), 700).append([(1,)])
    assert caught.value.sqlstate == sqlstate


def test_a_file_that_cannot_be_read_is_postgresqls_error(tmp_path):
    with pytest.raises(OutputPluginError, match=r"^could not read from data file for XID 700: "):
        next(SpillFile(str(tmp_path / "missing"), 700).read(1))
