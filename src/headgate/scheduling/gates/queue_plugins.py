"""Calls the queue plugins of other packages: may a unit be let in, what is reserved for it, where is it in its queue.

The queue engine decides when to call (``capacity/grants/plugin_admission.py``). This module makes the views that
plugins receive, checks their results, and keeps what they reserved, so that each reservation is released once. A plugin
that raises, returns an invalid result, or takes longer than :data:`MAX_CALL_S` fails for that unit alone: the unit is
held, with the plugin and the error as its reason. A held unit is asked about again after an event or a time that the
:class:`Rejection` names. ``queue_admission.py`` and ``gate_controller.py`` pass the pods and events in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from headgate.capacity.engine import AdmissionUnit
from headgate.kube import conditions
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events, result_checks
from headgate.scheduling.framework.cluster_events import ClusterEvent
from headgate.scheduling.framework.interface import ErrorRejection, QueueUnit, Rejection
from headgate.scheduling.framework.plugin_timers import (
    ERROR,
    QUEUE_ADMISSION,
    QUEUE_ORDER,
    QUEUE_RELEASE,
    QUEUE_RESERVE,
    SUCCESS,
    PluginTimer,
    ProfileTimers,
)
from headgate.scheduling.framework.stable_hints import report_failures
from headgate.scheduling.pod_conditions import differ_only_in_own_writes
from headgate.scheduling.queue.scheduling_queue import DEFAULTS, MIN_WAIT_S
from headgate.scheduling.queue.sort_keys import comparable_key
from headgate.waiting.parking_lot import ParkingLot

MAX_CALL_S: Final = 1.0
"""A call that takes longer counts as failed. It has delayed all other pods meanwhile."""
_LAST: Final = (1, ())
"""The part of the sort key of a unit for which a plugin returned no valid key: behind all others."""

Key = tuple[Any, ...]
Unit = str | tuple[str, str]
"""The uid of a pod, or namespace and name of a group."""
Result = TypeVar("Result")


class _Plugin(msgspec.Struct, frozen=True):
    """A plugin at one extension point."""

    plugin: Any
    method: str
    timer: PluginTimer


class _Reservation(msgspec.Struct, frozen=True):
    """``plugins``: those that reserved something for the pod, in the order of their calls."""

    pod: PodInfo
    queue: str
    plugins: tuple[Any, ...]


class _OrderKeys(msgspec.Struct, frozen=True):
    """The parts of the sort key of a unit, and the unit that they were made for."""

    queue: str
    pods: tuple[PodInfo, ...]
    parts: Mapping[str, Key]
    failure: str = ""
    rejection: Rejection | None = None


class QueuePluginRunner:
    """Implements ``QueuePlugins`` of ``capacity/grants/plugin_admission.py`` for these plugins, in their order."""

    def __init__(self, plugins: Sequence[Any], timers: ProfileTimers) -> None:
        self._timers = timers
        self._admission = self._serving(plugins, "admit_unit", QUEUE_ADMISSION)
        self._reserve = self._serving(plugins, "reserve_unit", QUEUE_RESERVE)
        self._release = {each.plugin.name: each for each in self._serving(plugins, "release_pod", QUEUE_RELEASE)}
        self._order = self._serving(plugins, "unit_order_key", QUEUE_ORDER)
        self._pods: dict[str, PodInfo] = {}
        self._reservations: dict[str, _Reservation] = {}
        self._order_keys: dict[Unit, _OrderKeys] = {}
        # Held units are parked under the uid of their first pod, because events name pods.
        self._lot: ParkingLot[str, Rejection] = ParkingLot()
        self._held: dict[Unit, tuple[str, ...]] = {}  # the uids of its pods
        self._unit_of: dict[str, Unit] = {}  # by the uid of a pod: the held unit that it belongs to
        self._ended: dict[Unit, None] = {}

    def _serving(self, plugins: Sequence[Any], method: str, point: str) -> tuple[_Plugin, ...]:
        return tuple(
            _Plugin(each, method, self._timers.timer(each.name, point))
            for each in plugins
            if callable(getattr(each, method, None))
        )

    # Events

    def pod_applied(self, pod: PodInfo) -> bool:
        """The watch shows the pod. Returns whether the pod has changed in another way than by the scheduler's own
        writes; otherwise plugins keep its earlier version."""
        before = self._pods.get(pod.uid)
        if before is not None and differ_only_in_own_writes(before, pod):
            return False
        self._pods[pod.uid] = pod
        if before is None:
            return False
        for event in cluster_events.pod_update_events(before, pod):
            self.event_happened(event)
        return bool(self._order)

    def pod_removed(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def event_happened(self, event: ClusterEvent) -> None:
        """End the holds that this event may end."""
        if not self._held:
            return
        if event.target is not None:
            unit = self._unit_of.get(event.target)
            if unit is None:
                return
            event = msgspec.structs.replace(event, target=self._held[unit][0])
        for first_uid in self._lot.all_units() if event.for_everyone else self._lot.wake(event):
            self._ended[self._unit_of[first_uid]] = None

    # Holds

    def ended_holds(self, now_s: float) -> list[Unit]:
        for first_uid in self._lot.due(now_s):
            self._ended[self._unit_of[first_uid]] = None
        found = list(self._ended)
        for unit in found:
            self.forget_hold(unit)
            keys = self._order_keys.get(unit)
            if keys is not None and keys.rejection is not None:
                del self._order_keys[unit]  # the plugin is called again
        return found

    def forget_hold(self, unit: Unit) -> None:
        uids = self._held.pop(unit)
        self._lot.release(uids[0])
        self._ended.pop(unit, None)
        for uid in uids:
            del self._unit_of[uid]

    def next_deadline_s(self) -> float | None:
        return -math.inf if self._ended else self._lot.next_deadline_s()

    def _hold(self, unit: AdmissionUnit, rejection: Rejection, now_s: float) -> None:
        waits_s = [] if rejection.look_again_s is None else [max(rejection.look_again_s, MIN_WAIT_S)]
        if rejection.expires:
            waits_s.append(DEFAULTS.unschedulable_limit_s)
        until_s = now_s + min(waits_s) if waits_s else None
        self._held[unit.key] = unit.uids
        self._unit_of.update(dict.fromkeys(unit.uids, unit.key))
        self._lot.park(unit.uids[0], rejection, rejection.wakers, (), until_s)

    def is_error(self, uid: str) -> bool:
        """Whether the pod is held because a plugin failed."""
        unit = self._unit_of.get(uid)
        info = None if unit is None else self._lot.info(self._held[unit][0])
        return info is not None and isinstance(info.reason, ErrorRejection)

    # Decisions

    def check(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        found = self._find_rejection(unit, self._view(unit), time_of_day_s)
        if found is None:
            return ""
        rejection, reason = found
        self._hold(unit, rejection, now_s)
        return reason

    def admit(self, unit: AdmissionUnit, now_s: float, time_of_day_s: float) -> str:
        self._timers.begin()
        view = self._view(unit)
        found = self._find_rejection(unit, view, time_of_day_s) or self._reserve_unit(view, time_of_day_s)
        self._timers.end()
        if found is None:
            return ""
        rejection, reason = found
        self._hold(unit, rejection, now_s)
        return reason

    def _find_rejection(
        self, unit: AdmissionUnit, view: QueueUnit, time_of_day_s: float
    ) -> tuple[Rejection, str] | None:
        """The first rejection, and its text for users. A unit without a valid sort key is rejected, too."""
        keys = self._order_keys.get(unit.key)
        if keys is not None and keys.rejection is not None:
            return keys.rejection, keys.failure
        for each in self._admission:
            rejection = self._ask(each, view, time_of_day_s)
            if rejection is not None:
                return rejection, _text(rejection, QUEUE_ADMISSION)
        return None

    def _reserve_unit(self, view: QueueUnit, time_of_day_s: float) -> tuple[Rejection, str] | None:
        """Reserve with all plugins. If one rejects the unit, the reservations of those before it are released."""
        done: list[Any] = []
        for each in self._reserve:
            rejection = self._ask(each, view, time_of_day_s, done)
            if rejection is not None:
                for pod in view.pods:
                    self._release_pod(_Reservation(pod, view.queue, tuple(done)), time_of_day_s)
                return rejection, _text(rejection, QUEUE_RESERVE)
        for pod in view.pods if done else ():
            self._reservations[pod.uid] = _Reservation(pod, view.queue, tuple(done))
        return None

    def restore(self, unit: AdmissionUnit, time_of_day_s: float) -> None:
        view = msgspec.structs.replace(self._view(unit), is_restored=True)
        done: list[Any] = []
        for each in self._reserve if view.pods else ():
            self._ask(each, view, time_of_day_s, done)
        for pod in view.pods if done else ():
            self._reservations[pod.uid] = _Reservation(pod, view.queue, tuple(done))

    def release(self, uid: str, time_of_day_s: float) -> None:
        reservation = self._reservations.pop(uid, None)
        if reservation is not None:
            self._release_pod(reservation, time_of_day_s)
            self.event_happened(cluster_events.QUEUE_RESERVATION_RELEASED)

    def _release_pod(self, reservation: _Reservation, time_of_day_s: float) -> None:
        pod, queue = reservation.pod, reservation.queue
        for plugin in reversed(reservation.plugins):
            each = self._release[plugin.name]

            def call(each: _Plugin = each) -> None:
                result_checks.no_result(each.plugin.release_pod(pod, queue, time_of_day_s))

            self._call(each, f"pod {pod.key}", call)

    def _ask(self, each: _Plugin, view: QueueUnit, time_of_day_s: float, done: list[Any] | None = None) -> Any:
        """The rejection of the plugin, or of its failure; None if it lets the unit in. ``done``: gets the plugin if it
        has reserved something for the unit, also if the call took too long."""

        def call() -> Rejection | None:
            found = result_checks.rejection(getattr(each.plugin, each.method)(view, time_of_day_s), each.plugin.name)
            if found is None and done is not None:
                done.append(each.plugin)
            if found is not None:
                report_failures(found.wakers, self._report_hint(each.plugin))
            return found

        return self._call(each, _subject(view), call)

    def _report_hint(self, plugin: Any) -> Callable[[BaseException], None]:
        return lambda error: self._timers.failures.failed(plugin, "matches of a queueing hint", error)

    # Order

    @property
    def has_order(self) -> bool:
        return bool(self._order)

    def order_keys(self, unit: AdmissionUnit) -> Mapping[str, Key]:
        view, kept = self._view(unit), self._order_keys.get(unit.key)
        if kept is not None and kept.queue == view.queue and _are_same(kept.pods, view.pods):
            return kept.parts
        parts: dict[str, Key] = {}
        failure: ErrorRejection | None = None
        for each in self._order:

            def call(each: _Plugin = each) -> Key:
                return comparable_key(each.plugin.unit_order_key(view))

            found = self._call(each, _subject(view), call)
            if isinstance(found, ErrorRejection):
                parts[each.plugin.name], failure = _LAST, failure or found
            else:
                parts[each.plugin.name] = (0, found)
        text = "" if failure is None else _text(failure, QUEUE_ORDER)
        self._order_keys[unit.key] = _OrderKeys(view.queue, view.pods, parts, text, failure)
        return parts

    def forget_order(self, unit: Unit) -> None:
        self._order_keys.pop(unit, None)

    # Calls

    def _view(self, unit: AdmissionUnit) -> QueueUnit:
        pods = tuple(self._pods[uid] for uid in unit.uids if uid in self._pods)
        return QueueUnit(unit.queue, unit.ancestors, unit.namespace, unit.group, pods)

    def _call(self, each: _Plugin, subject: str, call: Callable[[], Result]) -> Result | ErrorRejection:
        """The result, or a rejection if the plugin fails."""
        began_s = each.timer.begin()
        result: Result | ErrorRejection
        status = SUCCESS
        try:
            result = call()
            took_s = 0.0 if began_s is None else self._timers.now_s() - began_s
            if took_s > MAX_CALL_S:
                raise TimeoutError(f"{each.method} took {took_s:.1f} s, and may take {MAX_CALL_S:g} s")
        except BaseException as error:
            self._timers.failures.failed(each.plugin, each.method, error, subject)
            # The plugin is called again after an update of the pods and, in case it recovers, after a time-out.
            text = result_checks.error_with_type(error)
            result, status = ErrorRejection(each.plugin.name, text, cluster_events.own_update()), ERROR
        if began_s is not None:
            each.timer.end(began_s, status)
        return result


def _subject(view: QueueUnit) -> str:
    if view.group:
        return f"PodGroup {view.namespace}/{view.group}"
    return f"pod {view.pods[0].key}" if view.pods else ""


def _text(rejection: Rejection, point: str) -> str:
    write = conditions.plugin_error_message if isinstance(rejection, ErrorRejection) else conditions.plugin_message
    return write(rejection.plugin, rejection.reason, point)


def _are_same(before: Sequence[PodInfo], after: Sequence[PodInfo]) -> bool:
    return len(before) == len(after) and all(each is other for each, other in zip(before, after, strict=True))
