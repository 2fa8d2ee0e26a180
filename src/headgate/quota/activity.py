"""Whether a ClusterQueue can admit anything at all, and what stands in the way; in Kueue's words.

Kueue disables cohorts that lead in a circle without a word; here their queues say so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from headgate.quota import names
from headgate.quota.cluster_queue import ClusterQueue


class Activity(msgspec.Struct, frozen=True):
    """The condition Active of a ClusterQueue."""

    is_active: bool
    reason: str
    message: str


READY: Final = Activity(True, "Ready", "Can admit new workloads")
_TERMINATING: Final = Activity(False, "Terminating", "Can't admit new workloads; clusterQueue is terminating")


def find_activity(
    queue: ClusterQueue, flavors: Collection[str], checks: Mapping[str, bool], circle: tuple[str, ...] = ()
) -> Activity:
    """``checks``: the admission checks there are, and whether each is active. ``circle``: the cohorts on one."""
    if queue.is_terminating:
        return _TERMINATING
    wanted = [name for name, _ in queue.checks]
    blockers = (
        ("Stopped", "is stopped", [""] if queue.stop_policy != names.NONE else []),
        ("FlavorNotFound", "references missing ResourceFlavor(s): ", sorted(queue.flavors - set(flavors))),
        (
            "AdmissionCheckNotFound",
            "references missing AdmissionCheck(s): ",
            sorted(name for name in wanted if name not in checks),
        ),
        (
            "AdmissionCheckInactive",
            "references inactive AdmissionCheck(s): ",
            sorted(name for name in wanted if checks.get(name) is False),
        ),
        ("CohortCycle", "is below cohorts that lead in a circle: ", list(circle)),
    )
    found = [(reason, words + ",".join(what)) for reason, words, what in blockers if what]
    if not found:
        return READY
    return Activity(False, found[0][0], f"Can't admit new workloads: {', '.join(said for _, said in found)}.")
