"""The binding cycle: pods that have a node pass Reserve, Permit, PreBind and Bind, or return to the scheduling queue.

Each pod passes these points in order and independently of other pods (states: ``pod_lifecycle.py``). A point that needs
the API server or a Permit plugin ends with an effect or a wait, and continues with the response. Meanwhile the node
matrix counts the pod as assumed, so no other pod gets its capacity. A binding with an unknown outcome is repeated *on
the same node* until the outcome is known: releasing the capacity earlier could allocate it twice.
``scheduling/schedule_one.py`` handles a pod whose binding failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube import conditions
from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events, result_checks
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.effects import Bind, Effect, ObjectPatch, PreBindWrites
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.framework.interface import (
    ErrorRejection,
    PermitWait,
    PreBindPending,
    Rejection,
    ReleasingPermitPlugin,
)
from headgate.scheduling.framework.plugin_timers import (
    BIND,
    ERROR,
    PERMIT,
    POST_BIND,
    PRE_BIND,
    RESERVE,
    SUCCESS,
    UNRESERVE,
    UNSCHEDULABLE,
    ProfileTimers,
)
from headgate.scheduling.framework.result_checks import is_built_in
from headgate.scheduling.framework.stable_hints import report_failures
from headgate.scheduling.metrics.scheduler_metrics import SchedulerMetrics
from headgate.scheduling.pod_lifecycle import PodEvent, PodState, next_state
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.waiting.heap import DeadlineHeap
from headgate.waiting.parking_lot import ParkingLot

_RETRY_BACKOFF: Final = ExponentialBackoff(1.0, 2.0)
"""The limit is short because few bindings are in flight, and all of them wait while the API server restarts."""
_POINTS: Final[Mapping[str, str]] = {
    "reserve": RESERVE,
    "unreserve": UNRESERVE,
    "permit": PERMIT,
    "pre_bind": PRE_BIND,
    "awaited": PRE_BIND,
    "bind": BIND,
    "post_bind": POST_BIND,
}


# Mutable: the state of one binding cycle.
class BindingCycle(msgspec.Struct, eq=False):
    """One pod in its binding cycle. ``since_s``: when the attempt began. ``waiting_on``: the Permit plugins that hold
    the pod, each with its deadline."""

    queued: QueuedPodInfo[PodInfo]
    pod: PodInfo
    framework: Framework
    node_name: str
    since_s: float
    waiting_on: dict[str, float] = {}
    retries: int = 0
    writes: list[tuple[str, tuple[ObjectPatch, ...]]] = []
    """The writes of PreBind plugins that are not done yet, by plugin; the first is in progress."""
    binder: str = ""
    """The plugin that binds the pod by a write of its own."""

    @property
    def state(self) -> PodState | None:
        return self.queued.state

    def advance(self, event: PodEvent) -> None:
        """Change the state of the pod as the table in ``pod_lifecycle.py`` says for this event."""
        self.queued.state = next_state(self.queued.state, event)


class PluginWait(msgspec.Struct, frozen=True):
    """The extension point and the plugin that a pod with a node waits for. ``text``: what it waits for."""

    point: str
    plugin: str
    text: str


class BindingFailure(msgspec.Struct, frozen=True):
    """The binding cycle of a pod failed. Without rejections it was an error, and the pod is retried after backoff."""

    cycle: BindingCycle
    message: str
    rejections: tuple[Rejection, ...] = ()


Step = Effect | BindingFailure
"""What a binding cycle yields: an effect for the runtime, or its failure, which ``schedule_one.py`` handles."""


class BindingCycles:
    """The binding cycles of all pods, by uid."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._failures = metrics.plugin_failures
        self._timers: dict[str, ProfileTimers] = {}
        self._cycles: dict[str, BindingCycle] = {}
        self._deadlines: DeadlineHeap[str] = DeadlineHeap()
        self._waiting_on_permit: dict[str, None] = {}
        self._waiting_on_pre_bind: ParkingLot[str, str] = ParkingLot()
        self._newly_waiting: list[str] = []
        self._unconfirmed: dict[str, str] = {}  # pods that a Bind plugin wrote and the watch does not show as bound yet

    def __len__(self) -> int:
        return len(self._cycles)

    def get(self, uid: str) -> BindingCycle | None:
        return self._cycles.get(uid)

    def next_deadline_s(self) -> float | None:
        return self._deadlines.next_deadline_s()

    # Steps

    def begin(
        self, queued: QueuedPodInfo[PodInfo], framework: Framework, node_name: str, now_s: float
    ) -> Iterator[Step]:
        """Begin the binding cycle of a pod that is assumed on the node."""
        cycle = BindingCycle(queued, queued.pod, framework, node_name, now_s, waiting_on={}, writes=[])
        self._cycles[queued.uid] = cycle
        timers = self._profile_timers(framework)
        timers.begin()
        yield from self._reserve_and_permit(cycle, framework, now_s)
        timers.end()
        yield from self._release_permitted(framework, now_s)

    def _reserve_and_permit(self, cycle: BindingCycle, framework: Framework, now_s: float) -> Iterator[Step]:
        for plugin in framework.binding_plugins["reserve"]:
            rejection = self._run_plugin(plugin, "reserve", cycle)
            if isinstance(rejection, Rejection):
                yield self._fail(cycle, rejection, RESERVE, plugin)
                return
        for plugin in framework.binding_plugins["permit"]:
            found = self._run_plugin(plugin, "permit", cycle)
            if isinstance(found, Rejection):
                yield self._fail(cycle, found, PERMIT, plugin)
                return
            if isinstance(found, PermitWait):
                cycle.waiting_on[plugin.name] = now_s + found.timeout_s
        if cycle.waiting_on:
            cycle.advance(PodEvent.PERMIT_WAITS)
            self._waiting_on_permit[cycle.pod.uid] = None
            self._deadlines.put(cycle.pod.uid, min(cycle.waiting_on.values()))
            self._newly_waiting.append(cycle.pod.uid)
        else:
            yield from self._run_pre_bind(cycle, now_s)

    def _release_permitted(self, framework: Framework, now_s: float) -> Iterator[Step]:
        """Continues or fails the pods that Permit plugins have allowed or rejected by now."""
        if not self._waiting_on_permit:
            return
        for plugin in framework.binding_plugins["permit"]:
            if not isinstance(plugin, ReleasingPermitPlugin):
                continue
            for uid, rejection in self._released_by(plugin).items():
                cycle = self._cycles.get(uid)
                if cycle is None or cycle.state is not PodState.PERMIT or plugin.name not in cycle.waiting_on:
                    continue
                if rejection is not None:
                    self._metrics.waited_for_permit(UNSCHEDULABLE, now_s - cycle.since_s)
                    yield self._fail(cycle, rejection, PERMIT, plugin)
                    continue
                del cycle.waiting_on[plugin.name]
                if not cycle.waiting_on:
                    self._metrics.waited_for_permit(SUCCESS, now_s - cycle.since_s)
                    self._stop_waiting(uid)
                    yield from self._run_pre_bind(cycle, now_s)

    def _released_by(self, plugin: Any) -> dict[str, Rejection | None]:
        """The results of a Permit plugin for pods that wait for it. An invalid result fails all of them."""
        try:
            found = result_checks.released_pods(plugin.released())
        except BaseException as error:
            held = (uid for uid in self._waiting_on_permit if plugin.name in self._cycles[uid].waiting_on)
            return dict.fromkeys(held, self._plugin_failed(plugin, "released", error))
        return {uid: self._check_released(plugin, each) for uid, each in found.items()}

    def _check_released(self, plugin: Any, found: Any) -> Rejection | None:
        try:
            rejection = result_checks.rejection(found, plugin.name)
        except BaseException as error:
            return self._plugin_failed(plugin, "released", error)
        self._report_hint_failures(plugin, rejection)
        return rejection

    def _run_pre_bind(self, cycle: BindingCycle, now_s: float) -> Iterator[Step]:
        for plugin in cycle.framework.binding_plugins["preBind"]:
            found = self._run_plugin(plugin, "pre_bind", cycle)
            if isinstance(found, Rejection):
                yield self._fail(cycle, found, PRE_BIND, plugin)
                return
            if found:
                cycle.writes.append((plugin.name, tuple(found)))
        yield from self._begin_next_writes(cycle, now_s)

    def _begin_next_writes(self, cycle: BindingCycle, now_s: float) -> Iterator[Step]:
        """Starts the writes of the next plugin. The plugins write one after another, so that a failed write can be
        attributed to its plugin."""
        if cycle.writes:
            cycle.advance(PodEvent.WRITES)
            yield PreBindWrites(cycle.pod, cycle.writes[0][1])
        else:
            yield from self._check_pre_bind_waits(cycle, now_s)

    def prepared(self, cycle: BindingCycle, problem: str, now_s: float) -> Iterator[Step]:
        """The writes of a PreBind plugin are done. ``problem``: why they failed; empty if they succeeded."""
        if cycle.state is not PodState.PRE_BIND_WRITES:
            return
        plugin, _ = cycle.writes.pop(0)
        if problem:
            yield self._fail(cycle, _plugin_message(PRE_BIND, plugin, problem))
        else:
            yield from self._begin_next_writes(cycle, now_s)

    def _check_pre_bind_waits(self, cycle: BindingCycle, now_s: float) -> Iterator[Step]:
        """Calls the PreBind plugins that wait for other components; binds the pod when all of them are done."""
        is_first = cycle.state is not PodState.PRE_BIND_WAIT
        for plugin in cycle.framework.awaiting_plugins:
            found = self._run_plugin(plugin, "awaited", cycle)
            timeout_s = self._timeout(plugin) if isinstance(found, PreBindPending) and is_first else 0.0
            if isinstance(timeout_s, ErrorRejection):
                found = timeout_s
            elif isinstance(found, PreBindPending):
                cycle.advance(PodEvent.WAITS)
                self._waiting_on_pre_bind.park(cycle.pod.uid, plugin.name, found.wakers, ())
                if is_first:
                    self._deadlines.put(cycle.pod.uid, now_s + timeout_s)
                    self._newly_waiting.append(cycle.pod.uid)
                return
            if found is not None:
                why = _plugin_message(PRE_BIND, plugin.name, found) if isinstance(found, str) else found
                yield self._fail(cycle, why)
                return
        self._stop_waiting(cycle.pod.uid)
        yield from self._bind(cycle, PodEvent.PREPARED)

    def _bind(self, cycle: BindingCycle, event: PodEvent) -> Iterator[Step]:
        """Run the Bind plugins until one of them binds the pod."""
        cycle.advance(event)
        for plugin in cycle.framework.binding_plugins["bind"]:
            found = self._run_plugin(plugin, "bind", cycle)
            if isinstance(found, Rejection):
                yield self._fail(cycle, found)
                return
            if found is not None:
                is_written = isinstance(found, ObjectPatch) or found.instead is not None
                cycle.binder = plugin.name if is_written else ""
                yield found if isinstance(found, Bind) else Bind(cycle.pod, cycle.node_name, found)
                return
        yield self._fail(cycle, "no Bind plugin of the profile binds this pod")

    def event_happened(self, event: ClusterEvent, now_s: float) -> Iterator[Step]:
        """Calls ``awaited`` again for the pods whose PreBind plugins wait for this event."""
        for uid in list(self._waiting_on_pre_bind.wake(event)) if self._waiting_on_pre_bind else ():
            yield from self._check_pre_bind_waits(self._cycles[uid], now_s)

    def retry_later(self, cycle: BindingCycle, now_s: float) -> None:
        """The outcome of the binding is unknown: the binding is repeated later."""
        cycle.advance(PodEvent.OUTCOME_UNKNOWN)
        cycle.retries += 1
        self._deadlines.put(cycle.pod.uid, now_s + _RETRY_BACKOFF.delay_s(cycle.retries))

    def due(self, now_s: float) -> Iterator[Step]:
        """Repeat bindings that are due, and fail the pods whose wait in Permit or PreBind has timed out."""
        for uid in self._deadlines.due(now_s):
            cycle = self._cycles[uid]
            if cycle.state is PodState.BIND_RETRY:
                yield from self._bind(cycle, PodEvent.RETRIED)
            elif cycle.state is PodState.PERMIT:
                expired = min(cycle.waiting_on, key=lambda name: cycle.waiting_on[name])
                self._metrics.waited_for_permit(UNSCHEDULABLE, now_s - cycle.since_s)
                text = conditions.plugin_message(expired, "timed out waiting on permit", PERMIT)
                yield self._fail(cycle, Rejection(expired, text))
            else:
                why = self._waiting_on_pre_bind.info(uid)
                text = "timed out waiting for the work that was started before binding"
                yield self._fail(cycle, text if why is None else _plugin_message(PRE_BIND, why.reason, text))

    # Waiting pods

    def newly_waiting(self) -> list[str]:
        """Pods that began to wait for plugins since the last call; some may have continued since."""
        found, self._newly_waiting = self._newly_waiting, []
        return found

    def waiting(self, uid: str) -> PluginWait | None:
        """The external plugin that the pod waits for, if it waits for one."""
        cycle = self._cycles.get(uid)
        if cycle is None:
            return None
        if cycle.state is PodState.PERMIT:
            first = min(cycle.waiting_on, key=lambda name: cycle.waiting_on[name])
            wait_s = cycle.waiting_on[first] - cycle.since_s
            return PluginWait(
                PERMIT, first, f"the pod waits on permit for node {cycle.node_name}, for {wait_s:g} s at most"
            )
        why = self._waiting_on_pre_bind.info(uid) if cycle.state is PodState.PRE_BIND_WAIT else None
        if why is None or any(
            each.name == why.reason and is_built_in(each) for each in cycle.framework.awaiting_plugins
        ):
            return None
        return PluginWait(
            PRE_BIND, why.reason, f"waits for the work that it started before the pod is bound to {cycle.node_name}"
        )

    def written(self, cycle: BindingCycle) -> None:
        """The API server accepted what a Bind plugin wrote in place of a binding. The watch shows whether that binds
        the pod."""
        if cycle.binder:
            self._unconfirmed[cycle.pod.uid] = cycle.binder
            self._newly_waiting.append(cycle.pod.uid)

    def take_unconfirmed(self, uid: str) -> str:
        """The Bind plugin whose write was accepted and that should have bound the pod; empty if there is none. It is
        returned once."""
        return self._unconfirmed.pop(uid, "")

    # The end of a cycle

    def reject(self, uid: str, plugin: str, message: str) -> BindingFailure | None:
        """Rejects a pod that waits for Permit plugins; ``None`` if it does not wait. Any event may wake the
        pod, because it is not known why other nodes would reject it."""
        cycle = self._cycles.get(uid)
        if cycle is None or cycle.state is not PodState.PERMIT:
            return None
        return self._fail(cycle, Rejection(plugin, message, cluster_events.on(cluster_events.ANY, cluster_events.ALL)))

    def observed(self, uid: str, node_name: str = "") -> tuple[BindingCycle, Sequence[ObjectPatch]] | None:
        """The watch shows the pod on a node, or deleted. The cycle ends, unless a response is outstanding: then it ends
        with the response. Returns the cycle and the writes of PostBind plugins."""
        cycle = self._cycles.get(uid)
        if cycle is None or cycle.state in (PodState.PRE_BIND_WRITES, PodState.BIND):
            return None
        return cycle, self.end(cycle, is_bound=cycle.node_name == node_name)

    def end(self, cycle: BindingCycle, *, is_bound: bool) -> Sequence[ObjectPatch]:
        """Ends the cycle: PostBind runs for a bound pod, Unreserve in reverse order for any other."""
        self._remove(cycle)
        if is_bound:
            return [
                write
                for plugin in cycle.framework.binding_plugins["postBind"]
                for write in self._run_post_bind(plugin, cycle)
            ]
        for plugin in reversed(cycle.framework.binding_plugins["reserve"]):
            self._run_plugin(plugin, "unreserve", cycle)
        return ()

    def _fail(
        self, cycle: BindingCycle, reason: Rejection | str, point: str = "", plugin: Any = None
    ) -> BindingFailure:
        """End the cycle, because ``plugin`` rejected the pod at ``point``, or because of an error (a text). The message
        names a plugin that is not built in."""
        self.end(cycle, is_bound=False)
        if isinstance(reason, str):
            return BindingFailure(cycle, reason)
        if isinstance(reason, ErrorRejection):
            return BindingFailure(cycle, reason.reason)
        is_named = plugin is not None and not is_built_in(plugin)
        message = conditions.plugin_message(plugin.name, reason.reason, point) if is_named else reason.reason
        return BindingFailure(cycle, message, (reason,))

    def _remove(self, cycle: BindingCycle) -> None:
        self._cycles.pop(cycle.pod.uid, None)
        self._stop_waiting(cycle.pod.uid)

    def _stop_waiting(self, uid: str) -> None:
        self._deadlines.discard(uid)
        self._waiting_on_permit.pop(uid, None)
        self._waiting_on_pre_bind.release(uid)

    # Plugins

    def _profile_timers(self, framework: Framework) -> ProfileTimers:
        found = self._timers.get(framework.name)
        if found is None:
            found = self._timers[framework.name] = self._metrics.timers(framework.name)
        return found

    def _run_plugin(self, plugin: Any, method: str, cycle: BindingCycle) -> Any:
        """A plugin that raises or returns an invalid result fails the pod; the pod is tried again after a back-off."""
        timer = self._profile_timers(cycle.framework).timer(plugin.name, _POINTS[method])
        began_s = timer.begin()
        status = SUCCESS
        try:
            found = getattr(plugin, method)(cycle.pod, cycle.node_name)
            if not is_built_in(plugin):
                found = _check_result(plugin.name, method, found, cycle)
                self._report_hint_failures(plugin, found)
        except BaseException as error:
            found, status = self._plugin_failed(plugin, method, error, f"pod {cycle.pod.key}"), ERROR
        if began_s is not None:
            timer.end(began_s, UNSCHEDULABLE if isinstance(found, Rejection) and status is SUCCESS else status)
        return found

    def _run_post_bind(self, plugin: Any, cycle: BindingCycle) -> Iterable[ObjectPatch]:
        found = self._run_plugin(plugin, "post_bind", cycle)
        return () if isinstance(found, Rejection) else found

    def _report_hint_failures(self, plugin: Any, found: Any) -> None:
        if isinstance(found, Rejection | PreBindPending):
            report_failures(
                found.wakers, lambda error: self._failures.failed(plugin, "matches of a queueing hint", error)
            )

    def _timeout(self, plugin: Any) -> float | ErrorRejection:
        try:
            return result_checks.seconds(plugin.timeout_s, "timeout_s")
        except BaseException as error:
            return self._plugin_failed(plugin, "timeout_s", error)

    def _plugin_failed(self, plugin: Any, method: str, error: BaseException, subject: str = "") -> ErrorRejection:
        """Logs the failure. Returns a rejection with its text, for the condition of the pod."""
        self._failures.failed(plugin, method, error, subject)
        return ErrorRejection(
            plugin.name, f'running plugin "{plugin.name}" ({method}): {result_checks.error_with_type(error)}'
        )


def _plugin_message(point: str, plugin: str, problem: str) -> str:
    return f'running {point} plugin "{plugin}": {problem or "no reason given"}'


def _check_result(plugin: str, method: str, found: Any, cycle: BindingCycle) -> Any:
    """Validates what a method of an external plugin returned."""
    match method:
        case "reserve":
            return result_checks.rejection(found, plugin)
        case "unreserve":
            return result_checks.no_result(found)
        case "permit":
            return result_checks.permit_result(found, plugin)
        case "pre_bind":
            return result_checks.pre_bind_result(found, plugin)
        case "awaited":
            return result_checks.awaited(found)
        case "bind":
            return result_checks.bind_result(found, cycle.pod, cycle.node_name)
        case _:
            return result_checks.writes(found)
