"""Actions of the page: what a viewer asks for, and what it is called. ``io/action_runner.py`` performs them.

An action names one object and its uid, so that an object that was created again under the same name is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from headgate.kube.api_resources import PODS, APIResource
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.actions.queue_states import QUEUE_KINDS

ActionName = Literal["lift-gate", "hold", "resume", "set-priority"]
ObjectKind = Literal["Pod", "Namespace", "Queue", "ClusterQueue", "LocalQueue", "Workload"]

KINDS: Final[Mapping[str, APIResource]] = {"Pod": PODS, "Workload": WORKLOADS, **QUEUE_KINDS}
_TARGETS: Final[Mapping[ActionName, tuple[str, ...]]] = {
    "lift-gate": ("Pod", "Namespace"),
    "hold": ("Queue", "ClusterQueue", "LocalQueue", "Workload"),
    "resume": ("Queue", "ClusterQueue", "LocalQueue", "Workload"),
    "set-priority": ("Workload",),
}
_MAX_NAME: Final = 317
"""Of a gate: a domain, a slash and a name."""


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``name``: of the object; for ``Namespace`` empty, because all its pods with the gate are meant. ``value``: the
    gate, or the name of a WorkloadPriorityClass. ``uid``: of the object that was previewed; empty for a preview."""

    action: ActionName
    kind: ObjectKind
    namespace: str = ""
    name: str = ""
    value: str = ""
    uid: str = ""

    @property
    def title(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.namespace or self.name
        target = f"all pods of namespace {where}" if self.kind == "Namespace" else f"{self.kind} {where}"
        match self.action:
            case "lift-gate":
                return f"lift gate {self.value} of {target}"
            case "set-priority":
                return f"give {target} the priority of WorkloadPriorityClass {self.value}"
            case _:
                return f"{self.action} {target}"


class ActionAnswer(msgspec.Struct, frozen=True):
    """``effects``: what will happen, or has happened; ``problems``: what cannot be done, or has failed. ``uid``: of the
    object, for the request after a preview. ``affected``: how many objects are changed."""

    title: str
    effects: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    uid: str = ""
    affected: int = 0


def read_action(body: bytes) -> Action | str:
    """A returned string is the problem."""
    try:
        found = msgspec.json.decode(body, type=Action)
    except msgspec.DecodeError as problem:
        return f"the action is not valid: {problem}"
    if found.kind not in _TARGETS[found.action]:
        return f"{found.action} is for {', '.join(_TARGETS[found.action])}, not for {found.kind}"
    if found.action in ("lift-gate", "set-priority") and not found.value:
        return "the value is empty: name the gate, or the WorkloadPriorityClass"
    is_namespaced = found.kind in ("Pod", "Namespace", "LocalQueue", "Workload")
    if bool(found.namespace) is not is_namespaced or bool(found.name) is (found.kind == "Namespace"):
        return f"a {found.kind} is named by {'namespace and name' if is_namespaced else 'its name'}"
    if any(not _is_name(each) for each in (found.namespace, found.name)):
        return "the namespace or the name is not one of Kubernetes"
    if len(found.value) > _MAX_NAME:
        return "the value is too long"
    return found


def _is_name(text: str) -> bool:
    """Whether the text can be a part of a path; the API server checks the rest."""
    return len(text) <= 253 and all(each.isalnum() or each in "-." for each in text) and text.isascii()
