"""Arrow files, and the errors of files."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest

from subscriber.base.errors import JournalUnavailable
from subscriber.stream.journal.storage import (
    as_file,
    is_out_of_space,
    translating_read_errors,
    translating_write_errors,
    write_arrow,
)

TABLE = pa.table({"a": [1, 2]})


def test_a_table_is_read_back_from_a_file(tmp_path):
    with open(tmp_path / "x.arrow", "wb") as file:
        write_arrow(file, TABLE)
    assert pa.ipc.open_file(pa.memory_map(str(tmp_path / "x.arrow"))).read_all() == TABLE
    assert pa.ipc.open_file(as_file(TABLE)).read_all() == TABLE


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EACCES, False)])
def test_a_full_disk_is_told_from_other_errors(number, expected):
    with (
        pytest.raises(JournalUnavailable, match='could not write the journal at "/j"') as raised,
        translating_write_errors("/j"),
    ):
        raise OSError(number, "no")
    assert is_out_of_space(raised.value) is expected


def test_a_missing_file_is_left_to_the_caller_who_reads():
    with pytest.raises(FileNotFoundError), translating_read_errors("/j"):
        raise FileNotFoundError
    with (
        pytest.raises(JournalUnavailable, match='could not read the journal at "/j"') as raised,
        translating_read_errors("/j"),
    ):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert raised.value.sqlstate == "58030"
