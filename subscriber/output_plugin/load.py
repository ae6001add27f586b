"""Finding a plugin by its name: ``test_decoding``, ``pgoutput``, or ``module:Class``."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from subscriber.errors import OutputPluginError, UsageError
from subscriber.output_plugin.callbacks import callbacks_of

BUILT_IN: Final = {
    "pgoutput": "subscriber.output_plugin.plugins.pgoutput:PgOutput",
    "test_decoding": "subscriber.output_plugin.plugins.test_decoding:TestDecoding",
}
"""The plugins that PostgreSQL ships, by the name that they have there."""


def load_output_plugin(name: str) -> object:
    """Make a plugin: import its module and call its class without arguments (``LoadOutputPlugin``).

    Args:
        name: a name of :data:`BUILT_IN`, or ``module:Class``.

    Raises:
        UsageError: 22023, the name is not of this form; 58P01, there is no such module.
        OutputPluginError: the module does not have the class, the class cannot be called, or a
            required callback is missing (rule E1).
    """
    module_name, colon, class_name = BUILT_IN.get(name, name).partition(":")
    if not (colon and module_name and class_name):
        raise UsageError(
            f'invalid output plugin name "{name}"',
            hint=f"Write {' or '.join(BUILT_IN)}, or module:Class such as my_module:MyPlugin.",
        )
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f'could not access file "{module_name}": No such file or directory',
            sqlstate="58P01",
            hint=f'Module "{error.name}" was not found. Run in the folder of the module, or set PYTHONPATH.',
        ) from error
    plugin_class = getattr(module, class_name, None)
    if not callable(plugin_class):
        raise OutputPluginError(
            "output plugins have to declare the _PG_output_plugin_init symbol",
            hint=f'Here the symbol is the class: module "{module_name}" has no class "{class_name}".',
        )
    plugin: object = plugin_class()
    callbacks_of(plugin)
    return plugin
