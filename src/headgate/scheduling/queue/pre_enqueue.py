"""Runs the PreEnqueue plugins of a pod's profile in order until one rejects the pod.

The plugin that rejected the pod last time runs first, because one rejection is enough. A plugin that raises,
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

_REJECTED: Final = "UnschedulableAndUnresolvable"


class PreEnqueueRunner:
    """``plugins``: those of each profile, by scheduler name. ``new_timers`` returns the timers of a profile."""

    def __init__(
        self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]], new_timers: Callable[[str], ProfileTimers]
    ) -> None:
        self._timers = {profile: new_timers(profile) for profile in plugins}
        self._plugins = {
            profile: tuple((each, self._timers[profile].timer(each.name, PRE_ENQUEUE)) for each in listed)
            for profile, listed in plugins.items()
        }

    def run(self, pod: PodLike, last_rejection: Rejection | None = None) -> Rejection | None:
        """Run the plugins until one rejects the pod, the plugin of the last rejection first: it probably rejects
        again."""
        plugins: Sequence[tuple[PreEnqueuePlugin, PluginTimer]] = self._plugins.get(pod.scheduler_name, ())
        if not plugins:
            return None
        if last_rejection is not None and len(plugins) > 1:
            plugins = sorted(plugins, key=lambda each: each[0].name != last_rejection.plugin)
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
                report_failures(
                    rejection.wakers, lambda error: failures.failed(plugin, "matches of a queueing hint", error)
                )
        status = SUCCESS if rejection is None else _REJECTED
    except BaseException as error:
        failures.failed(plugin, "pre_enqueue", error, f"pod {pod.namespace}/{pod.name}")
        # The pod is retried after an update of it and, in case the plugin recovers, after a time-out.
        rejection = ErrorRejection(plugin.name, result_checks.error_with_type(error), cluster_events.own_update())
        status = ERROR
    if began_s is not None:
        timer.end(began_s, status)
    return rejection
