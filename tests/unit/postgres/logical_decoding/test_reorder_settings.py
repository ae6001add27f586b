"""The settings of the reorder buffer."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding.reorder_txn import ReorderSettings


def test_the_defaults_are_postgresqls():
    settings = ReorderSettings()
    assert settings.logical_decoding_work_mem == 64 * 1024 * 1024
    assert settings.debug_logical_replication_streaming == "buffered"
    assert not settings.did_abort(700)


@pytest.mark.parametrize("size", [0, -1])
def test_memory_must_be_positive(size):
    with pytest.raises(UsageError, match=r'^invalid value for parameter "logical_decoding_work_mem"'):
        ReorderSettings(logical_decoding_work_mem=size)
