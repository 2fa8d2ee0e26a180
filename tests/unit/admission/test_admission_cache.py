"""The cache that admission handlers read."""

from __future__ import annotations

from typing import Any

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import ALLOWED, AdmissionRequest
from headgate.admission.cache_reader import CacheReader
from headgate.admission.kueue_pods import gate_new_pod
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUES
from headgate.kube.api_resources import JOBS, NAMESPACES
from headgate.quota.kinds.names import LOCAL_QUEUES


def a_queue(name: str, parent: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}}


def a_group(name: str, queue: str, namespace: str = "t") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queue": queue}}


def test_queues_follow_their_objects() -> None:
    book = AdmissionCache()
    for queue in (a_queue("a"), a_queue("b", "a"), a_queue("c", "a")):
        book.applied(QUEUES, queue)
    assert list(book.queues.children("a")) == ["b", "c"]
    book.applied(QUEUES, a_queue("b", "c"))
    book.removed(QUEUES, "", "c")
    assert list(book.queues.children("a")) == []
    assert list(book.queues.children("c")) == ["b"]


def test_a_queue_has_groups_until_the_last_one_is_gone_or_moved() -> None:
    book = AdmissionCache()
    book.applied(POD_GROUPS, a_group("g", "a"))
    book.applied(POD_GROUPS, a_group("g", "a", namespace="u"))
    assert book.group_count("a") == 2
    book.removed(POD_GROUPS, "t", "g")
    assert book.group_count("a") == 1
    book.applied(POD_GROUPS, a_group("g", "b", namespace="u"))
    assert (book.group_count("a"), book.group_count("b")) == (0, 1)
    book.removed(POD_GROUPS, "u", "g")
    book.removed(POD_GROUPS, "u", "g")
    assert book.group_count("b") == 0


def test_malformed_objects_are_kept_and_not_counted() -> None:
    book = AdmissionCache()
    book.applied(QUEUES, {"metadata": {"name": "a"}, "spec": None})
    book.applied(QUEUES, {"metadata": {"name": "b"}, "spec": {"parent": 7}})
    book.removed(QUEUES, "", "b")
    assert book.get(QUEUES, "", "a") is not None


def test_a_reader_records_missing_objects_and_uses_fetched_ones() -> None:
    book = AdmissionCache()
    book.applied(NAMESPACES, {"metadata": {"name": "t"}})
    reading = CacheReader(book, {})
    assert reading.get(NAMESPACES, "", "t") is not None
    assert reading.get(POD_GROUPS, "t", "g") is None
    assert reading.missed == [(POD_GROUPS, "t", "g")]
    again = CacheReader(book, {(POD_GROUPS, "t", "g"): a_group("g", "a"), (QUEUES, "", "a"): None})
    assert again.get(POD_GROUPS, "t", "g") == a_group("g", "a")
    assert again.get(QUEUES, "", "a") is None
    assert again.missed == []


def a_job(uid: str) -> dict[str, Any]:
    return {"metadata": {"name": "j", "namespace": "t", "uid": uid, "labels": {"kueue.x-k8s.io/queue-name": "lq"}}}


def test_a_cached_object_with_another_uid_is_not_used() -> None:
    book = AdmissionCache()
    book.applied(JOBS, a_job("old"))
    reading = CacheReader(book, {})
    assert reading.get(JOBS, "t", "j", "new") is None
    assert reading.missed == [(JOBS, "t", "j")]
    again = CacheReader(book, {(JOBS, "t", "j"): a_job("new")})
    assert again.get(JOBS, "t", "j", "new") == a_job("new")
    assert again.missed == []


def test_a_recreated_owner_is_fetched_before_its_pod_counts_as_unmanaged() -> None:
    book = AdmissionCache()
    book.applied(NAMESPACES, {"metadata": {"name": "t"}})
    book.applied(JOBS, a_job("old"))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "new", "controller": True}
    labels = {"kueue.x-k8s.io/queue-name": "lq"}
    pod = {"metadata": {"name": "p", "labels": labels, "ownerReferences": [owner]}, "spec": {}}
    asked = AdmissionRequest("CREATE", "pods", "t", "p", obj=pod)
    settings = AdmissionSettings(frozenset(), suspends_jobs=True)
    first = CacheReader(book, {})
    gate_new_pod(asked, settings, first)
    assert (JOBS, "t", "j") in first.missed
    assert gate_new_pod(asked, settings, CacheReader(book, {(JOBS, "t", "j"): a_job("new")})) == ALLOWED


def test_the_scope_follows_namespaces_and_queues_that_opt_in_and_default_queues() -> None:
    book = AdmissionCache()
    opted_in = {OPT_IN: "true"}
    book.applied(NAMESPACES, {"metadata": {"name": "a", "annotations": opted_in}})
    book.applied(NAMESPACES, {"metadata": {"name": "b", "annotations": {OPT_IN: "false"}}})
    book.applied(QUEUES, {"metadata": {"name": "q", "annotations": opted_in}})
    book.applied(LOCAL_QUEUES, {"metadata": {"name": "default", "namespace": "c"}})
    book.applied(LOCAL_QUEUES, {"metadata": {"name": "other", "namespace": "d"}})
    assert book.scope == ReviewScope(frozenset("a"), True, frozenset("c"))
    book.applied(NAMESPACES, {"metadata": {"name": "a"}})
    book.removed(QUEUES, "", "q")
    book.removed(LOCAL_QUEUES, "d", "other")
    assert book.scope == ReviewScope(default_queue_namespaces=frozenset("c"))
    book.removed(LOCAL_QUEUES, "c", "default")
    assert book.scope == ReviewScope()
