"""Samples mutants of a package: one place of a copy is changed, the fitting unit tests run, and killed or survived is
reported.

`make mutants PACKAGE=capacity N=20 SEED=1` changes twenty places of `src/headgate/capacity`, one after the other. A
survivor is a change that no unit test notices: a missing test, or a change that means the same. The working tree is
never written to. Tests fit if they import the package; those that import the changed module run first.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MIN_TIMEOUT_S = 60.0
TIMEOUT_FACTOR = 5
"""A run that takes so many times as long as the run without a change counts as killed."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change: where it begins and ends in the text, in bytes, and what stands there instead."""

    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        return " -> ".join(re.sub(r"\s+", " ", text)[:100] for text in (self.before, self.after))


def mutants(source: str) -> list[Mutant]:
    """Every change that this program knows, in the order of the text."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    for node in _code(tree):
        for changed in _changes(node):
            if isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None:
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[node.end_lineno - 1] + (node.end_col_offset or 0)
                before = source.encode()[start:end].decode()
                after = _written(changed)
                found.append(Mutant(node.lineno, start, end, before, after))
    found.sort(key=lambda each: (each.start, each.end, each.after))
    return [each for each in found if _compiles(each.apply(source))]


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """What is executed and matters: no annotations, no docstrings, no log lines, nothing that only types need."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if isinstance(child, ast.Import | ast.ImportFrom | ast.Assert | ast.JoinedStr) or _is_ignored(child):
                continue
            yield child
            yield from _code(child)


def _is_ignored(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "_log"


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[place] = COMPARISONS[type(operator)]()
            yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for place in range(len(node.values)):
            rest = [value for at, value in enumerate(node.values) if at != place]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if not any(isinstance(each, ast.JoinedStr | ast.Constant) and _is_text(each) for each in _operands(node)):
            yield ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
        yield ast.Call(ast.Name(CALLS[node.func.id]), node.args, node.keywords)
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif _can_be_left_out(node):
        yield ast.Pass()


def _can_be_left_out(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete) or isinstance(value, ast.Call | ast.Await)


def _operands(node: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    return node.left, node.right


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _written(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node))
    return text if isinstance(node, ast.stmt | ast.Constant | ast.Name | ast.Call) else f"({text})"


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# -- which tests ---------------------------------------------------------------------------------------------------


def name_of(module: Path, source: Path) -> str:
    """`headgate.capacity.preemption.victim_rules` of `src/headgate/capacity/preemption/victim_rules.py`."""
    return ".".join(module.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def fitting(tests: Path, package: str) -> dict[Path, set[str]]:
    """Test modules that import something of the package, with the modules that they name."""
    found: dict[Path, set[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        named = {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module}
        named |= {one.name for each in ast.walk(tree) if isinstance(each, ast.Import) for one in each.names}
        if own := {each for each in named if f"{each}.".startswith(f"{package}.")}:
            found[path] = own
    return found


def in_order(found: dict[Path, set[str]], module: str) -> list[Path]:
    return sorted(found, key=lambda path: (module not in found[path], path))


# -- runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    place: str
    mutant: Mutant
    outcome: str
    seconds: float


class Sampler:
    """A copy of the sources, and the tests that run on it."""

    def __init__(self, root: Path, package: Path, tests: Path, folder: Path) -> None:
        self.source, self.package = root / "src", package
        self.copy = folder / "src"
        self._root = root
        self._found = fitting(tests, name_of(package, self.source))
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            "PYTHONPATH": str(self.copy),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        shutil.copytree(self.source, self.copy, ignore=shutil.ignore_patterns("__pycache__"))

    def every(self) -> list[tuple[Path, Mutant]]:
        modules = sorted(self.package.rglob("*.py")) if self.package.is_dir() else [self.package]
        return [(path, each) for path in modules for each in mutants(path.read_text())]

    def run_unchanged(self) -> float:
        """How long the tests take; they have to be there, to import the copy, and to pass."""
        if not self._found:
            raise SystemExit(f"no unit test imports {name_of(self.package, self.source)}")
        top = name_of(self.package, self.source).split(".")[0]
        where = subprocess.run(
            [sys.executable, "-c", f"import {top}; print({top}.__file__)"],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        if not Path(where).is_relative_to(self.copy):
            raise SystemExit(f"tests would import {where}, not the copy")
        begun_s = time.monotonic()
        ended = self._pytest(list(self._found), None)
        if ended is None or ended.returncode:
            raise SystemExit(f"the tests fail without a change:\n{ended.stdout[-3000:] if ended else ''}")
        return time.monotonic() - begun_s

    def run(self, path: Path, mutant: Mutant, patience_s: float) -> Result:
        copied = self.copy / path.relative_to(self.source)
        source = path.read_text()
        begun_s = time.monotonic()
        copied.write_text(mutant.apply(source))
        try:
            ended = self._pytest(in_order(self._found, name_of(path, self.source)), patience_s)
        finally:
            copied.write_text(source)
        outcome = "survived" if ended is not None and ended.returncode == 0 else "killed"
        place = f"{path.relative_to(self._root)}:{mutant.line}"
        return Result(place, mutant, outcome, time.monotonic() - begun_s)

    def _pytest(self, tests: list[Path], patience_s: float | None) -> subprocess.CompletedProcess[str] | None:
        """None if it did not end in time."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        process = subprocess.Popen(
            [*command, *map(str, tests)],
            cwd=self._root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return None
        return subprocess.CompletedProcess(command, process.returncode, output)


def drawn(every: Sequence[tuple[Path, Mutant]], count: int, seed: int) -> list[tuple[Path, Mutant]]:
    """The same for the same seed."""
    return random.Random(seed).sample(every, min(count, len(every)))


def sample(root: Path, package: Path, tests: Path, count: int, seed: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        sampler = Sampler(root, package, tests, Path(folder))
        unchanged_s = sampler.run_unchanged()
        for path, mutant in drawn(sampler.every(), count, seed):
            yield sampler.run(path, mutant, max(MIN_TIMEOUT_S, TIMEOUT_FACTOR * unchanged_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "package", help="below src/headgate: capacity, kube/validation/pod, capacity/preemption/victim_rules.py"
    )
    parser.add_argument("--count", type=int, default=20, help="how many places to change, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="which places")
    parser.add_argument(
        "--tests", type=Path, default=ROOT / "tests" / "unit", help="where fitting tests are looked for"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    given = parser.parse_args()
    (top,) = (each for each in (given.root / "src").iterdir() if (each / "__init__.py").exists())
    package = top / given.package
    if not package.exists():
        parser.error(f"there is no {package}")
    outcomes = []
    for result in sample(given.root, package, given.tests.resolve(), given.count, given.seed):
        outcomes.append(result.outcome)
        print(f"{result.outcome:8} {result.seconds:6.1f} s  {result.place}  {result.mutant}", flush=True)
    killed = outcomes.count("killed")
    print(f"{killed} killed, {len(outcomes) - killed} survived, of {len(outcomes)} (seed {given.seed})")


if __name__ == "__main__":
    main()
