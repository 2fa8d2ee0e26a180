"""The life cycle of hollow nodes: they start, send heartbeats, and fail as their annotations define.

It receives node events and timers, and returns writes to nodes. It notifies ``nodes/pod_workers.py`` when the readiness
of a node changes. ``nodes/node_record.py`` has the state of a node; ``nodes/node_status.py`` builds its status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from headgate.kube.backoff import ExponentialBackoff
from headgate.nodes.address_pool import NODE_POOL, AddressPool
from headgate.nodes.effects import DeleteNode, Effect, PatchNodeStatus, PatchNodeTaints, RenewLease
from headgate.nodes.node_record import NOT_READY, HollowNode, read
from headgate.nodes.node_status import more_resources, node_status
from headgate.nodes.options import HollowOptions
from headgate.nodes.pod_admission import counts_of
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

_RETRY_BACKOFF: Final = ExponentialBackoff(2.0, 60.0)
_CONFIRM_STATUS_S: Final = 1.0


class HollowNodes:
    def __init__(
        self,
        options: HollowOptions,
        timers: TimerHeap[tuple[str, str]],
        emit: Callable[[Effect], None],
        node_changed: Callable[[str, float], None],
        report_pods: Callable[[str], None],
    ) -> None:
        """``node_changed(name, now_s)`` is called after a node was added or removed, or changed its readiness or size.
        ``report_pods(name)`` is called when other components may have overwritten the status of its pods."""
        self._options = options
        self._timers = timers
        self._emit = emit
        self._node_changed = node_changed
        self._report_pods = report_pods
        self._nodes: dict[str, HollowNode] = {}
        self._addresses = AddressPool(NODE_POOL)
        self._timer_handlers: Final[dict[str, Callable[[HollowNode, float], None]]] = {
            "boot": self._boot,
            "flap": self._flap,
            "silent": self._stop_reporting,
            "killed": self._delete_node,
            "late": self._add_late_resources,
            "lease": self._heartbeat,
            "report": self._report_again,
            "node-retry": self._write_all,
            "confirm-status": self._confirm_status,
        }

    @property
    def nodes(self) -> Mapping[str, HollowNode]:
        return self._nodes

    # -- events ----------------------------------------------------------------------------------------------------

    def applied(self, obj: Object, now_s: float) -> None:
        observed = read(obj)
        node = self._nodes.get(observed.name)
        if node is not None and node.uid != observed.uid:
            self.removed(node.name, node.uid, now_s)
            node = None
        if node is None:
            self._nodes[observed.name] = observed
            self._set_defaults(observed)
            self._begin(observed, now_s)
            self._node_changed(observed.name, now_s)
            return
        was_hollow, was_observed, was_tainted = node.hollow, node.observed, node.tainted
        was_silent_s, was_allocatable = node.behaviour.silent_s, node.allocatable
        was_not_ready = node.behaviour.not_ready
        self._update(node, observed)
        if node.hollow != was_hollow:
            self._cancel_timers(node)
            node.booted_s = None
            self._begin(node, now_s)
            self._node_changed(node.name, now_s)
        elif node.alive and node.behaviour.not_ready != was_not_ready:
            self._set_ready(node, ready=was_not_ready, now_s=now_s)
        elif node.alive:  # a write for each earlier change was already emitted
            if node.observed != was_observed:
                self._correct_status(node, now_s)
                if was_observed == "Unknown":
                    self._timers.set(("confirm-status", node.name), now_s + _CONFIRM_STATUS_S)
            if node.tainted != was_tainted:
                self._update_taint(node)
            if node.allocatable != was_allocatable:
                self._node_changed(node.name, now_s)
            if node.behaviour.silent_s is not None and node.behaviour.silent_s != was_silent_s:
                self._timers.set(
                    ("silent", node.name), (node.booted_s or 0.0) + node.clock_offset_s + node.behaviour.silent_s
                )
        elif node.silent and was_silent_s is not None and node.behaviour.silent_s is None:
            node.silent = False
            self._set_timers(node, now_s)
            self._set_ready(node, ready=not node.behaviour.not_ready, now_s=now_s)

    def removed(self, name: str, uid: str, now_s: float) -> None:
        node = self._nodes.get(name)
        if node is None or node.uid != uid:
            return
        self._cancel_timers(node)
        self._addresses.release(node.ip)
        del self._nodes[name]
        self._node_changed(name, now_s)

    def timer_fired(self, timer: str, name: str, now_s: float) -> bool:
        """A timer is due. False if it is not a timer of nodes."""
        if timer not in self._timer_handlers:
            return False
        self._timer_handlers[timer](self._nodes[name], now_s)
        return True

    def failed(self, effect: PatchNodeStatus | PatchNodeTaints | DeleteNode | RenewLease, now_s: float) -> None:
        """A write failed and may be retried. A lease is renewed at the next heartbeat anyway."""
        node = self._nodes.get(effect.name)
        if node is None or node.uid != effect.uid or isinstance(effect, RenewLease):
            return
        node.failures += 1
        timer = "killed" if isinstance(effect, DeleteNode) else "node-retry"
        self._timers.set((timer, node.name), now_s + _RETRY_BACKOFF.delay_s(node.failures))

    def clock_moved(self, by_s: float) -> None:
        """The clock was set. Timers that count from the boot of a node keep their duration."""
        for node in self._nodes.values():
            node.clock_offset_s += by_s

    # -- life cycle ------------------------------------------------------------------------------------------------

    def _begin(self, node: HollowNode, now_s: float) -> None:
        if not node.hollow:
            return
        if node.observed == "True":  # another process booted it; its timers count from that time
            node.booted_s, node.ready, node.changed_s = node.observed_since_s, True, node.observed_since_s
            node.clock_offset_s = 0.0
            self._set_timers(node, now_s)
            if node.behaviour.not_ready:
                self._set_ready(node, ready=False, now_s=now_s)
            self._update_taint(node)
        elif not node.behaviour.boot_never:
            wait_s = self._options.boot_s if node.behaviour.boot_s is None else node.behaviour.boot_s
            self._timers.set(("boot", node.name), max(now_s, node.created_s + wait_s))

    def _boot(self, node: HollowNode, now_s: float) -> None:
        node.booted_s, node.clock_offset_s = now_s, 0.0
        self._set_timers(node, now_s)
        self._set_ready(node, ready=not node.behaviour.not_ready, now_s=now_s)

    def _set_timers(self, node: HollowNode, now_s: float) -> None:
        """Sets the timers of a node that has booted."""
        booted_s = (node.booted_s if node.booted_s is not None else now_s) + node.clock_offset_s
        behaviour = node.behaviour
        if behaviour.not_ready_every_s is not None and behaviour.not_ready_for_s is not None:
            self._timers.set(("flap", node.name), now_s + behaviour.not_ready_every_s)
        if behaviour.silent_s is not None:
            self._timers.set(("silent", node.name), booted_s + behaviour.silent_s)
        if behaviour.killed_s is not None:
            self._timers.set(("killed", node.name), booted_s + behaviour.killed_s)
        if behaviour.late_resources and any(name not in node.allocatable for name in behaviour.late_resources):
            self._timers.set(("late", node.name), booted_s + (behaviour.late_s or 0.0))
        if self._options.controller_manager:
            # Nodes that were started together must not send their heartbeats together.
            share = crc32(node.name.encode()) / 2**32
            self._emit(RenewLease(node.name, node.uid, now_s, self._options.lease_s))
            self._timers.set(("lease", node.name), now_s + self._options.heartbeat_s * share)
            self._timers.set(("report", node.name), now_s + self._options.report_s * (1 + share))

    def _set_ready(self, node: HollowNode, *, ready: bool, now_s: float) -> None:
        node.ready, node.changed_s = ready, now_s
        self._write_all(node, now_s)
        self._node_changed(node.name, now_s)

    def _flap(self, node: HollowNode, now_s: float) -> None:
        self._set_ready(node, ready=not node.ready and not node.behaviour.not_ready, now_s=now_s)
        wait_s = node.behaviour.not_ready_every_s if node.ready else node.behaviour.not_ready_for_s
        if wait_s is not None:
            self._timers.set(("flap", node.name), now_s + wait_s)

    def _stop_reporting(self, node: HollowNode, now_s: float) -> None:
        node.silent = True
        self._cancel_timers(node)
        if node.behaviour.killed_s is not None and node.booted_s is not None:
            self._timers.set(("killed", node.name), node.booted_s + node.clock_offset_s + node.behaviour.killed_s)
        self._node_changed(node.name, now_s)

    def _delete_node(self, node: HollowNode, now_s: float) -> None:
        node.silent = True
        self._cancel_timers(node)
        self._node_changed(node.name, now_s)
        self._emit(DeleteNode(node.name, node.uid))

    def _add_late_resources(self, node: HollowNode, now_s: float) -> None:
        self._emit(PatchNodeStatus(node.name, node.uid, more_resources(node.behaviour.late_resources)))

    def _heartbeat(self, node: HollowNode, now_s: float) -> None:
        self._emit(RenewLease(node.name, node.uid, now_s, self._options.lease_s))
        self._timers.set(("lease", node.name), now_s + self._options.heartbeat_s)

    def _confirm_status(self, node: HollowNode, now_s: float) -> None:
        """The component that set Ready to Unknown also marked the pods as not ready, so their status is written
        again."""
        self._report_pods(node.name)

    def _report_again(self, node: HollowNode, now_s: float) -> None:
        self._report(node, now_s)
        self._timers.set(("report", node.name), now_s + self._options.report_s)

    # -- writes ----------------------------------------------------------------------------------------------------

    def _correct_status(self, node: HollowNode, now_s: float) -> None:
        """Another client changed a field that the kubelet owns."""
        if node.observed != ("True" if node.ready else "False"):
            self._report(node, now_s)

    def _write_all(self, node: HollowNode, now_s: float) -> None:
        self._report(node, now_s)
        self._update_taint(node)

    def _report(self, node: HollowNode, now_s: float) -> None:
        self._emit(PatchNodeStatus(node.name, node.uid, node_status(node, self._options, now_s)))

    def _update_taint(self, node: HollowNode) -> None:
        """Adds or removes the not-ready taint, if there is no controller manager to do so."""
        if self._options.controller_manager or node.tainted != node.ready:
            return
        taint = {"key": NOT_READY, "$patch": "delete"} if node.ready else {"key": NOT_READY, "effect": "NoSchedule"}
        self._emit(PatchNodeTaints(node.name, node.uid, [taint]))

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def _cancel_timers(self, node: HollowNode) -> None:
        for timer in self._timer_handlers:
            self._timers.cancel((timer, node.name))

    def _set_defaults(self, node: HollowNode) -> None:
        if node.ip:
            self._addresses.claim(node.ip)
        elif node.hollow:
            node.ip = self._addresses.take() or ""
        if not node.has_capacity:
            node.allocatable = counts_of(self._options.resources)

    def _update(self, node: HollowNode, observed: HollowNode) -> None:
        """Copies the fields that the API owns; the fields that the kubelet owns stay."""
        node.hollow, node.behaviour = observed.hollow, observed.behaviour
        node.observed, node.observed_since_s, node.tainted = (
            observed.observed,
            observed.observed_since_s,
            observed.tainted,
        )
        node.has_node_info, node.has_capacity = observed.has_node_info, observed.has_capacity
        node.failures = 0
        node.pool = node.pool or observed.pool
        if observed.has_capacity:
            node.allocatable = observed.allocatable
        if observed.ip and observed.ip != node.ip:
            self._addresses.release(node.ip)
            node.ip = observed.ip
            self._addresses.claim(node.ip)
