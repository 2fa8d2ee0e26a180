"""The binding cycle: pods that have a node pass Reserve, Permit, PreBind and Bind, or return to the scheduling queue.

Each pod passes its stages in order and independently of other pods. A stage that needs the API server or a Permit
plugin ends with an effect or a wait, and continues with the answer. Meanwhile the node matrix counts the pod as
assumed, so no other pod gets its capacity. A binding with an unknown outcome is repeated *on the same node* until the
outcome is known: releasing the capacity earlier could allocate it twice. ``scheduling/scheduler.py`` handles a pod
whose binding failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from headgate.kube import conditions
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
from headgate.scheduling.queue.queued_pod_info import QueuedPodInfo
from headgate.waiting.heap import Heap
from headgate.waiting.parking_lot import ParkingLot

_FIRST_RETRY_S: Final = 1.0
_LONGEST_RETRY_S: Final = 10.0
_POINTS: Final[Mapping[str, str]] = {
    "reserve": RESERVE,
    "unreserve": UNRESERVE,
    "permit": PERMIT,
    "pre_bind": PRE_BIND,
    "awaited": PRE_BIND,
    "bind": BIND,
    "post_bind": POST_BIND,
}


class BindingStage(Enum):
    PERMIT = "permit"
    PREPARE = "prepare"
    AWAIT = "await"
    BIND = "bind"
    RETRY = "retry"


# Mutable: the state of one pod's way.
class BindingCycle(msgspec.Struct, eq=False):
    """``since_s``: when the attempt began. ``waiting_on``: the Permit plugins that hold the pod, each with its
    deadline."""

    queued: QueuedPodInfo[PodInfo]
    pod: PodInfo
    framework: Framework
    node_name: str
    since_s: float
    stage: BindingStage = BindingStage.PERMIT
    waiting_on: dict[str, float] = {}
    retries: int = 0
    writes: list[tuple[str, tuple[ObjectPatch, ...]]] = []
    """What has to be written before the binding and is not yet, by plugin; the first is under way."""
    binder: str = ""
    """The plugin that binds the pod by a write of its own."""


class PluginWait(msgspec.Struct, frozen=True):
    """The plugin and the extension point that a pod with a node waits for. ``text``: the plugin's reason, if known."""

    point: str
    plugin: str
    text: str


class BindingFailure(msgspec.Struct, frozen=True):
    """The binding cycle of a pod failed. Without rejections it was an error, and the pod is retried after backoff."""

    cycle: BindingCycle
    message: str
    rejections: tuple[Rejection, ...] = ()


Step = Effect | BindingFailure


