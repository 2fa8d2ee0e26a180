"""The text of an expected start, and pods whose start no replay can tell."""

from __future__ import annotations

import pytest

from headgate.capacity.explanation import PodExplanation, PodHold
from headgate.cli.wiring.expected_starts import estimate_text, unpredictable_hold
from headgate.estimates.estimator import EstimateSettings, range_of


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (("plugin",), "it is not known when plugins let the pod pass: Odd"),
        (("plugin", "queue"), "it is not known when plugins let the pod pass: Odd"),
        (("queue", "node"), ""),
    ],
)
def test_there_is_no_basis_for_a_pod_that_a_plugin_holds(kinds: tuple[str, ...], reason: str) -> None:
    holds = tuple(PodHold(kind, "Odd", "text") for kind in kinds)
    assert unpredictable_hold(PodExplanation("ns", "p", "u", "waiting", "", "headgate", holds=holds)) == reason


def test_a_range_is_printed_with_its_probability() -> None:
    estimate = range_of([60.0 * (n + 1) for n in range(19)], 0.0, EstimateSettings())
    assert estimate_text(estimate, 0.0) == (
        "in 2m to 18m, between 1970-01-01T00:02:00Z and 1970-01-01T00:18:00Z, with a probability of 80%"
    )
