"""The process is killed around an ALTER TABLE of the program under load: the column is added once,
and existing rows get their values once.
"""

from __future__ import annotations

from functools import partial

import psycopg
import pytest

from tests.crash.conftest import replicating
from tests.crash.harness import PUBLICATIONS, Load, catch_up, wait_until

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.crash, pytest.mark.long]

CREATE = f"PUBLICATION {PUBLICATIONS} WITH (copy_data = false, schema_changes = 'add_columns')"


def test_a_kill_around_an_alter_table_gives_older_rows_their_values_once(own_server, tmp_path):
    """any_crash, progress_with_data; issue 14: ADD COLUMN ... DEFAULT"""
    with (
        replicating(own_server, tmp_path, "altered", create=CREATE) as replication,
        Load(replication.conninfo, seed=20261122) as load,
    ):
        runner = replication.runner
        runner.start()
        with load.paused():
            catch_up(replication.conninfo, replication.database, runner)
        for number, failpoint in enumerate(("target.alter.before", "target.alter.after")):
            replication.failpoints.unlock(failpoint)
            with psycopg.connect(replication.conninfo, autocommit=True) as publisher:
                publisher.execute(
                    f"ALTER TABLE orders ADD COLUMN grown{number} int NOT NULL DEFAULT {number + 42}".encode()
                )
            wait_until(partial(replication.failpoints.fired, failpoint), f"{failpoint} to be passed")
            wait_until(lambda: not runner.running, "the supervisor to die")
            replication.settle(load)
