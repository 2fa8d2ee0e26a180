"""PrioritySort: orders pods by priority, then by waiting time, then by age, then by name.

Age orders pods that were added together, such as all pending pods when a scheduler starts. Names order the rest, so
that equal clusters are served in the same order.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.cache.pod import PodLike


class PrioritySort:
    name: Final = "PrioritySort"

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[int, float, float, str, str]:
        return -pod.priority, since_s, pod.created_s, pod.namespace, pod.name
