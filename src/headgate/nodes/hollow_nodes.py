"""The life cycle of hollow nodes: they start, send heartbeats, and fail when an annotation asks for it.

Node events and timers come in, writes to nodes go out, and ``nodes/pod_workers.py`` is notified when a node's readiness
changed. ``nodes/node_record.py`` has the state of a node; ``nodes/node_status.py`` builds its status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from headgate.nodes.address_pool import NODE_POOL, AddressPool
from headgate.nodes.effects import DeleteNode, Effect, PatchNodeStatus, PatchNodeTaints, RenewLease
from headgate.nodes.node_record import NOT_READY, HollowNode, read
from headgate.nodes.node_status import more_resources, node_status
from headgate.nodes.options import HollowOptions
from headgate.nodes.pod_admission import counts_of
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

_MOST_RETRY_S: Final = 60.0
_CONFIRM_STATUS_S: Final = 1.0


class HollowNodes:
    def __init__(
        self,
        options: HollowOptions,
        timers: TimerHeap[tuple[str, str]],
        emit: Callable[[Effect], None],
        tell: Callable[[str, float], None],
        repeat: Callable[[str], None],
    ) -> None:
        """``tell(name, now_s)`` is called after a node came, went, or changed its readiness or size, and
        ``repeat(name)`` when others may have said of its pods what they did not know."""
        self._options = options
        self._timers = timers
        self._emit = emit
        self._tell = tell
        self._repeat = repeat
        self._nodes: dict[str, HollowNode] = {}
        self._addresses = AddressPool(NODE_POOL)
        self._bells: Final[dict[str, Callable[[HollowNode, float], None]]] = {
            "boot": self._boot,
            "flap": self._flap,
            "silent": self._stop_reporting,
            "killed": self._delete_node,
            "late": self._add_late_resources,
            "lease": self._heartbeat,
            "report": self._report_again,
            "node-retry": self._write_all,
            "believed": self._confirm_status,
        }

    @property
    def nodes(self) -> Mapping[str, HollowNode]:
        return self._nodes

    # -- events ----------------------------------------------------------------------------------------------------

    def applied(self, obj: Object, now_s: float) -> None:
        seen = read(obj)
        node = self._nodes.get(seen.name)
        if node is not None and node.uid != seen.uid:
            self.removed(node.name, node.uid, now_s)
            node = None
        if node is None:
            self._nodes[seen.name] = seen
            self._place(seen)
            self._begin(seen, now_s)
            self._tell(seen.name, now_s)
            return
        was_hollow, was_observed, was_tainted = node.hollow, node.observed, node.tainted
        was_to_fall_silent, was_allocatable = node.behaviour.silent_s, node.allocatable
        self._follow(node, seen)
        if node.hollow != was_hollow:
            self._quiet(node)
            node.booted_s = None
            self._begin(node, now_s)
            self._tell(node.name, now_s)
        elif node.alive:  # what did not change has been answered, or is being answered
            if node.observed != was_observed:
                self._correct(node, now_s)
                if was_observed == "Unknown":
                    self._timers.set(("believed", node.name), now_s + _CONFIRM_STATUS_S)
            if node.tainted != was_tainted:
                self._retaint(node)
            if node.allocatable != was_allocatable:
                self._tell(node.name, now_s)
            if node.behaviour.silent_s is not None and node.behaviour.silent_s != was_to_fall_silent:
                self._timers.set(("silent", node.name), (node.booted_s or 0.0) + node.moved_s + node.behaviour.silent_s)
        elif node.silent and was_to_fall_silent is not None and node.behaviour.silent_s is None:
            node.silent = False
            self._set_timers(node, now_s)
            self._set_ready(node, ready=True, now_s=now_s)

    def removed(self, name: str, uid: str, now_s: float) -> None:
        node = self._nodes.get(name)
        if node is None or node.uid != uid:
            return
        self._quiet(node)
        self._addresses.release(node.ip)
        del self._nodes[name]
        self._tell(name, now_s)

    def timer_fired(self, bell: str, name: str, now_s: float) -> bool:
        """A timer ran out; false if it was not one of these."""
        if bell not in self._bells:
            return False
        self._bells[bell](self._nodes[name], now_s)
        return True

    def failed(self, effect: PatchNodeStatus | PatchNodeTaints | DeleteNode | RenewLease, now_s: float) -> None:
        """A write did not reach the server, and may be tried again. A heartbeat comes again by itself."""
        node = self._nodes.get(effect.name)
        if node is None or node.uid != effect.uid or isinstance(effect, RenewLease):
            return
        node.failures += 1
        wait_s = min(2.0 ** min(node.failures, 10), _MOST_RETRY_S)
        bell = "killed" if isinstance(effect, DeleteNode) else "node-retry"
        self._timers.set((bell, node.name), now_s + wait_s)

    def clock_moved(self, by_s: float) -> None:
        """The clock was set. What was to happen so long after a node booted still takes as long."""
        for node in self._nodes.values():
            node.moved_s += by_s

    # -- life ------------------------------------------------------------------------------------------------------

    def _begin(self, node: HollowNode, now_s: float) -> None:
        if not node.hollow:
            return
        if node.observed == "True":  # another process booted it; its faults go on counting from then
            node.booted_s, node.ready, node.changed_s = node.observed_since_s, True, node.observed_since_s
            node.moved_s = 0.0
            self._set_timers(node, now_s)
            self._retaint(node)
        elif not node.behaviour.boot_never:
            wait_s = self._options.boot_s if node.behaviour.boot_s is None else node.behaviour.boot_s
            self._timers.set(("boot", node.name), max(now_s, node.created_s + wait_s))

    def _boot(self, node: HollowNode, now_s: float) -> None:
        node.booted_s, node.moved_s = now_s, 0.0
        self._set_timers(node, now_s)
        self._set_ready(node, ready=True, now_s=now_s)

    def _set_timers(self, node: HollowNode, now_s: float) -> None:
        """Sets everything that happens to a node after it has booted."""
        booted_s = (node.booted_s if node.booted_s is not None else now_s) + node.moved_s
        wishes = node.behaviour
        if wishes.not_ready_every_s is not None and wishes.not_ready_for_s is not None:
            self._timers.set(("flap", node.name), now_s + wishes.not_ready_every_s)
        if wishes.silent_s is not None:
            self._timers.set(("silent", node.name), booted_s + wishes.silent_s)
        if wishes.killed_s is not None:
            self._timers.set(("killed", node.name), booted_s + wishes.killed_s)
        if wishes.late_resources and any(name not in node.allocatable for name in wishes.late_resources):
            self._timers.set(("late", node.name), booted_s + (wishes.late_s or 0.0))
        if self._options.controller_manager:
            # A fleet that was started at once must not beat at once for ever.
            share = crc32(node.name.encode()) / 2**32
            self._emit(RenewLease(node.name, node.uid, now_s, self._options.lease_s))
            self._timers.set(("lease", node.name), now_s + self._options.heartbeat_s * share)
            self._timers.set(("report", node.name), now_s + self._options.report_s * (1 + share))

    def _set_ready(self, node: HollowNode, *, ready: bool, now_s: float) -> None:
        node.ready, node.changed_s = ready, now_s
        self._write_all(node, now_s)
        self._tell(node.name, now_s)

    def _flap(self, node: HollowNode, now_s: float) -> None:
        self._set_ready(node, ready=not node.ready, now_s=now_s)
        wait_s = node.behaviour.not_ready_every_s if node.ready else node.behaviour.not_ready_for_s
        if wait_s is not None:
            self._timers.set(("flap", node.name), now_s + wait_s)

    def _stop_reporting(self, node: HollowNode, now_s: float) -> None:
        node.silent = True
        self._quiet(node)
        if node.behaviour.killed_s is not None and node.booted_s is not None:
            self._timers.set(("killed", node.name), node.booted_s + node.moved_s + node.behaviour.killed_s)
        self._tell(node.name, now_s)

    def _delete_node(self, node: HollowNode, now_s: float) -> None:
        node.silent = True
        self._quiet(node)
        self._tell(node.name, now_s)
        self._emit(DeleteNode(node.name, node.uid))

    def _add_late_resources(self, node: HollowNode, now_s: float) -> None:
        self._emit(PatchNodeStatus(node.name, node.uid, more_resources(node.behaviour.late_resources)))

    def _heartbeat(self, node: HollowNode, now_s: float) -> None:
        self._emit(RenewLease(node.name, node.uid, now_s, self._options.lease_s))
        self._timers.set(("lease", node.name), now_s + self._options.heartbeat_s)

    def _confirm_status(self, node: HollowNode, now_s: float) -> None:
        """Who took the node for dead said so of its pods, too: they are told of again when that is over."""
        self._repeat(node.name)

    def _report_again(self, node: HollowNode, now_s: float) -> None:
        self._report(node, now_s)
        self._timers.set(("report", node.name), now_s + self._options.report_s)

    # -- writes ----------------------------------------------------------------------------------------------------

    def _correct(self, node: HollowNode, now_s: float) -> None:
        """Another client changed a field that the kubelet owns."""
        if node.observed != ("True" if node.ready else "False"):
            self._report(node, now_s)

    def _write_all(self, node: HollowNode, now_s: float) -> None:
        self._report(node, now_s)
        self._retaint(node)

    def _report(self, node: HollowNode, now_s: float) -> None:
        self._emit(PatchNodeStatus(node.name, node.uid, node_status(node, self._options, now_s)))

    def _retaint(self, node: HollowNode) -> None:
        """A controller manager's work, done here where there is none."""
        if self._options.controller_manager or node.tainted != node.ready:
            return
        taint = {"key": NOT_READY, "$patch": "delete"} if node.ready else {"key": NOT_READY, "effect": "NoSchedule"}
        self._emit(PatchNodeTaints(node.name, node.uid, [taint]))

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    def _quiet(self, node: HollowNode) -> None:
        for bell in self._bells:
            self._timers.cancel((bell, node.name))

    def _place(self, node: HollowNode) -> None:
        if node.ip:
            self._addresses.claim(node.ip)
        elif node.hollow:
            node.ip = self._addresses.take() or ""
        if not node.sized:
            node.allocatable = counts_of(self._options.resources)

    def _follow(self, node: HollowNode, seen: HollowNode) -> None:
        """Takes over what the API says now; what the kubelet says of itself stays."""
        node.hollow, node.behaviour = seen.hollow, seen.behaviour
        node.observed, node.observed_since_s, node.tainted = seen.observed, seen.observed_since_s, seen.tainted
        node.described, node.sized = seen.described, seen.sized
        node.failures = 0
        node.pool = node.pool or seen.pool
        if seen.sized:
            node.allocatable = seen.allocatable
        if seen.ip and seen.ip != node.ip:
            self._addresses.release(node.ip)
            node.ip = seen.ip
            self._addresses.claim(node.ip)
