"""The streaming query: what its errors become. The query itself is tested with Spark in
tests/conformance/test_spark_source.py.
"""

from __future__ import annotations

import pytest

from subscriber.errors import PipelineError
from subscriber.pipeline.streaming_query import missing_module


def test_a_worker_that_lacks_a_module_is_explained():
    text = "PythonException: Traceback …\nModuleNotFoundError: No module named 'subscriber.protocol'\n"
    error = missing_module(RuntimeError(text))
    assert isinstance(error, PipelineError)
    assert error.message == 'Spark\'s Python workers have no module "subscriber.protocol"'
    assert "PYSPARK_PYTHON" in (error.hint or "")


@pytest.mark.parametrize("text", ["", "Job aborted due to stage failure", "No module named subscriber"])
def test_other_errors_of_spark_have_another_cause(text):
    assert missing_module(RuntimeError(text)) is None
