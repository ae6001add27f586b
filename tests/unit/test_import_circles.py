"""No module imports itself through other modules. Imports for types and imports inside of functions
count too.

import-linter checks the order of the packages. It finds no circle within a package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import subscriber

ROOT = Path(subscriber.__file__).parent


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(source: str, known: frozenset[str]) -> Iterator[str]:
    """The modules of the project that a module imports, anywhere in its code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else str(node.module)


def circles(graph: dict[str, frozenset[str]]) -> frozenset[frozenset[str]]:
    """The sets of modules each of which reaches all others (Tarjan's strongly connected
    components).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            place = stack.index(module)
            found.add(frozenset(stack[place:]))
            del stack[place:]

    for module in graph:
        if module not in index:
            visit(module)
    return frozenset(circle for circle in found if len(circle) > 1 or circle & graph[min(circle)])


def graph_of_the_project() -> dict[str, frozenset[str]]:
    paths = modules()
    known = frozenset(paths)
    return {module: frozenset(imported(path.read_text(), known)) for module, path in paths.items()}


def test_no_module_imports_itself_through_others():
    assert not circles(graph_of_the_project())


def test_imports_in_functions_and_for_types_are_found():
    source = "if TYPE_CHECKING:\n    from a.b import C\ndef f():\n    import a.d\n    from a import e, g\nimport os\n"
    assert set(imported(source, frozenset({"a", "a.b", "a.d", "a.e"}))) == {"a.b", "a.d", "a.e", "a"}


def test_a_circle_is_found_with_all_its_modules():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set(), "e": {"e"}}
    assert circles({name: frozenset(others) for name, others in graph.items()}) == {
        frozenset("abc"),
        frozenset("e"),
    }
