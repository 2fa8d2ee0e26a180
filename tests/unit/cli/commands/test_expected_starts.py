"""Pods whose start no replay can tell."""

from __future__ import annotations

import pytest

from headgate.capacity.explanation import PodExplanation, PodHold
from headgate.cli.commands.expected_starts import unpredictable_hold


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
