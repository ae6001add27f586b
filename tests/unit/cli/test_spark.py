"""``subscriber spark archive``."""

from __future__ import annotations

import zipfile


def test_the_archive_has_the_package_and_nothing_else(run, tmp_path):
    assert run("spark", "archive", str(tmp_path / "s.zip")) == (0, "", "")
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        names = archive.namelist()
    assert "subscriber/spark/source.py" in names
    assert {name.partition("/")[0] for name in names} == {"subscriber"}


def test_a_file_that_spark_would_not_import_from_is_refused(run, tmp_path):
    code, _, err = run("spark", "archive", str(tmp_path / "subscriber.whl"))
    assert code == 1
    assert "does not end in .zip" in err


def test_a_file_that_cannot_be_written_is_an_error_in_one_sentence(run, tmp_path):
    code, _, err = run("spark", "archive", str(tmp_path / "missing" / "s.zip"))
    assert code == 1
    assert "No such file or directory" in err
    assert "Traceback" not in err
