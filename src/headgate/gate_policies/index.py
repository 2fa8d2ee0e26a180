"""All GatePolicies, and for each gate the one that is in effect.

If several policies name a gate, the oldest is in effect for it. The others keep their other gates, and their status
names the conflict. The cost of a change depends on the gates of the changed policy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.gate_policies.api import GatePolicy


class GatePolicyIndex:
    def __init__(self) -> None:
        self._policies: Final[dict[str, GatePolicy]] = {}
        self._by_gate: Final[dict[str, dict[str, GatePolicy]]] = {}
        self._gates: frozenset[str] | None = frozenset()

    def __iter__(self) -> Iterator[GatePolicy]:
        return iter(self._policies.values())

    def get(self, name: str) -> GatePolicy | None:
        return self._policies.get(name)

    def apply(self, policy: GatePolicy) -> frozenset[str]:
        """Adds or replaces a policy. Returns the gates that it names or named."""
        before = self.remove(policy.name)
        self._policies[policy.name] = policy
        for gate in policy.gates:
            self._by_gate.setdefault(gate, {})[policy.name] = policy
        self._gates = None
        return before.union(policy.gates)

    def remove(self, name: str) -> frozenset[str]:
        """Returns the gates that the policy named."""
        policy = self._policies.pop(name, None)
        if policy is None:
            return frozenset()
        for gate in policy.gates:
            named = self._by_gate[gate]
            del named[name]
            if not named:
                del self._by_gate[gate]
        self._gates = None
        return frozenset(policy.gates)

    def of_gate(self, gate: str) -> GatePolicy | None:
        """The policy that is in effect for the gate."""
        named = self._by_gate.get(gate)
        return min(named.values(), key=lambda each: each.rank) if named else None

    def naming(self, gate: str) -> tuple[str, ...]:
        """The names of all policies that name the gate."""
        return tuple(sorted(self._by_gate.get(gate, ())))

    @property
    def gates(self) -> frozenset[str]:
        """The gates that have a policy."""
        if self._gates is None:
            self._gates = frozenset(self._by_gate)
        return self._gates
