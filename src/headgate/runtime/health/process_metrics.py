"""Metrics of the process itself: its version, the Leases that it holds, and the failures of its components.

Every process has them, whatever its components are and whether it leads. The name and the label of the election metric
are those of other Kubernetes components. ``registry.py`` counts failures and adds these metrics to the page.
"""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator, Mapping
from typing import Final

import headgate
from headgate.kube.metrics import MetricFamily, Sample, exposition_text

_BUILD: Final = "headgate_build_info"
_LEADER: Final = "leader_election_master_status"
_FAILURES: Final = "headgate_component_failures_total"

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    _BUILD: MetricFamily(
        "gauge", "Always 1; the labels name the version of Headgate and of Python.", ("version", "python_version")
    ),
    _LEADER: MetricFamily("gauge", "1 if this process holds the Lease, 0 if it is a candidate for it.", ("name",)),
    _FAILURES: MetricFamily("counter", "Errors that ended a component, which then started again.", ("component",)),
}


class ProcessMetricsPage:
    def __init__(self) -> None:
        self._leads: Final[dict[str, bool]] = {}
        self._failures: Final[dict[str, int]] = {}

    def add_candidate(self, lease: str) -> None:
        """``lease``: the name of the Lease."""
        self._leads.setdefault(lease, False)

    @contextlib.contextmanager
    def leading(self, lease: str) -> Iterator[None]:
        """This process holds the Lease until the block ends."""
        self._leads[lease] = True
        try:
            yield
        finally:
            self._leads[lease] = False

    def add_component(self, component: str) -> None:
        """The failures of a component count from zero, so that a rate shows the first one, too."""
        self._failures.setdefault(component, 0)

    def failed(self, component: str) -> None:
        self._failures[component] = self._failures.get(component, 0) + 1

    def page(self) -> bytes:
        return exposition_text(FAMILIES, self._samples())

    def _samples(self) -> Iterator[Sample]:
        labels = ("version", headgate.__version__), ("python_version", platform.python_version())
        yield Sample(_BUILD, labels, 1)
        for lease, leads in sorted(self._leads.items()):
            yield Sample(_LEADER, (("name", lease),), int(leads))
        for component, count in sorted(self._failures.items()):
            yield Sample(_FAILURES, (("component", component),), count)
