from __future__ import annotations

import ast
import email
import sys
from importlib import import_module
from pathlib import Path

import pytest

import subscriber
from subscriber.base.lazy_names import lazy_names

ROOT = Path(subscriber.__file__).parent
PACKAGES = {
    ".".join(path.relative_to(ROOT.parent).parent.parts): path
    for path in ROOT.rglob("__init__.py")
    if "__getattr__ = lazy_names(" in path.read_text()
}


def test_a_name_is_imported_when_it_is_first_used():
    load = lazy_names("email", {"mime.text": ("MIMEText",)})
    sys.modules.pop("email.mime.text", None)
    assert load("MIMEText") is sys.modules["email.mime.text"].MIMEText


def test_the_next_use_does_not_load_again():
    lazy_names("email", {"mime.text": ("MIMEText",)})("MIMEText")
    assert vars(email).pop("MIMEText") is sys.modules["email.mime.text"].MIMEText


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'email' has no attribute 'MIMETxt'"):
        lazy_names("email", {"mime.text": ("MIMEText",)})("MIMETxt")


def test_the_packages_are_found():
    assert set(PACKAGES) == {"subscriber", "subscriber.spark"}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_are_there(package):
    """The names of the block for type checkers, those of the table and ``__all__`` are the same."""
    tree = ast.parse(PACKAGES[package].read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        str(node.module): tuple(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    (call,) = (node.value for node in block.orelse if isinstance(node, ast.Assign))
    assert isinstance(call, ast.Call)
    table = ast.literal_eval(call.args[1])
    assert {f"{package}.{module}": names for module, names in table.items()} == seen
    assert {name for names in table.values() for name in names} == set(import_module(package).__all__) - {"__version__"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_also_a_module(package):
    """Python would set the attribute to the module when the module is imported."""
    modules = {path.stem for path in PACKAGES[package].parent.iterdir()}
    assert not modules & set(import_module(package).__all__)
