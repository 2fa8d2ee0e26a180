"""PrioritySort: higher priority first, then who has waited longer, then who is older, then by name.

Age breaks the tie of pods that came in together, as all pending pods do when a scheduler starts; names break the rest,
so that the same cluster is served in the same order every time.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.podlike import PodLike


class PrioritySort:
    name: Final = "PrioritySort"

    def order_key(self, pod: PodLike, since_s: float, /) -> tuple[int, float, float, str, str]:
        return -pod.priority, since_s, pod.created_s, pod.namespace, pod.name