class BindingCycles:
    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._failures = metrics.plugin_failures
        self._watches: dict[str, ProfileTimers] = {}
        self._ways: dict[str, BindingCycle] = {}
        self._deadlines: Heap[str] = Heap()
        self._permitting: dict[str, None] = {}
        self._awaiting: ParkingLot[str, str] = ParkingLot()
        self._newly_waiting: list[str] = []
        self._unconfirmed: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._ways)

    def get(self, uid: str) -> BindingCycle | None:
        return self._ways.get(uid)

    def next_deadline_s(self) -> float | None:
        first = self._deadlines.first()
        return None if first is None else float(first[0])

    # Steps

    def begin(self, queued: QueuedPodInfo[PodInfo], team: Framework, node_name: str, now_s: float) -> Iterator[Step]:
        way = BindingCycle(queued, queued.pod, team, node_name, now_s, waiting_on={}, writes=[])
        self._ways[queued.uid] = way
        watch = self._watch(team)
        watch.begin()
        yield from self._set_out(way, team, now_s)
        watch.end()
        yield from self._released(team, now_s)

    def _set_out(self, way: BindingCycle, team: Framework, now_s: float) -> Iterator[Step]:
        for plugin in team.binding_plugins["reserve"]:
            rejection = self._asked(plugin, "reserve", way)
            if isinstance(rejection, Rejection):
                yield self._fail(way, rejection, RESERVE, plugin)
                return
        for plugin in team.binding_plugins["permit"]:
            found = self._asked(plugin, "permit", way)
            if isinstance(found, Rejection):
                yield self._fail(way, found, PERMIT, plugin)
                return
            if isinstance(found, PermitWait):
                way.waiting_on[plugin.name] = now_s + found.timeout_s
        if way.waiting_on:
            self._permitting[way.pod.uid] = None
            self._deadlines.put(way.pod.uid, min(way.waiting_on.values()))
            self._newly_waiting.append(way.pod.uid)
        else:
            yield from self._prepare(way, now_s)

    def _released(self, team: Framework, now_s: float) -> Iterator[Step]:
        """Whom Permit plugins let go by now, or turn away."""
        if not self._permitting:
            return
        for plugin in team.binding_plugins["permit"]:
            if not isinstance(plugin, ReleasingPermitPlugin):
                continue
            for uid, rejection in self._told_to_go(plugin).items():
                way = self._ways.get(uid)
                if way is None or way.stage is not BindingStage.PERMIT or plugin.name not in way.waiting_on:
                    continue
                if rejection is not None:
                    self._metrics.waited_for_permit(UNSCHEDULABLE, now_s - way.since_s)
                    yield self._fail(way, rejection, PERMIT, plugin)
                    continue
                del way.waiting_on[plugin.name]
                if not way.waiting_on:
                    self._metrics.waited_for_permit(SUCCESS, now_s - way.since_s)
                    self._stop_waiting(uid)
                    yield from self._prepare(way, now_s)

    def _told_to_go(self, plugin: Any) -> dict[str, Rejection | None]:
        """What a Permit plugin says of pods that it holds. If the answer as a whole is wrong, it failed all of them."""
        try:
            found = result_checks.released_pods(plugin.released())
        except BaseException as broken:
            held = (uid for uid in self._permitting if plugin.name in self._ways[uid].waiting_on)
            return dict.fromkeys(held, self._failed(plugin, "released", broken))
        return {uid: self._release(plugin, each) for uid, each in found.items()}

    def _release(self, plugin: Any, found: Any) -> Rejection | None:
        try:
            rejection = result_checks.rejection(found, plugin.name)
        except BaseException as broken:
            return self._failed(plugin, "released", broken)
        self._tell_guards(plugin, rejection)
        return rejection

    def _prepare(self, way: BindingCycle, now_s: float) -> Iterator[Step]:
        for plugin in way.framework.binding_plugins["preBind"]:
            found = self._asked(plugin, "pre_bind", way)
            if isinstance(found, Rejection):
                yield self._fail(way, found, PRE_BIND, plugin)
                return
            if found:
                way.writes.append((plugin.name, tuple(found)))
        yield from self._write_next(way, now_s)

    def _write_next(self, way: BindingCycle, now_s: float) -> Iterator[Step]:
        """One plugin's writes after the other's, so that the plugin is known whose write fails."""
        if way.writes:
            way.stage = BindingStage.PREPARE
            yield PreBindWrites(way.pod, way.writes[0][1])
        else:
            yield from self._await(way, now_s)

    def prepared(self, way: BindingCycle, problem: str, now_s: float) -> Iterator[Step]:
        if way.stage is not BindingStage.PREPARE:
            return
        plugin, _ = way.writes.pop(0)
        if problem:
            yield self._fail(way, _running(PRE_BIND, plugin, problem))
        else:
            yield from self._write_next(way, now_s)

    def _await(self, way: BindingCycle, now_s: float) -> Iterator[Step]:
        """Those who began something before the binding say whether it is finished."""
        is_first = way.stage is not BindingStage.AWAIT
        way.stage = BindingStage.AWAIT
        for plugin in way.framework.awaiting_plugins:
            found = self._asked(plugin, "awaited", way)
            timeout_s = self._timeout(plugin) if isinstance(found, PreBindPending) and is_first else 0.0
            if isinstance(timeout_s, ErrorRejection):
                found = timeout_s
            elif isinstance(found, PreBindPending):
                self._awaiting.park(way.pod.uid, plugin.name, found.wakers, ())
                if is_first:
                    self._deadlines.put(way.pod.uid, now_s + timeout_s)
                    self._newly_waiting.append(way.pod.uid)
                return
            if found is not None:
                why = _running(PRE_BIND, plugin.name, found) if isinstance(found, str) else found
                yield self._fail(way, why)
                return
        self._stop_waiting(way.pod.uid)
        yield from self._bind(way)

    def _bind(self, way: BindingCycle) -> Iterator[Step]:
        way.stage = BindingStage.BIND
        for plugin in way.framework.binding_plugins["bind"]:
            found = self._asked(plugin, "bind", way)
            if isinstance(found, Rejection):
                yield self._fail(way, found)
                return
            if found is not None:
                is_written = isinstance(found, ObjectPatch) or found.instead is not None
                way.binder = plugin.name if is_written else ""
                yield found if isinstance(found, Bind) else Bind(way.pod, way.node_name, found)
                return
        yield self._fail(way, "no Bind plugin of the profile takes this pod")

    def look_again(self, event: ClusterEvent, now_s: float) -> Iterator[Step]:
        """Something happened that some may have waited for whose preparations others finish."""
        for uid in list(self._awaiting.wake(event)) if self._awaiting else ():
            yield from self._await(self._ways[uid], now_s)

    def retry_later(self, way: BindingCycle, now_s: float) -> None:
        """Nobody knows where the pod is: ask for its binding again in a while."""
        way.stage = BindingStage.RETRY
        wait_s = min(_FIRST_RETRY_S * 2.0**way.retries, _LONGEST_RETRY_S)
        way.retries += 1
        self._deadlines.put(way.pod.uid, now_s + wait_s)

    def due(self, now_s: float) -> Iterator[Step]:
        while (first := self._deadlines.first()) is not None and first[0] <= now_s:
            way = self._ways[first[1]]
            self._deadlines.pop()
            if way.stage is BindingStage.RETRY:
                yield from self._bind(way)
            elif way.stage is BindingStage.PERMIT:
                late = min(way.waiting_on, key=lambda name: way.waiting_on[name])
                self._metrics.waited_for_permit(UNSCHEDULABLE, now_s - way.since_s)
                text = conditions.plugin_message(late, "timed out waiting on permit", PERMIT)
                yield self._fail(way, Rejection(late, text))
            else:
                why = self._awaiting.info(way.pod.uid)
                text = "timed out waiting for what was asked for before binding"
                yield self._fail(way, text if why is None else _running(PRE_BIND, why.reason, text))

    # What pods wait for

    def newly_waiting(self) -> list[str]:
        """Pods that wait for plugins since this was last asked; some may not any more."""
        found, self._newly_waiting = self._newly_waiting, []
        return found

    def waiting(self, uid: str) -> PluginWait | None:
        """The plugin of others that the pod waits for, if it waits for one."""
        way = self._ways.get(uid)
        if way is None:
            return None
        if way.stage is BindingStage.PERMIT and way.waiting_on:
            first = min(way.waiting_on, key=lambda name: way.waiting_on[name])
            wait_s = way.waiting_on[first] - way.since_s
            return PluginWait(
                PERMIT, first, f"the pod waits on permit for node {way.node_name}, for {wait_s:g} s at most"
            )
        why = self._awaiting.info(uid) if way.stage is BindingStage.AWAIT else None
        if why is None or any(each.name == why.reason and is_built_in(each) for each in way.framework.awaiting_plugins):
            return None
        return PluginWait(
            PRE_BIND, why.reason, f"waits for what it asked for before the pod is bound to {way.node_name}"
        )

    def written(self, way: BindingCycle) -> None:
        """What a Bind plugin wrote in place of a binding is accepted: whether that binds the pod, the API will show."""
        if way.binder:
            self._unconfirmed[way.pod.uid] = way.binder
            self._newly_waiting.append(way.pod.uid)

    def take_unconfirmed(self, uid: str) -> str:
        """The plugin whose write was to bind the pod; told once."""
        return self._unconfirmed.pop(uid, "")

    # Ends

    def reject(self, uid: str, plugin: str, message: str) -> BindingFailure | None:
        """Turn a pod away that waits for permission; ``None`` if it does not.

        Nobody knows what it would take to fit elsewhere before it was tried again: anything may help.
        """
        way = self._ways.get(uid)
        if way is None or way.stage is not BindingStage.PERMIT:
            return None
        return self._fail(way, Rejection(plugin, message, cluster_events.on(cluster_events.ANY, cluster_events.ALL)))

    def observed(self, uid: str, node_name: str = "") -> tuple[BindingCycle, Sequence[ObjectPatch]] | None:
        """The API shows where the pod is (or that it is nowhere): a way on which no answer is awaited ends with that.

        One on which an answer is awaited ends when it comes. What is written after a binding is given back as well.
        """
        way = self._ways.get(uid)
        if way is None or way.stage in (BindingStage.PREPARE, BindingStage.BIND):
            return None
        return way, self.end(way, arrived=way.node_name == node_name)

    def end(self, way: BindingCycle, *, arrived: bool) -> Sequence[ObjectPatch]:
        """The pod is bound, or will not be: then what was set aside for it is given back, last first."""
        self._drop(way)
        if arrived:
            return [
                write for plugin in way.framework.binding_plugins["postBind"] for write in self._written(plugin, way)
            ]
        for plugin in reversed(way.framework.binding_plugins["reserve"]):
            self._asked(plugin, "unreserve", way)
        return ()

    def _fail(self, way: BindingCycle, why: Rejection | str, point: str = "", plugin: Any = None) -> BindingFailure:
        """``plugin`` rejected the pod at ``point``. If it is not built in, the message names it."""
        self.end(way, arrived=False)
        if isinstance(why, str):
            return BindingFailure(way, why)
        if isinstance(why, ErrorRejection):
            return BindingFailure(way, why.reason)
        is_named = plugin is not None and not is_built_in(plugin)
        message = conditions.plugin_message(plugin.name, why.reason, point) if is_named else why.reason
        return BindingFailure(way, message, (why,))

    def _drop(self, way: BindingCycle) -> None:
        self._ways.pop(way.pod.uid, None)
        self._stop_waiting(way.pod.uid)

    def _stop_waiting(self, uid: str) -> None:
        self._deadlines.discard(uid)
        self._permitting.pop(uid, None)
        self._awaiting.release(uid)

    # Plugins

    def _watch(self, team: Framework) -> ProfileTimers:
        found = self._watches.get(team.name)
        if found is None:
            found = self._watches[team.name] = self._metrics.timers(team.name)
        return found

    def _asked(self, plugin: Any, method: str, way: BindingCycle) -> Any:
        """A plugin that raises, or whose answer is wrong, has failed the pod in its own name: it is tried again after
        a backoff."""
        meter = self._watch(way.framework).timer(plugin.name, _POINTS[method])
        began_s = meter.begin()
        status = SUCCESS
        try:
            found = getattr(plugin, method)(way.pod, way.node_name)
            if not is_built_in(plugin):
                found = _checked(plugin.name, method, found, way)
                self._tell_guards(plugin, found)
        except BaseException as broken:
            found, status = self._failed(plugin, method, broken, f"pod {way.pod.key}"), ERROR
        if began_s is not None:
            meter.end(began_s, UNSCHEDULABLE if isinstance(found, Rejection) and status is SUCCESS else status)
        return found

    def _written(self, plugin: Any, way: BindingCycle) -> Iterable[ObjectPatch]:
        found = self._asked(plugin, "post_bind", way)
        return () if isinstance(found, Rejection) else found

    def _tell_guards(self, plugin: Any, found: Any) -> None:
        if isinstance(found, Rejection | PreBindPending):
            report_failures(found.wakers, lambda error: self._failures.failed(plugin, "matches of a guard", error))

    def _timeout(self, plugin: Any) -> float | ErrorRejection:
        try:
            return result_checks.seconds(plugin.timeout_s, "timeout_s")
        except BaseException as broken:
            return self._failed(plugin, "timeout_s", broken)

    def _failed(self, plugin: Any, method: str, broken: BaseException, about: str = "") -> ErrorRejection:
        """The log is told here, the pod by the answer, if there is still a pod to be told."""
        self._failures.failed(plugin, method, broken, about)
        return ErrorRejection(
            plugin.name, f'running plugin "{plugin.name}" ({method}): {result_checks.error_with_type(broken)}'
        )


def _running(point: str, plugin: str, problem: str) -> str:
    return f'running {point} plugin "{plugin}": {problem or "no reason given"}'


def _checked(plugin: str, method: str, found: Any, way: BindingCycle) -> Any:
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
            return result_checks.bind_result(found, way.pod, way.node_name)
        case _:
            return result_checks.writes(found)
