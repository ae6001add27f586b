"""Results of tasks in files of one machine."""

from __future__ import annotations

from subscriber.spark.result_files import remove_results, take_result, write_result


def test_a_file_is_read_once_and_what_nobody_has_read_is_removed(tmp_path):
    first, second = (write_result(tmp_path, lambda file: file.write(b"result")) for _ in range(2))
    assert first is not None
    assert second is not None
    assert bytes(take_result(first)) == b"result"
    remove_results(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_there_is_no_room(tmp_path):
    assert write_result(tmp_path / "missing", lambda file: file.write(b"lost")) is None
