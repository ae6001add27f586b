"""Whether the Python that Spark runs can import this package.

Spark calls a data source in Python processes of its own. Without ``PYSPARK_PYTHON`` these are the
``python3`` of the path, which is another one unless the virtual environment is activated. Spark
then reports "No module named 'subscriber'" behind a traceback, so it is checked at the
registration.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from subscriber.base.errors import UsageError
from subscriber.spark.told_errors import told

_SECONDS: Final = 60.0


@told
def check_python_of_spark() -> None:
    """UsageError if Spark's Python cannot import this package, and nobody has sent it
    (``--py-files``). Without a session nothing is known, nor of the server of Spark Connect.
    """
    session = SparkSession.getActiveSession()
    if isinstance(session, SparkSession) and not session.sparkContext._python_includes:  # noqa: SLF001
        check_python(str(session.sparkContext.pythonExec))


def check_python(executable: str) -> None:
    found = shutil.which(executable)
    if found is None or Path(found).absolute() == Path(sys.executable).absolute():
        return  # Spark itself reports that there is none
    imported = subprocess.run([found, "-c", "import subscriber"], capture_output=True, timeout=_SECONDS, check=False)
    if imported.returncode:
        raise UsageError(
            f'Spark runs the Python "{found}", which cannot import the package subscriber',
            sqlstate="55000",
            hint=f'Start the program with PYSPARK_PYTHON="{sys.executable}", or activate the virtual environment.',
        )
