"""docs/spark-types.md says what the change feed does."""

from __future__ import annotations

from pathlib import Path

from tools.spark_types_page import spark_types_page

PAGE = (Path(__file__).parents[2] / "docs" / "spark-types.md").read_text()


def test_the_page_of_spark_s_types_is_what_the_code_does():
    assert spark_types_page() == PAGE, "run `make docs`"
