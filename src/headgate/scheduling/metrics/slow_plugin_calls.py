"""Slow plugin calls: counted by plugin and extension point, and formatted as log messages.

Plugins run in the scheduler's loop, so a slow one delays every pod. All calls of external plugins are timed
(``scheduling/framework/plugin_timers.py``). A plugin is logged at its first slow call, and then once a minute with the
number of slow calls. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headgate.kube.metrics import MetricFamily, Sample

SLOW_S: Final = 0.02
NAME: Final = "headgate_scheduler_slow_plugin_calls_total"
FAMILY: Final = MetricFamily(
    "counter",
    f"Calls that took {SLOW_S * 1000:.0f} ms or longer, of plugins that are not built in.",
    ("extension_point", "plugin"),
)
_INTERVAL_S: Final = 60.0


class _SlowCalls:
    """One plugin at one extension point."""

    __slots__ = ("calls", "longest_s", "reported_s", "unreported")

    def __init__(self) -> None:
        self.calls = 0
        self.unreported = 0
        self.longest_s = 0.0
        self.reported_s: float | None = None


class SlowPluginCalls:
    def __init__(self) -> None:
        self._by_plugin: dict[tuple[str, str], _SlowCalls] = {}
        self._messages: list[str] = []

    def took(self, plugin: str, point: str, duration_s: float, now_s: float) -> None:
        if duration_s < SLOW_S:
            return
        slow = self._by_plugin.setdefault((plugin, point), _SlowCalls())
        slow.calls += 1
        slow.unreported += 1
        slow.longest_s = max(slow.longest_s, duration_s)
        if slow.reported_s is not None and now_s - slow.reported_s < _INTERVAL_S:
            return
        self._messages.append(
            f"plugin {plugin} is slow: {slow.unreported} of its {point} calls took {SLOW_S * 1000:.0f} ms or longer, "
            f"the longest {slow.longest_s * 1000:.0f} ms; all pods wait meanwhile, as plugins run in the scheduler's "
            "loop"
        )
        slow.reported_s, slow.unreported, slow.longest_s = now_s, 0, 0.0

    def messages(self) -> list[str]:
        """The messages for the log since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def samples(self) -> Iterator[Sample]:
        for (plugin, point), slow in sorted(self._by_plugin.items()):
            yield Sample(NAME, (("extension_point", point), ("plugin", plugin)), slow.calls)
