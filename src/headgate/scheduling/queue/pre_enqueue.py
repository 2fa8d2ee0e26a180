"""Runs the PreEnqueue plugins of a pod's profile in order until one rejects the pod.

The plugin that holds the pod already runs first, since its rejection makes the others irrelevant. A plugin that raises,
or returns an invalid result (``scheduling/framework/result_checks.py``), counts as a rejection by that plugin.
``scheduling_queue.py`` decides when to run them and where the pod goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headgate.scheduling.cache.pod import PodLike
from headgate.scheduling.framework import cluster_events, result_checks
from headgate.scheduling.framework.interface import ErrorRejection, PreEnqueuePlugin, Rejection
from headgate.scheduling.framework.plugin_failures import PluginFailures
from headgate.scheduling.framework.plugin_timers import ERROR, PRE_ENQUEUE, SUCCESS, PluginTimer, ProfileTimers
from headgate.scheduling.framework.stable_hints import report_failures

_REFUSED: Final = "UnschedulableAndUnresolvable"


class PreEnqueueRunner:
    """``plugins`` of each profile, by scheduler name. ``watches`` returns new timers for a profile."""

    def __init__(
        self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]], new_timers: Callable[[str], ProfileTimers]
    ) -> None:
        self._timers = {profile: new_timers(profile) for profile in plugins}
        self._plugins = {
            profile: tuple((each, self._timers[profile].timer(each.name, PRE_ENQUEUE)) for each in listed)
            for profile, listed in plugins.items()
        }

    def run(self, pod: PodLike, held_by: Rejection | None = None) -> Rejection | None:
        plugins: Sequence[tuple[PreEnqueuePlugin, PluginTimer]] = self._plugins.get(pod.scheduler_name, ())
        if not plugins:
            return None
        if held_by is not None and len(plugins) > 1:
            plugins = sorted(plugins, key=lambda each: each[0].name != held_by.plugin)
        timers = self._timers[pod.scheduler_name]
        timers.begin()
        rejection = None
        for plugin, timer in plugins:
            rejection = _run_plugin(plugin, timer, pod, timers.failures)
            if rejection is not None:
                break
        timers.end()
        return rejection


def _run_plugin(
    plugin: PreEnqueuePlugin, timer: PluginTimer, pod: PodLike, failures: PluginFailures
) -> Rejection | None:
    began_s = timer.begin()
    try:
        rejection = plugin.pre_enqueue(pod)
        if not result_checks.is_built_in(plugin):
            rejection = result_checks.rejection(rejection, plugin.name)
            if rejection is not None:
                report_failures(rejection.wakers, lambda error: failures.failed(plugin, "matches of a guard", error))
        status = SUCCESS if rejection is None else _REFUSED
    except BaseException as error:
        failures.failed(plugin, "pre_enqueue", error, f"pod {pod.namespace}/{pod.name}")
        # A change of the pod may help; so may time, if the defect is in the plugin.
        rejection = ErrorRejection(plugin.name, result_checks.error_with_type(error), cluster_events.own_update())
        status = ERROR
    if began_s is not None:
        timer.end(began_s, status)
    return rejection
