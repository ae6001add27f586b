"""Prints how large ``subscriber/`` is, and how much of it a reader must hold in the head.

``python tools/measure_house.py`` measures the tree, ``python tools/measure_house.py COMMIT`` also a
commit of it, side by side. Code is a line with a token that is neither comment nor docstring.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
SILENT |= {tokenize.ENDMARKER}


@dataclass
class Module:
    """One file, read once."""

    name: str
    path: Path
    text: str
    tree: ast.Module = field(init=False)
    prose: set[int] = field(init=False)
    code: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        self.prose = {
            line
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        lines = {n for t in tokens if t.type not in SILENT for n in range(t.start[0], t.end[0] + 1)}
        self.code = lines - self.prose

    @property
    def room(self) -> str:
        return self.name.split(".")[1] if self.name.count(".") > 1 else ""

    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def modules_of(package: Path) -> dict[str, Module]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, path.read_text())
    return found


def imports_of(module: Module, modules: dict[str, Module]) -> set[str]:
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in names if name in modules and name != module.name}


def body_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]


def forwards(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function only calls another with its own arguments."""
    names = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)} - {"self"}
    match body_of(function):
        case [ast.Return(value=ast.Call() as call)] | [ast.Expr(value=ast.Call() as call)]:
            passed = [*call.args, *(k.value for k in call.keywords)]
            return bool(names) and len(passed) == len(names) and all(
                isinstance(a, ast.Name) and a.id in names for a in passed
            )  # fmt: skip
    return False


def measure(package: Path) -> dict[str, int | str]:
    modules = modules_of(package)
    files = {n: m for n, m in modules.items() if m.path.name != "__init__.py"}
    importers: dict[str, set[str]] = defaultdict(set)
    between: set[tuple[str, str]] = set()
    import_lines = 0
    for module in modules.values():
        for other in imports_of(module, modules):
            importers[other].add(module.name)
            if modules[other].room != module.room:
                between.add((module.room, modules[other].room))
        import_lines += sum(
            (node.end_lineno or 0) - node.lineno + 1
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        )
    stems = Counter(m.path.stem for n, m in files.items() if m.room != "targets")
    classes: Counter[str] = Counter()
    bases: Counter[str] = Counter()
    protocols = set()
    for module in modules.values():
        for node in module.tree.body:
            match node:
                case ast.ClassDef(name=name) if not name.startswith("_"):
                    classes[name] += 1
                    if any("Protocol" in ast.unparse(base) for base in node.bases):
                        protocols.add(name)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")) if (
                    not name.startswith("_")
                ):
                    classes[name] += 1
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                bases.update(ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases)
    functions = [f for m in modules.values() for f in m.functions()]
    code = sum(len(m.code) for m in modules.values())
    lines = sum(m.text.count("\n") for m in modules.values())
    docstrings = [ast.get_docstring(f) or "" for f in functions]
    return {
        "packages": sum(1 for p in package.iterdir() if (p / "__init__.py").exists()),
        "files": len(modules),
        "lines": lines,
        "lines of code": code,
        "lines of docstrings": sum(len(m.prose) for m in modules.values()),
        "imports, percent of code": f"{100 * import_lines / code:.1f}",
        "imports between packages": len(between),
        "modules with one importer": sum(len(importers[n]) == 1 for n in files),
        "modules with one importer and under 120 lines": sum(
            len(importers[n]) == 1 and m.text.count("\n") < 120 for n, m in files.items()
        ),
        "files with 30 lines of code or less": sum(len(m.code) <= 30 for m in files.values()),
        "files over 400 lines": sum(m.text.count("\n") > 400 for m in files.values()),
        "file names used twice, outside targets": sum(n > 1 for n in stems.values()),
        "public type names defined twice": sum(n > 1 for n in classes.values()),
        "functions": len(functions),
        "functions with one statement, percent": f"{100 * sum(len(body_of(f)) <= 1 for f in functions) / len(functions):.0f}",
        "functions that only forward": sum(map(forwards, functions)),
        "protocols": len(protocols),
        "docstrings that say See": sum(d.startswith("See ") for d in docstrings),
        "lines that delete an argument": sum(
            isinstance(s, ast.Delete) and all(isinstance(t, ast.Name) for t in s.targets)
            for f in functions for s in f.body[:2]
        ),
    }  # fmt: skip


def measure_commit(commit: str) -> dict[str, int | str]:
    archive = subprocess.run(["git", "archive", commit, "subscriber"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
        return measure(Path(folder) / "subscriber")


def twice(package: Path) -> None:
    """Which names are used twice."""
    modules = modules_of(package)
    stems: dict[str, list[str]] = defaultdict(list)
    types: dict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        if module.room != "targets" and module.path.name != "__init__.py":
            stems[module.path.stem].append(name)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                types[node.name].append(name)
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
                types[ast.unparse(node.target)].append(name)
    for found in (stems, types):
        for word, places in sorted(found.items()):
            if len(places) > 1:
                print(f"{word}: {', '.join(places)}")


def main() -> None:
    if sys.argv[1:] == ["--twice"]:
        twice(ROOT / "subscriber")
        return
    columns = [measure_commit(commit) for commit in sys.argv[1:]] + [measure(ROOT / "subscriber")]
    for name in columns[-1]:
        print(f"{name:50}" + "".join(f"{column[name]!s:>10}" for column in columns))


if __name__ == "__main__":
    main()
