"""A plugin is found by the name of its module and class."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from subscriber.base.errors import OutputPluginError, UsageError
from subscriber.postgres.logical_decoding.callbacks import load_output_plugin
from tests.output_plugins import recording_plugin


@pytest.fixture
def module(monkeypatch) -> str:
    made: Any = ModuleType("my_module")
    made.MyPlugin = type(recording_plugin()[0])
    made.Incomplete = type(recording_plugin(without=["change"])[0])
    made.NUMBER = 5
    monkeypatch.setitem(sys.modules, "my_module", made)
    return "my_module"


def test_the_class_is_called(module):
    assert type(load_output_plugin(f"{module}:MyPlugin")).__name__ == "Recording"


@pytest.mark.parametrize("name", ["", "my_module", ":MyPlugin", "my_module:"])
def test_a_name_without_module_and_class_is_refused(name, module):
    with pytest.raises(UsageError, match=r"^invalid output plugin name"):
        load_output_plugin(name)


def test_a_module_that_does_not_exist_is_postgresqls_error():
    with pytest.raises(UsageError) as caught:
        load_output_plugin("no_such_module_here:Plugin")
    assert caught.value.message == 'could not access file "no_such_module_here": No such file or directory'
    assert caught.value.sqlstate == "58P01"


@pytest.mark.parametrize("name", ["Missing", "NUMBER"])
def test_a_class_that_does_not_exist_is_postgresqls_error(name, module):
    """E1."""
    with pytest.raises(OutputPluginError, match=r"^output plugins have to declare the _PG_output_plugin_init symbol$"):
        load_output_plugin(f"{module}:{name}")


def test_a_plugin_without_a_required_callback_is_not_loaded(module):
    """E1."""
    with pytest.raises(OutputPluginError, match="a change callback"):
        load_output_plugin(f"{module}:Incomplete")


@pytest.mark.parametrize("name", ["test_decoding", "pgoutput"])
def test_the_plugins_that_postgresql_ships_have_their_names(name):
    assert type(load_output_plugin(name)).__module__ == f"subscriber.postgres.logical_decoding.plugins.{name}"
