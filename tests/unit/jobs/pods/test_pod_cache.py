"""Managed pods and their Workloads: late events, late responses, and objects that a list does not have."""

from __future__ import annotations

from typing import Any

from headgate.jobs.names import MANAGED
from headgate.jobs.pods.pod_cache import POD, ManagedPodCache

Object = dict[str, Any]
KEY = (POD, "ns", "a")


def a_pod(uid: str, revision: int, *, managed: bool = True) -> Object:
    labels = {MANAGED: "true"} if managed else {}
    metadata = {"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": str(revision), "labels": labels}
    return {"metadata": metadata, "spec": {"containers": []}, "status": {}}


def a_workload(revision: int, uid: str = "w", owner: str = "Pod") -> Object:
    reference = {"apiVersion": "v1", "kind": owner, "name": "a", "uid": "u", "controller": True}
    metadata = {"namespace": "ns", "name": "x", "uid": uid, "resourceVersion": str(revision)}
    return {"metadata": {**metadata, "ownerReferences": [reference]}}


def test_a_workload_that_only_a_response_has_shown_goes_when_a_list_does_not_have_it() -> None:
    cache = ManagedPodCache()
    assert cache.put_workload(a_workload(5), from_watch=False) == [KEY]
    assert cache.synced(False, "4") == []
    assert cache.synced(False, "6") == [KEY]
    assert cache.workloads(KEY) == []
    assert cache.put_workload(a_workload(7), from_watch=False) == []


def test_a_workload_that_the_watch_has_shown_is_left_to_the_watch() -> None:
    cache = ManagedPodCache()
    cache.put_workload(a_workload(5), from_watch=True)
    assert cache.synced(False, "6") == []
    assert cache.remove_workload("ns", "x", "w") == [KEY]
    assert cache.find(False, "ns", "x") is None


def test_older_versions_change_nothing() -> None:
    cache = ManagedPodCache()
    cache.put_workload(a_workload(5), from_watch=False)
    assert cache.put_workload(a_workload(4), from_watch=True) == []
    assert cache.workloads(KEY) == [a_workload(5)]


def test_a_workload_of_another_kind_of_job_is_not_kept() -> None:
    cache = ManagedPodCache()
    assert cache.put_workload(a_workload(5, owner="Job"), from_watch=True) == []
    assert cache.find(False, "ns", "x") is None
    cache.put_workload(a_workload(6), from_watch=True)
    assert cache.put_workload(a_workload(7, owner="Job"), from_watch=True) == [KEY]
    assert cache.put_workload(a_workload(8), from_watch=True) == [KEY]


def test_a_pod_that_is_not_managed_is_dropped_and_may_be_managed_again() -> None:
    cache = ManagedPodCache()
    assert cache.put_pod(a_pod("u", 1, managed=False), from_watch=True) == []
    assert cache.put_pod(a_pod("u", 2), from_watch=True) == [KEY]
    assert cache.put_pod(a_pod("u", 3, managed=False), from_watch=True) == [KEY]
    assert cache.find(True, "ns", "a") is None
    assert cache.put_pod(a_pod("u", 4), from_watch=True) == [KEY]
    assert cache.remove_pod("ns", "a", "u") == [KEY]
    assert cache.put_pod(a_pod("u", 5), from_watch=False) == []
