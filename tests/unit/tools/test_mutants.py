"""The mutation sampler: its changes, the selected tests, and its report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.mutants import ROOT, drawn, fitting, in_order, mutants

PROGRAM = ROOT / "tools" / "mutants.py"
SOLD = """
def price(amount: int, is_member: bool = False) -> int:
    \"\"\"Members pay 1 less.\"\"\"
    return amount - 1 if is_member else amount
"""
TESTS = """
from shop.pay import price

def test_price():
    assert price(20, True) == 19
"""


def changes(source: str) -> set[str]:
    return {str(each) for each in mutants(source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b < c\n", {"b < c -> (b <= c)"}),
        ("a = b <= c != d\n", {"b <= c != d -> (b < c != d)", "b <= c != d -> (b <= c == d)"}),
        ("a = b not in c\n", {"b not in c -> (b in c)"}),
        ("a = b and c\n", {"b and c -> (b or c)", "b and c -> b", "b and c -> c"}),
        ("a = not b\n", {"not b -> b"}),
        ("a = b + c\n", {"b + c -> (b - c)"}),
        ("a = 'b' + c\n", set()),
        ("a = True\n", {"True -> False"}),
        ("a = 15\n", {"15 -> 16"}),
        ("a = min(b, c)\n", {"min(b, c) -> max(b, c)"}),
        ("b()\n", {"b() -> pass"}),
        ("b += c\n", {"b += c -> pass"}),
        ("for b in c:\n    break\n", {"break -> continue"}),
        ("def f():\n    raise b\n", {"raise b -> pass"}),
    ],
)
def test_changes_of_each_kind_of_code(source: str, expected: set[str]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""1 < 2"""\n',
        "def f(a: 'b < c') -> 'd < e':\n    '''x'''\n",
        "import a\nfrom b import c\n",
        "_log.warning('x', b)\n",
        "assert a < b\n",
        "a = f'{b < c}'\n",
    ],
)
def test_code_that_is_not_executed_or_only_logs_is_not_changed(source: str) -> None:
    assert changes(source) == set()


def test_a_change_replaces_its_own_place_and_nothing_else() -> None:
    source = "# ä: not ascii\nx = ['ä', a < b]  # a < b\n"
    (mutant,) = mutants(source)
    assert mutant.line == 2
    assert mutant.apply(source) == "# ä: not ascii\nx = ['ä', (a <= b)]  # a < b\n"


def test_every_change_of_a_real_module_compiles_and_is_one() -> None:
    source = (ROOT / "src" / "headgate" / "capacity" / "preemption" / "victim_rules.py").read_text()
    found = mutants(source)
    assert len(found) > 50
    assert all(each.apply(source) != source for each in found)


def test_tests_fit_that_import_the_package_and_those_of_the_module_come_first(tmp_path: Path) -> None:
    for name, text in {
        "test_a": "from shop.other import x",
        "test_b": "import shop.pay",
        "test_c": "from shopping.pay import x",
    }.items():
        (tmp_path / f"{name}.py").write_text(f"{text}\n")
    found = fitting(tmp_path, "shop")
    assert [path.stem for path in in_order(found, "shop.pay")] == ["test_b", "test_a"]
    assert [path.stem for path in in_order(found, "shop.other")] == ["test_a", "test_b"]


def _sampled(root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), "pay.py", "--root", str(root), "--tests", str(root / "tests"), *flags]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTEST_ADDOPTS": ""})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "shop" / "__init__.py").write_text("")
    (tmp_path / "src" / "shop" / "pay.py").write_text(SOLD)
    (tmp_path / "tests" / "test_pay.py").write_text(TESTS)
    return tmp_path


def test_a_run_reports_killed_and_survived_and_leaves_the_sources_alone(shop: Path) -> None:
    ended = _sampled(shop, "--count", "100")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    told = {(line.split()[0], line.partition("src/shop/")[2]) for line in lines[:-1]}
    assert told == {
        ("killed", "pay.py:4  amount - 1 -> (amount + 1)"),
        ("killed", "pay.py:4  1 -> 2"),
        ("survived", "pay.py:2  False -> True"),
    }
    assert lines[-1] == "2 killed, 1 survived, of 3 (seed 1)"
    assert (shop / "src" / "shop" / "pay.py").read_text() == SOLD


def test_a_seed_draws_the_same_places_again() -> None:
    every = [(Path("x.py"), each) for each in mutants("a = [1, 2, 3, 4, 5, 6, 7, 8]\n")]
    assert drawn(every, 3, seed=1) == drawn(every, 3, seed=1) != drawn(every, 3, seed=2)
    assert len(drawn(every, 100, seed=1)) == len(every) == 8


@pytest.mark.parametrize(
    ("change", "said"),
    [("assert price(5) == 4", "the tests fail without a change"), ("", "no unit test imports shop.pay")],
)
def test_missing_or_failing_tests_are_reported(shop: Path, change: str, said: str) -> None:
    text = f"{TESTS}\n    {change}\n" if change else "def test_nothing():\n    pass\n"
    (shop / "tests" / "test_pay.py").write_text(text)
    ended = _sampled(shop, "--count", "1")
    assert ended.returncode == 1
    assert said in ended.stderr
