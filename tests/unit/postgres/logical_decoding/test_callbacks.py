"""Which callbacks a plugin has registered, and what it can therefore do."""

from __future__ import annotations

import pytest

from subscriber.base.errors import OutputPluginError
from subscriber.postgres.logical_decoding.callbacks import OutputPlugin, callbacks_of
from subscriber.postgres.logical_decoding.context import CALLBACKS, REQUIRED
from tests.output_plugins import PLAIN, recording_plugin


class Least(OutputPlugin):
    def begin(self, ctx, txn):
        """Do nothing."""

    def change(self, ctx, txn, relation, change):
        """Do nothing."""

    def commit(self, ctx, txn, commit_lsn):
        """Do nothing."""


class Less(Least):
    begin = None  # type: ignore[assignment]


def test_there_are_twenty_one_callbacks_and_the_base_class_has_them_all():
    assert len(CALLBACKS) == len(set(CALLBACKS)) == 21
    public = {name for name in vars(OutputPlugin) if not name.startswith("_")}
    assert public == set(CALLBACKS)


def test_only_what_a_plugin_defines_itself_is_registered():
    callbacks = callbacks_of(Least())
    assert [name for name in CALLBACKS if callbacks.get(name) is not None] == list(PLAIN)
    assert not callbacks.streaming
    assert not callbacks.twophase


def test_a_plugin_need_not_derive_from_the_base_class():
    plugin, _ = recording_plugin()
    assert all(callbacks_of(plugin).get(name) is not None for name in CALLBACKS)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_callback_that_is_missing_is_postgresqls_error(name):
    """E1."""
    with pytest.raises(OutputPluginError) as caught:
        callbacks_of(recording_plugin(without=[name])[0])
    assert caught.value.message == f"output plugins have to register a {name} callback"
    assert caught.value.sqlstate == "XX000"


def test_a_callback_that_is_set_to_none_is_not_registered():
    with pytest.raises(OutputPluginError, match="a begin callback"):
        callbacks_of(Less())
