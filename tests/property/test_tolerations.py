"""Tolerations that are found by the key of a taint, against tolerations that are compared one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cost_growth import TIMES, cpu_s, too_steep
from headgate.kube.taints import TolerationIndex, count_untolerated_preferences, first_untolerated, tolerates

_KEYS, _VALUES = st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", "x", "5"])
_EFFECTS = st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"])
_TAINTS = st.fixed_dictionaries({"key": _KEYS, "value": _VALUES, "effect": _EFFECTS})
_TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": _KEYS,
        "operator": st.sampled_from(["Equal", "Exists", "Lt", "Gt"]),
        "value": _VALUES,
        "effect": _EFFECTS,
        "tolerationSeconds": st.integers(0, 3),
    },
)


@given(_TAINTS, st.lists(_TOLERATIONS, max_size=30), st.booleans())
@settings(max_examples=500)
def test_the_first_toleration_of_a_taint_is_found(
    taint: dict[str, Any], tolerations: list[dict[str, Any]], comparisons: bool
) -> None:
    expected = next((each for each in tolerations if tolerates(each, taint, comparisons=comparisons)), None)
    found = TolerationIndex(tolerations).first_match(taint, comparisons=comparisons)
    assert found == expected


def _cost_s(count: int) -> float:
    taints = [{"key": f"t{number}", "effect": "PreferNoSchedule"} for number in range(count)]
    taints.append({"key": "last", "effect": "NoSchedule"})
    tolerations: list[dict[str, Any]] = [{"key": f"p{number}", "operator": "Exists"} for number in range(count)]
    tolerations += [{"operator": "Exists", "effect": "NoExecute"}] * count

    def count_and_find() -> None:
        assert count_untolerated_preferences(taints, tolerations) == count
        assert first_untolerated(taints, tolerations) == taints[-1]

    return cpu_s(count_and_find)


@pytest.mark.measured
def test_eight_times_as_many_taints_and_tolerations_cost_about_eight_times_as_much() -> None:
    assert not too_steep(lambda: _cost_s(1_000), lambda: _cost_s(1_000 * TIMES))
