"""Printers of pods and pod templates.

The STATUS column is not a field: it is derived from phase, conditions and containers, where later findings override
earlier ones. :func:`pod_status` follows the order of ``kubectl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.apiserver.printers.cells import container_cells, is_true, labels_text, ratio
from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    Cells,
    Object,
    Printer,
    age_of,
    name_of,
    part,
    since,
    text,
    wide,
)

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_TERMINAL_CONDITIONS: Final[Mapping[str, list[dict[str, str]]]] = {
    phase: [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    for phase, message in (
        ("Succeeded", "The pod has completed successfully."),
        ("Failed", "The pod failed."),
    )
}


class PrintedPodStatus(msgspec.Struct):
    """The summary of the containers. ``last_restart`` is a timestamp or empty."""

    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Object) -> None:
        self.restarts += status.get("restartCount") or 0
        finished = part(status, "lastState", "terminated").get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def pod_status(pod: Object) -> PrintedPodStatus:
    spec, status = part(pod, "spec"), part(pod, "status")
    result = PrintedPodStatus(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            result.reason = "SchedulingGated"
    sidecars = {each.get("name") for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    result.total = len(spec.get("containers") or ()) + len(sidecars)
    initializing, sidecar_restarts = _initialization(result, spec, status, sidecars)
    if not initializing or is_true(status.get("conditions"), "Initialized"):
        result.restarts, result.last_restart = sidecar_restarts.restarts, sidecar_restarts.last_restart
        _containers(result, status)
    if part(pod, "metadata").get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            result.reason = "Unknown"
        elif status.get("phase") not in _TERMINAL:
            result.reason = "Terminating"
    return result


def _initialization(
    result: PrintedPodStatus, spec: Object, status: Object, sidecars: set[Any]
) -> tuple[bool, PrintedPodStatus]:
    """Adds the init containers to ``result``. Returns whether one of them still blocks the pod, and the restarts of
    sidecars, which are counted in any case."""
    sidecar_restarts = PrintedPodStatus("")
    for index, each in enumerate(status.get("initContainerStatuses") or ()):
        result.count_restarts(each)
        is_sidecar = each.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts.count_restarts(each)
        state = part(each, "state")
        terminated, waiting = state.get("terminated"), part(state, "waiting").get("reason") or ""
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and each.get("started"):
            result.ready += bool(each.get("ready"))
            continue
        if terminated is not None:
            result.reason = f"Init:{_termination(terminated)}"
        elif waiting and waiting != "PodInitializing":
            result.reason = f"Init:{waiting}"
        else:
            result.reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        return True, sidecar_restarts
    return False, sidecar_restarts


def _containers(result: PrintedPodStatus, status: Object) -> None:
    """The first container decides the reason; a running container overrides completed ones."""
    any_running, failure = False, ""
    for each in reversed(status.get("containerStatuses") or ()):
        result.count_restarts(each)
        state = part(each, "state")
        terminated, waiting = state.get("terminated"), part(state, "waiting").get("reason") or ""
        if waiting:
            result.reason = waiting
        elif terminated is not None:
            result.reason = _termination(terminated)
            if terminated.get("exitCode"):
                failure = result.reason
        elif each.get("ready") and state.get("running") is not None:
            any_running = True
            result.ready += 1
    if result.reason == "Completed":
        if any_running and _any_ready(status):
            result.reason = "Running"
        elif failure:
            result.reason = failure
        elif any_running:
            result.reason = "NotReady"


def _any_ready(status: Object) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())


def _termination(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _pod_cells(pod: Object, now: float) -> Cells:
    spec, status = part(pod, "spec"), part(pod, "status")
    shown = pod_status(pod)
    restarts = str(shown.restarts)
    if shown.restarts and shown.last_restart:
        restarts = f"{restarts} ({since(shown.last_restart, now)} ago)"
    ips = status.get("podIPs") or ()
    return [
        name_of(pod),
        ratio(shown.ready, shown.total),
        shown.reason,
        restarts,
        age_of(pod, now),
        (ips[0].get("ip") if ips else status.get("podIP")) or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def _readiness_gates(spec: Object, status: Object) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return NONE
    conditions = status.get("conditions")
    return ratio(sum(is_true(conditions, gate.get("conditionType")) for gate in gates), len(gates))


def _pod_conditions(pod: Object) -> list[dict[str, str]]:
    return _TERMINAL_CONDITIONS.get(part(pod, "status").get("phase", ""), [])


def _template_cells(obj: Object, now: float) -> Cells:
    template = part(obj, "template")
    return [
        name_of(obj),
        *container_cells(part(template, "spec")),
        labels_text(part(template, "metadata").get("labels")),
    ]


POD: Final = Printer(
    (
        NAME,
        text("Ready", "Containers that are ready, of all."),
        text("Status", "The state of the pod, or why it does not run."),
        text("Restarts", "How often containers restarted, and when last."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "Where it runs."),
        wide("Nominated Node", "The node that is reserved for it after a preemption."),
        wide("Readiness Gates", "Readiness gates that are passed, of all."),
    ),
    _pod_cells,
    _pod_conditions,
)

POD_TEMPLATE: Final = Printer(
    (
        NAME,
        text("Containers", "Names of the containers."),
        text("Images", "Images of the containers."),
        text("Pod Labels", "Labels that its pods get."),
    ),
    _template_cells,
)
