"""subscriber.base.errors: one tree, and errors that survive a trip between processes."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from subscriber.base import errors
from subscriber.base.errors import ConflictError, ProtocolError, PublisherUnavailable, SubscriberError, UsageError
from tests.source_files import syntax_of


def _tree(root: type[SubscriberError]) -> Iterator[type[SubscriberError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


TREE = errors.__doc__ or ""
CLASSES = [cls for cls in _tree(SubscriberError) if cls.__module__ == errors.__name__]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_is_in_the_drawing_with_a_description(cls):
    assert re.search(rf"\b{cls.__name__}\b", TREE)
    assert cls.__doc__


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_a_sqlstate(cls):
    assert re.fullmatch("[0-9A-Z]{5}", cls.sqlstate)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_drawing_has_the_sqlstate_and_the_mark_transient_of_every_class(cls):
    line = next(
        line for line in TREE.splitlines() if re.search(rf"─ {cls.__name__}\b", line) or line.strip() == cls.__name__
    )
    assert ("(transient)" in line) == cls.transient
    drawn = re.search(r" ([0-9A-Z]{5}) ", line)
    assert drawn is None or drawn[1] == cls.sqlstate


def test_a_sqlstate_can_be_given():
    assert UsageError("x", sqlstate="42710").sqlstate == "42710"
    assert UsageError("x").sqlstate == "22023"


def test_a_report_has_a_line_for_each_part_that_is_set():
    error = ConflictError("m", detail="d", hint="h", context="c", relation="public.t", lsn=1)
    assert error.report() == "ERROR:  m\nDETAIL:  d\nHINT:  h\nCONTEXT:  c"
    assert PublisherUnavailable("m").report() == "ERROR:  m"


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_survives_pickling_with_all_its_attributes(cls):
    """Spark brings an executor's error to the driver as a pickle."""
    error = cls("m", sqlstate="42P01", detail="d", hint="h", relation="s.t", column="c", lsn=7, context="x")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert vars(copy) == vars(error)
    assert str(copy) == "m"


def test_a_copy_has_other_attributes_and_the_traceback_and_does_not_change_the_original():
    error = ProtocolError("m", offset=3, lsn=7)
    with pytest.raises(ProtocolError):
        raise error
    copy = error.replace(message="n", lsn=8, transient=True, failure=("any",))
    assert type(copy) is ProtocolError
    assert (copy.message, str(copy), copy.lsn, copy.offset, copy.transient) == ("n", "n", 8, 3, True)
    assert copy.__traceback__ is error.__traceback__ is not None
    assert (error.message, str(error), error.lsn, error.transient, error.failure) == ("m", "m", 7, False, None)
    assert vars(pickle.loads(pickle.dumps(copy))) == vars(copy)


@pytest.mark.parametrize(
    ("where", "context"),
    [
        ({"offset": 3}, "decoding at byte 3"),
        ({"offset": 0, "message_type": "I"}, 'decoding at byte 0 of message type "I"'),
        ({}, None),
        ({"offset": 3, "context": "given"}, "given"),
    ],
)
def test_a_protocol_error_contains_the_place_in_the_stream(where, context):
    assert ProtocolError("m", **where).context == context


def _caught(scope: ast.AST) -> str | None:
    """The name under which an ``except`` or a function has an error that somebody else has
    raised.
    """
    if isinstance(scope, ast.ExceptHandler):
        return scope.name
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    classes = {cls.__name__ for cls in CLASSES}
    return next(
        (one.arg for one in arguments if isinstance(one.annotation, ast.Name) and one.annotation.id in classes), None
    )


def _changes(scope: ast.AST, name: str) -> Iterator[int]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == name:
                        yield node.lineno


def test_the_code_does_not_change_an_error_after_it_is_raised():
    package = Path(errors.__file__).parent
    changed = [
        f"{path.relative_to(package)}:{line}"
        for path in package.rglob("*.py")
        for scope in ast.walk(syntax_of(path))
        if (name := _caught(scope)) is not None
        for line in _changes(scope, name)
    ]
    assert changed == []
