"""The progress of a rolling update while the counts of its ReplicaSets are late."""

from __future__ import annotations

from typing import Any

from headgate.controllers.deployments.replica_sets import ReplicaSet, read
from headgate.controllers.deployments.rolling_update import ReplicaSetResize, new_size, shrink_old

DEPLOYMENT: dict[str, Any] = {
    "spec": {
        "replicas": 8,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}},
    }
}


def a_set(name: str, replicas: int, there: int) -> ReplicaSet:
    """One of that size, whose controller last saw so many pods, all of them available."""
    counts = {"replicas": there, "readyReplicas": there, "availableReplicas": there}
    return read({"metadata": {"name": name, "uid": name}, "spec": {"replicas": replicas}, "status": counts})


def test_already_removed_replicas_are_not_removed_again() -> None:
    """Of ten sized replicas five new and four old ones will be available: two can go, not three."""
    old, new = a_set("old", replicas=4, there=5), a_set("new", replicas=6, there=5)
    assert shrink_old(DEPLOYMENT, [old], new) == [ReplicaSetResize("old", 2)]


def test_the_new_set_does_not_grow_before_old_pods_are_gone() -> None:
    old, new = a_set("old", replicas=4, there=6), a_set("new", replicas=3, there=3)
    assert new_size(DEPLOYMENT, [old, new], 3) == 4


def test_counts_that_are_up_to_date_change_nothing() -> None:
    old, new = a_set("old", replicas=7, there=7), a_set("new", replicas=3, there=3)
    assert shrink_old(DEPLOYMENT, [old], new) == [ReplicaSetResize("old", 4)]
    assert new_size(DEPLOYMENT, [a_set("old", 5, 5), new], 3) == 5
