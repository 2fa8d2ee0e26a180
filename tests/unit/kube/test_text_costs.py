"""Every parser of user input takes linear time, and accepts or rejects texts of any length."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

import headgate
import lru_caches
from cost_growth import SMALL_S, TIMES, cpu_s, too_steep
from headgate.apimachinery import field_selectors, ip_addresses, jsonpath
from headgate.apimachinery.validation.workloads.completion_indexes import count_indexes
from headgate.kube import cron, labels, names, quantity, timestamps
from headgate.kube.integers import OUT_OF_RANGE, read_integer, read_natural, scaled_int_or_percent
from headgate.nodes import behaviour

pytestmark = pytest.mark.measured

_SIZE = 20_000

Text = Callable[[int], str]


def _repeated(part: str, before: str = "", after: str = "") -> Text:
    return lambda n: before + part * (n // len(part)) + after


_DIGITS = (_repeated("1"), _repeated("0"), _repeated("0", after="1"), _repeated("1", "-"), _repeated("1", after="x"))
_PARSERS: dict[str, tuple[Callable[[str], Any], tuple[Text, ...]]] = {
    "durations": (
        timestamps.parse_duration,
        (*_DIGITS, _repeated("1s"), _repeated("1.5h"), _repeated("1", "0.", "s"), _repeated("x", "1"), _repeated(".")),
    ),
    "times": (timestamps.parse_time, (*_DIGITS, _repeated("1", "2020-01-01T00:00:00.", "Z"), _repeated("-"))),
    "quantities": (
        quantity.parse,
        (
            *_DIGITS,
            _repeated("1", "0."),
            _repeated("0", "1e", "1"),
            _repeated("1", "1e"),
            _repeated("k", "1"),
            _repeated("k", "1", "!"),
            _repeated("."),
        ),
    ),
    "integers": (read_integer, (*_DIGITS, _repeated("+"))),
    "percentages": (lambda text: scaled_int_or_percent(text, 10, round_up=True), (_repeated("1", after="%"), *_DIGITS)),
    "indexes": (
        lambda text: count_indexes(text, 1_000_000_000),
        (*_DIGITS, _repeated("1,"), _repeated("1-"), _repeated(",")),
    ),
    "label selectors": (
        labels.parse_selector,
        (
            _repeated("a=b,", after="c"),
            _repeated("a,", "x in (", ")"),
            _repeated("!"),
            _repeated("("),
            _repeated(" "),
            _repeated("1", "a>"),
        ),
    ),
    "field selectors": (
        field_selectors.parse_field_selector,
        (_repeated("a=b,"), _repeated("\\,", "a="), _repeated("\\")),
    ),
    "schedules": (
        cron.parse_schedule,
        (
            _repeated("1,", after="1 * * * *"),
            _repeated("1", after=" * * * *"),
            _repeated("1s", "@every "),
            _repeated("*/", after=" * * * *"),
            _repeated("-", "1", " * * * *"),
            _repeated(" "),
        ),
    ),
    "paths in JSON": (
        jsonpath.parse_path,
        (
            _repeated(".a"),
            _repeated("[0]", "."),
            _repeated("1", ".a[", "]"),
            _repeated("1", ".a[?(@.b==", ")]"),
            _repeated("'", ".a["),
            _repeated("["),
        ),
    ),
    "addresses": (
        ip_addresses.is_valid_ip,
        (*_DIGITS, _repeated("1."), _repeated("1:"), _repeated("::"), _repeated("0", "::")),
    ),
    "qualified names": (
        names.is_qualified_name,
        (_repeated("a"), _repeated("a."), _repeated("a/"), _repeated("-", "a")),
    ),
    "annotations of hollow nodes": (
        lambda text: behaviour.annotation_problems(
            {"annotations": {f"headgate.dev/{name}": text for name in ("run-for", "exit-code", "late-resources")}}
        ),
        (*_DIGITS, _repeated("1s"), _repeated("a=1,")),
    ),
}
_CASES = [(name, index) for name, (_, made) in _PARSERS.items() for index in range(len(made))]


_CACHES = lru_caches.of_headgate()


def _cpu_s(run: Callable[[], object]) -> float:
    for cache in _CACHES:
        cache.cache_clear()  # a text that was parsed before costs nothing
    return cpu_s(run)


@pytest.mark.parametrize(("name", "index"), _CASES)
def test_parse_time_is_linear_in_the_length(name: str, index: int) -> None:
    parse, texts = _PARSERS[name]
    small, large = texts[index](_SIZE), texts[index](_SIZE * TIMES)
    assert not too_steep(lambda: _cpu_s(lambda: parse(small)), lambda: _cpu_s(lambda: parse(large)))


_PUMPS = (
    "a",
    "1",
    "0",
    "-",
    ".",
    "/",
    ":",
    " ",
    "\\",
    "'",
    '"',
    "(",
    "[",
    "{",
    "a.",
    "1.",
    "a/",
    "a-",
    "k",
    "::",
    "a,",
)
_BEFORE = ("", "a", "1", ".", "-")
_AFTER = ("", "\0", "x")
_UNANCHORED = "search|sub|finditer|findall|split"


def _patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, dict | list | tuple | frozenset):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _patterns_in(each, depth + 1)


def _expressions() -> dict[str, tuple[re.Pattern[Any], tuple[str, ...]]]:
    """All compiled patterns in modules, by name, with the methods that their module calls."""
    found: dict[str, tuple[re.Pattern[Any], tuple[str, ...]]] = {}
    for each in pkgutil.walk_packages(headgate.__path__, "headgate."):
        if each.name.endswith("__main__"):
            continue
        module = importlib.import_module(each.name)
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            for index, pattern in enumerate(_patterns_in(value)):
                unanchored = re.search(rf"\b{name}\.(?:{_UNANCHORED})\(", source) is not None
                methods = ("fullmatch", "search") if unanchored else ("fullmatch",)
                found[f"{each.name}.{name}[{index}]"] = pattern, methods
    return found


def _slowest_s(pattern: re.Pattern[Any], method: str, size: int) -> float:
    match: Callable[[str | bytes], object] = getattr(pattern, method)
    worst = 0.0
    for pump, before, after in product(_PUMPS, _BEFORE, _AFTER):
        text = before + pump * (size // len(pump)) + after
        subject = text if isinstance(pattern.pattern, str) else text.encode()
        run = partial(match, subject)
        took = _cpu_s(run)
        if took > SMALL_S:
            took = min(took, _cpu_s(run), _cpu_s(run))
        worst = max(worst, took)
    return worst


def test_no_regular_expression_backtracks_quadratically() -> None:
    """Two thousand characters take a few milliseconds; a quadratic expression takes longer."""
    expressions = _expressions()
    slow = {
        place: f"{took * 1000:.1f} ms"
        for place, (pattern, methods) in expressions.items()
        for method in methods
        if (took := _slowest_s(pattern, method, 2_000)) > 0.008
    }
    assert slow == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("9" * 18, int("9" * 18)),
        ("0" * 50_000 + "5", 5),
        ("1" * 50_000, OUT_OF_RANGE),
        ("-" + "1" * 50_000, -OUT_OF_RANGE),
        ("", None),
        ("-", None),
        ("1_0", None),
        (" 1", None),
        ("1.0", None),
        ("١", None),
    ],
)
def test_an_integer_of_any_length_is_read(text: str, number: int | None) -> None:
    assert read_integer(text) == number


def test_a_natural_number_has_no_sign() -> None:
    assert read_natural("12") == 12
    assert read_natural("+12") is None
    assert read_natural("-12") is None


def test_a_quantity_may_have_an_exponent_with_many_zeros() -> None:
    assert quantity.parse("1e" + "0" * 5_000 + "3") == quantity.parse("1e3")
