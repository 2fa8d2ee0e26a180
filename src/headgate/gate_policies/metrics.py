"""Metrics of GatePolicies. Administrators create the policies, so the number of series is limited by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from headgate.kube.metrics import MetricFamily, Sample, exposition_text

WAITING: Final = "headgate_gate_policy_pods"
OVERDUE: Final = "headgate_gate_policy_overdue_pods"
OLDEST: Final = "headgate_gate_policy_oldest_seconds"
OWNER: Final = "headgate_gate_policy_owner_alive"
POLICY_ACCEPTED: Final = "headgate_gate_policy_accepted"
_ACTIONS: Final = "headgate_gate_policy_actions_total"

FAMILIES: Final[Mapping[str, MetricFamily]] = {
    WAITING: MetricFamily("gauge", "Pods that wait behind a gate of the policy.", ("policy", "gate")),
    OVERDUE: MetricFamily("gauge", "Those of them that wait longer than maxAge.", ("policy", "gate")),
    OLDEST: MetricFamily("gauge", "Age of the oldest pod behind the gate.", ("policy", "gate")),
    OWNER: MetricFamily("gauge", "Whether the Lease of the owner is renewed; absent while unknown.", ("policy",)),
    POLICY_ACCEPTED: MetricFamily("gauge", "Whether the whole policy is in effect.", ("policy",)),
    _ACTIONS: MetricFamily("counter", "Pods that waited longer than maxAge, by what was done.", ("policy", "action")),
}


class GatePolicyMetrics:
    """``attach``: the running controller gives its gauges; without one there are only the counters."""

    def __init__(self) -> None:
        self._actions: Final[dict[tuple[str, str], int]] = {}
        self._gauges: Callable[[float], Iterator[Sample]] | None = None

    def attach(self, gauges: Callable[[float], Iterator[Sample]]) -> None:
        self._gauges = gauges

    def detach(self) -> None:
        self._gauges = None

    def acted(self, policy: str, action: str) -> None:
        self._actions[policy, action] = self._actions.get((policy, action), 0) + 1

    def policy_removed(self, policy: str) -> None:
        for key in [key for key in self._actions if key[0] == policy]:
            del self._actions[key]

    def page(self, now_s: float) -> bytes:
        return exposition_text(FAMILIES, self._samples(now_s))

    def _samples(self, now_s: float) -> Iterator[Sample]:
        if self._gauges is not None:
            yield from self._gauges(now_s)
        for (policy, action), count in sorted(self._actions.items()):
            yield Sample(_ACTIONS, (("policy", policy), ("action", action)), count)
