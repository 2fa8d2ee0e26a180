"""Asks PreEnqueue plugins whether a pod may be tried: those of its profile, in order, until one says no.

The plugin that holds the pod already is asked first, since as long as it does the others do not matter. A plugin that
raises, or that returns what is no answer (``plugin_answers.py``), has turned the pod away, with its name.
When pods are asked about, and where they then go, is ``queue.py``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headgate.scheduling import events, plugin_answers
from headgate.scheduling.contract import Failed, PreEnqueue, Rejection
from headgate.scheduling.meters import ERROR, PRE_ENQUEUE, SUCCESS, Meter, Watch
from headgate.scheduling.plugin_failures import PluginFailures
from headgate.scheduling.plugin_guards import tell_failures
from headgate.scheduling.podlike import PodLike

_REFUSED: Final = "UnschedulableAndUnresolvable"


class Gatekeeper:
    """``plugins`` of each profile, by scheduler name. ``watches`` gives a new watch for a profile."""

    def __init__(self, plugins: Mapping[str, Sequence[PreEnqueue]], watches: Callable[[str], Watch]) -> None:
        self._watches = {profile: watches(profile) for profile in plugins}
        self._plugins = {
            profile: tuple((each, self._watches[profile].meter(each.name, PRE_ENQUEUE)) for each in listed)
            for profile, listed in plugins.items()
        }

    def ask(self, pod: PodLike, held_by: Rejection | None = None) -> Rejection | None:
        plugins: Sequence[tuple[PreEnqueue, Meter]] = self._plugins.get(pod.scheduler_name, ())
        if not plugins:
            return None
        if held_by is not None and len(plugins) > 1:
            plugins = sorted(plugins, key=lambda each: each[0].name != held_by.plugin)
        watch = self._watches[pod.scheduler_name]
        watch.begin()
        rejection = None
        for plugin, meter in plugins:
            rejection = _verdict(plugin, meter, pod, watch.failures)
            if rejection is not None:
                break
        watch.end()
        return rejection


def _verdict(plugin: PreEnqueue, meter: Meter, pod: PodLike, failures: PluginFailures) -> Rejection | None:
    began_s = meter.begin()
    try:
        rejection = plugin.pre_enqueue(pod)
        if not plugin_answers.is_built_in(plugin):
            rejection = plugin_answers.rejection(rejection, plugin.name)
            if rejection is not None:
                tell_failures(rejection.wakers, lambda error: failures.failed(plugin, "matches of a guard", error))
        status = SUCCESS if rejection is None else _REFUSED
    except BaseException as error:
        failures.failed(plugin, "pre_enqueue", error, f"pod {pod.namespace}/{pod.name}")
        # Its own change may mend it; so may time, if the plugin was at fault.
        rejection = Failed(plugin.name, plugin_answers.described(error), events.own_update())
        status = ERROR
    if began_s is not None:
        meter.end(began_s, status)
    return rejection
