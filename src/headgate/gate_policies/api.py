"""A GatePolicy, read from the wire.

Nothing raises: what cannot be read becomes a problem with its path, for the status of the policy, and the rest of the
policy is in effect. A list of subjects that cannot be read allows no user: an error must not open a gate.
``index.py`` finds the policy of a gate; ``definitions.py`` has the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from headgate.gate_policies.names import OWN_GATES
from headgate.kube.field_errors import quote
from headgate.kube.lenient_reader import find_text
from headgate.kube.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name
from headgate.kube.timestamps import parse_duration, parse_time

Object = Mapping[str, Any]
Action = Literal["Event", "Lift", "Delete"]

ACTIONS: Final[tuple[Action, ...]] = ("Event", "Lift", "Delete")
SUBJECT_KINDS: Final = ("User", "Group", "ServiceAccount")
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NS_PER_S: Final = 1_000_000_000


class Subjects(msgspec.Struct, frozen=True):
    """Users by name, service accounts included, and groups. ``display_names``: for messages."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    display_names: tuple[str, ...] = ()

    def include(self, user: str, groups: Iterable[str]) -> bool:
        return user in self.users or not self.groups.isdisjoint(groups)


class OwnerLease(msgspec.Struct, frozen=True):
    """The Lease that the owner of the gates renews."""

    namespace: str
    name: str


class GatePolicy(msgspec.Struct, frozen=True):
    """``added_by`` and ``lifted_by``: None if every user may. ``max_pods``: per gate and namespace. ``problems``: what
    is not in effect, and why."""

    name: str
    uid: str
    created: str
    generation: int
    gates: tuple[str, ...]
    added_by: Subjects | None = None
    lifted_by: Subjects | None = None
    max_pods: int | None = None
    max_age_s: float | None = None
    action: Action = "Event"
    lease: OwnerLease | None = None
    problems: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[float, str]:
        """Of two policies for the same gate, the older one is in effect; of equally old ones the first by name. A
        policy without a readable time is the youngest, so that it displaces no other."""
        created_s = parse_time(self.created)
        return (float("inf") if isinstance(created_s, str) else float(created_s), self.name)

    def action_for(self, gate: str) -> Action:
        """What happens to a pod that waits too long. Headgate's own gates are lifted by its queues only."""
        return "Event" if self.action == "Lift" and gate in OWN_GATES else self.action


class _Problems:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, path: str, text: str) -> None:
        self.texts.append(f"{path}: {text}")


def read_policy(wire: Object) -> GatePolicy:
    problems = _Problems()
    metadata, spec = wire.get("metadata"), wire.get("spec")
    metadata = metadata if isinstance(metadata, dict) else {}
    if not isinstance(spec, dict):
        problems.add("spec", "is missing; write at least spec.gates")
        spec = {}
    generation = metadata.get("generation")
    gates = tuple(_gates(spec, problems))
    action = _action(spec, gates, problems)
    return GatePolicy(
        name=find_text(metadata, "name"),
        uid=find_text(metadata, "uid"),
        created=find_text(metadata, "creationTimestamp"),
        generation=generation if isinstance(generation, int) else 0,
        gates=gates,
        added_by=_subjects(spec, "addedBy", problems),
        lifted_by=_subjects(spec, "liftedBy", problems),
        max_pods=_max_pods(spec, problems),
        max_age_s=_max_age_s(spec, problems),
        action=action,
        lease=_lease(spec, problems),
        problems=tuple(problems.texts),
    )


def _gates(spec: Object, problems: _Problems) -> Iterator[str]:
    listed = spec.get("gates")
    if not isinstance(listed, list) or not listed:
        problems.add("spec.gates", "names no gate")
        return
    seen = set[str]()
    for index, gate in enumerate(listed):
        path = f"spec.gates[{index}]"
        if not isinstance(gate, str):
            problems.add(path, "is not the name of a scheduling gate")
        elif errors := is_qualified_name(gate):
            problems.add(path, f"no pod can have a gate {quote(gate)}: {errors[0]}")
        elif gate not in seen:
            seen.add(gate)
            yield gate


def _subjects(spec: Object, field: str, problems: _Problems) -> Subjects | None:
    listed, path = spec.get(field), f"spec.{field}"
    if listed is None:
        return None
    if not isinstance(listed, list):
        problems.add(path, "is not a list of subjects, so it allows no user")
        return Subjects()
    users, groups, display_names = set[str](), set[str](), list[str]()
    for index, each in enumerate(listed):
        subject, at = each if isinstance(each, dict) else {}, f"{path}[{index}]"
        kind, name, namespace = (find_text(subject, key) for key in ("kind", "name", "namespace"))
        if kind not in SUBJECT_KINDS:
            problems.add(f"{at}.kind", f"{quote(kind)} is not one of {', '.join(SUBJECT_KINDS)}")
        elif not name:
            problems.add(f"{at}.name", "is required")
        elif kind == "Group":
            groups.add(name)
            display_names.append(f"group {name}")
        elif kind == "User":
            users.add(name)
            display_names.append(f"user {name}")
        elif is_dns1123_label(namespace) or is_dns1123_subdomain(name):
            problems.add(at, f"a ServiceAccount needs a name and a namespace; {quote(f'{namespace}/{name}')} is none")
        else:
            users.add(f"{_ACCOUNT_PREFIX}{namespace}:{name}")
            display_names.append(f"serviceaccount {namespace}/{name}")
    return Subjects(frozenset(users), frozenset(groups), tuple(display_names))


def _max_pods(spec: Object, problems: _Problems) -> int | None:
    found = spec.get("maxPods")
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        problems.add("spec.maxPods", "is not a number of pods, so there is no limit; write 0 or more")
        return None
    return found


def _max_age_s(spec: Object, problems: _Problems) -> float | None:
    found, path = spec.get("maxAge"), "spec.maxAge"
    if found is None:
        return None
    if not isinstance(found, str):
        problems.add(path, "is not a duration, so ages are not limited; write a duration such as 90m or 24h")
        return None
    nanoseconds = parse_duration(found)
    if isinstance(nanoseconds, str):
        problems.add(path, f"{nanoseconds}, so ages are not limited; write a duration such as 90m or 24h")
        return None
    if nanoseconds < _NS_PER_S:
        problems.add(path, f"{quote(found)} is less than a second, so ages are not limited")
        return None
    return nanoseconds / _NS_PER_S


def _action(spec: Object, gates: tuple[str, ...], problems: _Problems) -> Action:
    found = spec.get("onMaxAge")
    if found is None:
        return "Event"
    if found not in ACTIONS:
        problems.add("spec.onMaxAge", f"is not one of {', '.join(ACTIONS)}, so pods that wait too long get Events only")
        return "Event"
    own = sorted(OWN_GATES.intersection(gates))
    if found == "Lift" and own:
        why = "Headgate lifts it when its queue has capacity, so pods that wait too long get Events only"
        problems.add("spec.onMaxAge", f"Lift is not possible for {', '.join(own)}: {why}")
    return cast(Action, found)


def _lease(spec: Object, problems: _Problems) -> OwnerLease | None:
    found = spec.get("ownerLease")
    if found is None:
        return None
    lease = found if isinstance(found, dict) else {}
    namespace, name = find_text(lease, "namespace"), find_text(lease, "name")
    if is_dns1123_label(namespace) or is_dns1123_subdomain(name):
        problems.add("spec.ownerLease", "needs the namespace and the name of a Lease")
        return None
    return OwnerLease(namespace, name)
