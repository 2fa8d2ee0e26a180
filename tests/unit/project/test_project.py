"""Project rules that no linter checks."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = sorted((ROOT / "src").rglob("*.py"))
TOO_LONG = 600


def test_the_locked_requirements_are_those_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == declared


@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_every_locked_package_has_a_hash_and_no_index_is_named(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text
    packages = re.split(r"\n(?=[a-z0-9][\w.-]*==)", text)[1:]
    assert packages
    assert all("--hash=sha256:" in package for package in packages)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is_and_can_be_read_in_a_sitting(module: Path) -> None:
    text = module.read_text()
    assert ast.get_docstring(ast.parse(text)), "say in the first lines what this module is"
    assert text.count("\n") < TOO_LONG


def test_the_python_that_is_promised_is_the_python_that_is_checked() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert config["project"]["requires-python"] == ">=3.11"
    assert config["tool"]["mypy"]["python_version"] == "3.11"
    assert config["tool"]["ruff"]["target-version"] == "py311"


CASE_PAGES = {
    "kep-3521.md": 70,
    "kep-6143.md": 60,
    "kep-6915.md": 90,
    "volcano-defects.md": 150,
    "volcano-queue-gate.md": 120,
}
"""Pages with the tests that show each case of a design, and the least number of tests that they name."""
STATEMENT_PAGES = ("kep-6143.md", "kep-6915.md", "volcano-queue-gate.md")


@pytest.mark.parametrize(("page", "least"), CASE_PAGES.items())
def test_every_test_that_a_table_names_exists(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[([^`]+)\])?`", text)
    assert len(named) == text.count(".py::") > least
    for path, name, case in named:
        module = ROOT / path
        assert f"def {name}(" in module.read_text(), f"{path} has no {name}"
        assert any(case in each.read_text() for each in module.parent.glob("*.py")), f"{name} has no case {case}"


@pytest.mark.parametrize("page", STATEMENT_PAGES)
def test_every_statement_of_a_design_has_a_test_or_a_link_and_an_id_of_its_own(page: str) -> None:
    lines = (ROOT / "docs" / page).read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| \d+\.\d+ \|", line)]
    assert len(rows) + 2 * lines.count("| id | statement | what Headgate does | tests |") == sum(
        line.startswith("|") for line in lines
    ), "each row of a table begins with its id"
    assert [row for row in rows if ".py::" not in row and "](" not in row] == []
    ids = [row.split(" | ", 1)[0] for row in rows]
    assert len(ids) == len(set(ids))


def test_the_table_of_volcanos_defects_leaves_none_out() -> None:
    text = (ROOT / "docs" / "volcano-defects.md").read_text()
    ids = [f"{letter}{number}" for letter, last in DEFECTS.items() for number in range(1, last + 1)]
    assert [each for each in ids if f"\n| {each} |" not in text] == []


DEFECTS = {"W": 10, "E": 3, "A": 10, "R": 13, "U": 24}


def test_only_routing_looks_at_the_method_of_a_request() -> None:
    """Everything else goes by the verb: what is authorized as one thing must not be executed as another."""
    server = ROOT / "src" / "headgate" / "apiserver"
    reading_methods = ("request_info.py", "messages.py", "routes.py")
    routing = {server / "handler.py", server / "discovery" / "nonresource_paths.py"}
    routing |= {server / "request" / name for name in reading_methods}
    others = [path for path in MODULES if server in path.parents and server / "io" not in path.parents]
    reading = [path for path in others if re.search(r"\b(request|info)\.method\b", path.read_text())]
    assert [str(path.relative_to(ROOT)) for path in reading if path not in routing] == []
