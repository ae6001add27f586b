"""pandas is imported only where it is asked for."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from subscriber.base.without_pandas import use_arrow_without_pandas
use_arrow_without_pandas("pyspark.testing.utils")
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
assert pc.sum(pa.array(np.arange(3))).as_py() == 3 and pa.array([1, 2]).to_pylist() == [1, 2]
print("pandas" in sys.modules)
use_arrow_without_pandas()
print(pa.table({"a": [1]}).to_pandas().a.sum(), "pandas" in sys.modules)
use_arrow_without_pandas()
print(pa.array([1]).to_pandas().sum())
"""


def test_arrays_are_created_without_pandas_which_can_still_be_used():
    """Importing it takes half a second in every process."""
    printed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "1", "True", "1"]
