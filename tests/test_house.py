"""The rules of the house, held by looking at the source: rooms, names, lengths, slack factors, words."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "perinstance"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
NAMES = {path: path.relative_to(PACKAGE).as_posix() for path in FILES}

#: Rounding has one room; coefficients of series and splitting constants of exact arithmetic are no slack.
ROUNDING = "numerics/rounding.py"
ARITHMETIC = ("numerics/double_double.py", "numerics/inline_exp_log.py")

#: Words that only the first authors knew; a term of the field, or of docs/glossary.md, stands in their place.
JARGON = ("tilt", "tilts", "slip", "uphill", "stray", "grade", "grades", "certified", "her", "she", "hers", "herself")
#: The same for what is defined: ordinary words that had a private meaning as names.
JARGON_NAMES = {"tilt", "tilts", "pull", "pulls", "held", "beside", "stray", "slip", "way", "ways", "reach", "uphill"}


#: What is counted of a room: every line of code, stubs, kernels and templates, blank ones and docstrings too.
COUNTED = (".py", ".pyi", ".cu", ".j2", ".css", ".html", ".js")
COMPILED = re.compile(r"^@(?:\w+\.)?(?:\w*kernel|piece|njit|jit|vectorize|guvectorize)\b", re.MULTILINE)


def test_budgets():
    """Each room has a budget of lines, in pyproject.toml: whoever needs more says there what goes instead."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    allowed = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["house"]
    lines = defaultdict(int)
    for path in PACKAGE.rglob("*"):
        if path.suffix in COUNTED and "__pycache__" not in path.parts:
            parts = path.relative_to(PACKAGE).parts
            lines[parts[0] if len(parts) > 1 else "root"] += path.read_text(encoding="utf-8").count("\n")
    assert not {room: count for room, count in lines.items() if count > allowed["rooms"].get(room, 0)}
    assert sum(lines.values()) <= allowed["lines"] and len(FILES) <= allowed["files"]
    compiled = sum(len(COMPILED.findall(path.read_text(encoding="utf-8"))) for path in FILES)
    assert compiled <= allowed["compiled_functions"]


def functions(tree: ast.AST):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_a_folder_has_at_most_twenty_entries():
    crowded = {}
    for folder in {path.parent for path in FILES}:
        entries = [p for p in folder.iterdir() if p.name not in ("__init__.py", "__pycache__") and p.suffix != ".pyi"]
        entries = [p for p in entries if p.is_dir() or p.suffix == ".py"]
        if len(entries) > 20:
            crowded[folder.name] = len(entries)
    assert not {name: count for name, count in crowded.items() if name != "perinstance"}


def test_every_folder_says_what_is_inside():
    silent = [
        NAMES[path] for path in FILES if path.name == "__init__.py" and len(ast.get_docstring(TREES[path]) or "") < 60
    ]
    assert not silent


def test_no_class_name_twice():
    homes = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(NAMES[path])
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_no_module_has_the_name_of_what_it_exports():
    twins = [
        NAMES[path]
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == path.stem
    ]
    assert not twins


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    documented = ast.get_docstring(node, clean=False) is not None
    start = node.body[0].end_lineno if documented else node.lineno
    return node.end_lineno - start + 1


def test_no_function_over_sixty_lines():
    """Docstrings of public functions list their parameters: they are not counted."""
    long = {f"{NAMES[path]}:{f.name}": _code_lines(f) for path, tree in TREES.items() for f in functions(tree)}
    assert not {name: lines for name, lines in long.items() if lines > 60}


def test_kernels_take_records():
    many = {}
    for path, tree in TREES.items():
        for f in functions(tree):
            marks = {ast.unparse(mark) for mark in f.decorator_list}
            if marks & {"kernel", "exact_kernel", "sum_kernel", "piece"} and len(f.args.args) > 8:
                many[f"{NAMES[path]}:{f.name}"] = len(f.args.args)
    assert not many


def _number(node: ast.AST) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    return None


def slack_literals(tree: ast.AST) -> list[int]:
    """Lines with ``1 + 1e-12`` and its like, with numbers below 1e-8, or with the float format's own limits."""
    lines = []
    for node in ast.walk(tree):
        value = _number(node)
        if value is not None and 0 < abs(value) < 1e-8:
            lines.append(node.lineno)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            left, right = _number(node.left), _number(node.right)
            if (left == 1 and right is not None and 0 < abs(right) < 1e-3) or (
                right == 1 and left is not None and 0 < abs(left) < 1e-3
            ):
                lines.append(node.lineno)
        if isinstance(node, ast.Attribute) and node.attr == "finfo":
            lines.append(node.lineno)
    return sorted(set(lines))


def test_the_walk_finds_slack():
    found = slack_literals(
        ast.parse("a = x * (1 + 1e-12)\nb = x + 1e-300\nc = 1 - 1e-6\nd = np.finfo(float).eps\ne = 1 + 0.5")
    )
    assert found == [1, 2, 3, 4]


def test_slack_is_named():
    found = {NAMES[path]: slack_literals(tree) for path, tree in TREES.items()}
    assert not {name: lines for name, lines in found.items() if lines and name not in (ROUNDING, *ARITHMETIC)}


def test_every_slack_is_justified():
    """Each name of the rounding room stands under, or before, a comment that says why it is that large."""
    lines = (PACKAGE / ROUNDING).read_text(encoding="utf-8").splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"[A-Z_0-9]+\b.* = ", line) and "#:" not in line and not before.startswith("#:")
    ]
    assert not bare


def test_no_private_jargon():
    word = re.compile(rf"\b({'|'.join(JARGON)})\b", re.IGNORECASE)
    found = {NAMES[path]: sorted(set(word.findall(path.read_text(encoding="utf-8")))) for path in FILES}
    assert not {name: words for name, words in found.items() if words}


def test_names_are_words_of_the_field():
    found = set()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add((node.name.strip("_").lower(), NAMES[path]))
            elif isinstance(node, ast.arg):
                found.add((node.arg.strip("_").lower(), NAMES[path]))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add((node.target.id.strip("_").lower(), NAMES[path]))
    assert not {one for one in found if one[0] in JARGON_NAMES}


def test_no_dispatch_on_class_names():
    """A class's name may be shown in a message; comparing it is dispatch."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                assert not re.search(r"\)\.__name__", ast.unparse(node)), (NAMES[path], node.lineno)
