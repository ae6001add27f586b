"""What a plugin can do follows from the callbacks that it has registered."""

from __future__ import annotations

import pytest

from subscriber.postgres.logical_decoding.callbacks import callbacks_of
from subscriber.postgres.logical_decoding.context import CALLBACKS, OutputPluginOptions
from tests.output_plugins import PLAIN, recording_plugin

STREAMING = [name for name in CALLBACKS if name.startswith("stream_") and name != "stream_prepare"]
TWO_PHASE = ["begin_prepare", "prepare", "commit_prepared", "rollback_prepared", "stream_prepare", "filter_prepare"]


@pytest.mark.parametrize("name", CALLBACKS)
def test_one_callback_decides_what_a_plugin_can_do(name):
    """E3, E4: stream_prepare does not imply streaming."""
    callbacks = callbacks_of(recording_plugin(only=[*PLAIN, name])[0])
    assert callbacks.streaming == (name in STREAMING)
    assert callbacks.twophase == (name in TWO_PHASE)


def test_output_is_binary_and_without_rewrites_unless_the_plugin_says_otherwise():
    """E10, E17."""
    assert OutputPluginOptions() == OutputPluginOptions("binary", receive_rewrites=False)
