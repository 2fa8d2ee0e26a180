"""Variants of a scenario in forked processes: `forked_variants.py`, and the crashes of `crashing_world.py`."""

from __future__ import annotations

import os

import pytest

from unit.controllers.forked_variants import UNDISTURBED, ForkedVariants


def test_every_variant_runs_to_its_end_and_the_scenario_continues() -> None:
    branches: ForkedVariants[tuple[str, list[str]]] = ForkedVariants()

    def tell() -> tuple[str, list[str]]:
        told = []
        for number in range(3):
            if branches.begin(f"other {number}"):
                told.append("another thing")
            told.append(str(number))
        return branches.title, told

    assert branches.run(tell) == {
        UNDISTURBED: (UNDISTURBED, ["0", "1", "2"]),
        "other 0": ("other 0", ["another thing", "0", "1", "2"]),
        "other 1": ("other 1", ["0", "another thing", "1", "2"]),
        "other 2": ("other 2", ["0", "1", "another thing", "2"]),
    }


def test_a_variant_that_fails_fails_the_test_with_its_title_and_reason() -> None:
    branches: ForkedVariants[None] = ForkedVariants()

    def tell() -> None:
        if branches.begin("the wrong one"):
            assert 1 + 1 == 3, "no sum"

    with pytest.raises(AssertionError, match=r"the wrong one:\n(.*\n)*.*no sum"):
        branches.run(tell)


def test_a_variant_whose_process_exits_fails_the_test() -> None:
    branches: ForkedVariants[None] = ForkedVariants()

    def tell() -> None:
        if branches.begin("the dead one"):
            os._exit(3)

    with pytest.raises(AssertionError, match="the dead one: the process died"):
        branches.run(tell)


def test_a_failure_of_the_undisturbed_scenario_is_raised() -> None:
    with pytest.raises(KeyError):
        ForkedVariants[None]().run(lambda: dict[str, None]()["absent"])
