"""Whether a policy allows a write of a pod or of a pod template. Pure: it reads both objects, the user, the policies in
effect and the numbers of waiting pods.

The rules only refuse; what RBAC and the API server refuse stays refused. A user *adds* the gates that a new pod has
when it is stored, also those of mutating webhooks, and those that a new pod template has and the old one had not. A
user *lifts* the gates that an update removes from a pod. ``docs/adr/0039-owners-of-gates.md`` has the reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headgate.gate_policies.api import GatePolicy, Subjects
from headgate.gate_policies.names import OWN_GATES
from headgate.kube.field_errors import quote
from headgate.kube.lenient_reader import find_items, find_text

Object = Mapping[str, Any]
FindPolicy = Callable[[str], GatePolicy | None]
CountPods = Callable[[str], int]
"""How many pods of the namespace of the request wait behind a gate."""


class Requester(msgspec.Struct, frozen=True):
    """``is_headgate``: Headgate itself. ``creates_for_others``: a controller that creates pods from templates."""

    user: str
    groups: tuple[str, ...] = ()
    is_headgate: bool = False
    creates_for_others: bool = False


def gates_of(spec: Object) -> tuple[str, ...]:
    """The gates in the spec of a pod or of a pod template, whatever else it holds."""
    return tuple(filter(None, (find_text(each, "name") for each in find_items(spec, "schedulingGates"))))


def refuse_new_pod(
    requester: Requester, gates: Iterable[str], find_policy: FindPolicy, count_pods: CountPods
) -> str | None:
    """Why the pod must not be created; None if it may. The limit of pods also holds for controllers."""
    for gate in dict.fromkeys(gates):
        policy = find_policy(gate)
        if policy is None:
            continue
        if not _may_add(requester, policy):
            return _refusal(requester, "add", gate, policy, policy.added_by)
        if policy.max_pods == 0:
            return (
                f"spec.schedulingGates: GatePolicy {quote(policy.name)} allows no pod behind the gate {quote(gate)} "
                "(maxPods: 0); leave the gate out, or ask an administrator for a higher limit"
            )
        if policy.max_pods is not None and (waiting := count_pods(gate)) >= policy.max_pods:
            return (
                f"spec.schedulingGates: {waiting} {'pod' if waiting == 1 else 'pods'} of this namespace "
                f"{'waits' if waiting == 1 else 'wait'} behind the gate {quote(gate)}, and "
                f"GatePolicy {quote(policy.name)} allows {policy.max_pods} (maxPods); create the pod when a gate is "
                "lifted, or ask an administrator for a higher limit"
            )
    return None


def refuse_new_template(
    requester: Requester, old: Iterable[str], new: Iterable[str], find_policy: FindPolicy, path: str
) -> str | None:
    """Why the pod template must not be written; None if it may. ``old`` and ``new``: its gates. ``path``: of the spec
    of the pods, for the message."""
    before = frozenset(old)
    for gate in dict.fromkeys(new):
        policy = find_policy(gate)
        if gate not in before and policy is not None and not _may_add(requester, policy):
            return _refusal(requester, "add", gate, policy, policy.added_by, path)
    return None


def refuse_lifting(requester: Requester, old: Iterable[str], new: Iterable[str], find_policy: FindPolicy) -> str | None:
    """Why the update of a pod must not remove gates; None if it may."""
    after = frozenset(new)
    for gate in dict.fromkeys(old):
        if gate in after:
            continue
        policy = find_policy(gate)
        if policy is not None and not _may_lift(requester, gate, policy):
            return _refusal(requester, "lift", gate, policy, policy.lifted_by)
    return None


def _may_add(requester: Requester, policy: GatePolicy) -> bool:
    return (
        policy.added_by is None
        or requester.creates_for_others
        or policy.added_by.include(requester.user, requester.groups)
    )


def _may_lift(requester: Requester, gate: str, policy: GatePolicy) -> bool:
    if policy.lifted_by is None or policy.lifted_by.include(requester.user, requester.groups):
        return True
    expires = policy.max_age_s is not None and policy.action_for(gate) == "Lift"
    return requester.is_headgate and (gate in OWN_GATES or expires)


def _refusal(
    requester: Requester, verb: str, gate: str, policy: GatePolicy, allowed: Subjects | None, path: str = "spec"
) -> str:
    names = ", ".join(allowed.display_names) if allowed is not None and allowed.display_names else "no user"
    return (
        f"{path}.schedulingGates: user {quote(requester.user)} may not {verb} the gate {quote(gate)}: GatePolicy "
        f"{quote(policy.name)} allows it for {names}"
    )
