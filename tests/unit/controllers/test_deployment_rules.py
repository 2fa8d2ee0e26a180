"""The rules of Deployments: revisions, history, names, and the Progressing condition."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.deployments import progress, revisions, rolling_update
from headgate.controllers.deployments.replica_sets import MAX_REPLICAS, REVISION, REVISION_HISTORY, read
from headgate.kube.timestamps import format_time

Object = dict[str, Any]
NOW_S = 1_700_000_000.0
NAME = 'ReplicaSet "web-1"'


def a_deployment(**spec: Any) -> Object:
    metadata = {"name": "web", "namespace": "a", "uid": "u", "generation": 2}
    return {"metadata": metadata, "spec": {"replicas": 2, "progressDeadlineSeconds": 60, **spec}, "status": {}}


def a_set(name: str, revision: str | None = "1", replicas: int = 0, **status: int) -> Object:
    notes = {} if revision is None else {REVISION: revision}
    metadata = {"name": name, "uid": name, "annotations": notes, "creationTimestamp": "", "generation": 1}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": {"observedGeneration": 1, **status}}


def progressing(reason: str, status: str = "True", age_s: float = 0.0) -> list[Object]:
    return [progress.condition("Progressing", status, reason, "", NOW_S - age_s)]


COMPLETE = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}


@pytest.mark.parametrize(
    ("before", "counts", "held", "after"),
    [
        (progressing("NewReplicaSetCreated"), COMPLETE, False, "NewReplicaSetAvailable"),
        (progressing("NewReplicaSetCreated"), COMPLETE, True, "NewReplicaSetAvailable"),
        (progressing("NewReplicaSetCreated"), {"updatedReplicas": 1, "replicas": 1}, False, "ReplicaSetUpdated"),
        (progressing("NewReplicaSetCreated"), {}, False, "NewReplicaSetCreated"),
        (progressing("NewReplicaSetCreated", age_s=60), {}, False, "NewReplicaSetCreated"),
        (progressing("NewReplicaSetCreated", age_s=61), {}, False, "ProgressDeadlineExceeded"),
        (progressing("NewReplicaSetCreated", age_s=61), {}, True, "WaitingForQueue"),
        (progressing("WaitingForQueue", age_s=6100), {}, True, "WaitingForQueue"),
        (progressing("WaitingForQueue", age_s=6100), {}, False, "ReplicaSetUpdated"),
        (progressing("ProgressDeadlineExceeded", "False"), {}, True, "ProgressDeadlineExceeded"),
        (progressing("ProgressDeadlineExceeded", "False"), {"readyReplicas": 1}, False, "ReplicaSetUpdated"),
        (progressing("DeploymentResumed", "Unknown", age_s=61), {}, False, "ProgressDeadlineExceeded"),
        (progressing("NewReplicaSetAvailable", age_s=6100), {"replicas": 1}, False, "NewReplicaSetAvailable"),
        ([], {}, False, ""),
    ],
)
def test_the_progressing_condition_follows_the_counts(
    before: list[Object], counts: Object, held: bool, after: str
) -> None:
    told = progress.with_progress(a_deployment(), counts, before, NAME, held, NOW_S)
    assert progress.reason_of(told) == after


def test_without_a_deadline_there_is_no_progressing_condition() -> None:
    deployment = a_deployment(progressDeadlineSeconds=2**31 - 1)
    assert progress.with_progress(deployment, COMPLETE, progressing("ReplicaSetUpdated"), NAME, False, NOW_S) == []
    assert progress.with_pause({**deployment, "spec": {"paused": True}}, [], NOW_S) == []


def test_progress_updates_the_update_time_and_not_the_transition_time() -> None:
    before = progressing("ReplicaSetUpdated", age_s=30)
    (after,) = progress.with_progress(a_deployment(), {"readyReplicas": 1}, before, NAME, False, NOW_S)
    assert after["lastUpdateTime"] == format_time(NOW_S)
    assert after["lastTransitionTime"] == format_time(NOW_S - 30)
    assert after["message"] == f"{NAME} is progressing."


def test_fewer_old_pods_are_progress_and_fewer_ready_ones_are_not() -> None:
    before = {"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2}
    assert progress.has_progressed(before, {**before, "replicas": 2})
    assert not progress.has_progressed(before, {**before, "readyReplicas": 1})


@pytest.mark.parametrize(
    ("reason", "wait_s"),
    [
        ("ReplicaSetUpdated", 51.0),
        ("DeploymentResumed", 51.0),
        ("WaitingForQueue", None),
        ("ProgressDeadlineExceeded", None),
        ("NewReplicaSetAvailable", None),
    ],
)
def test_the_deadline_is_checked_when_it_is_over(reason: str, wait_s: float | None) -> None:
    status = {"conditions": progressing(reason, age_s=10)}
    assert progress.next_deadline_check_s(a_deployment(), status, NOW_S) == wait_s


def test_a_pause_is_recorded_once_and_hides_no_failure() -> None:
    paused = a_deployment(paused=True)
    told = progress.with_pause(paused, progressing("ReplicaSetUpdated"), NOW_S)
    assert (told[0]["status"], told[0]["reason"]) == ("Unknown", "DeploymentPaused")
    assert progress.with_pause(paused, told, NOW_S + 9) is told
    assert progress.reason_of(progress.with_pause(a_deployment(), told, NOW_S)) == "DeploymentResumed"
    late = progressing("ProgressDeadlineExceeded", "False")
    assert progress.with_pause(paused, late, NOW_S) is late


def test_the_new_revision_is_the_highest_plus_one_and_invalid_annotations_do_not_count() -> None:
    old = [read(a_set("a", "3")), read(a_set("b", "junk")), read(a_set("c", None))]
    assert revisions.next_revision(old) == 4
    assert revisions.next_revision([]) == 1


def test_a_reused_revision_records_its_numbers_and_drops_the_oldest() -> None:
    known = {REVISION: "3", REVISION_HISTORY: "1"}
    assert revisions.revision_annotations(a_deployment(), known, 5) == {REVISION: "5", REVISION_HISTORY: "1,3"}
    assert revisions.revision_annotations(a_deployment(), known, 3) == known, "it is the newest already"
    long = {REVISION: "9999", REVISION_HISTORY: ",".join(map(str, range(1000, 1400)))}
    history = revisions.revision_annotations(a_deployment(), long, 10000)[REVISION_HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",1399,9999")


def test_annotations_are_copied_except_those_of_one_object_only() -> None:
    deployment = a_deployment()
    mine = {"kubectl.kubernetes.io/last-applied-configuration": "{}", MAX_REPLICAS: "9", "example.com/a": "1"}
    deployment["metadata"]["annotations"] = mine
    assert revisions.revision_annotations(deployment, {"example.com/b": "2"}, 1) == {
        "example.com/a": "1",
        "example.com/b": "2",
        REVISION: "1",
    }
    assert revisions.revision_annotations(deployment, {REVISION: "junk"}, 2) == {REVISION: "junk"}, (
        "whose number is none is left alone"
    )


def test_empty_old_sets_with_the_lowest_revisions_are_deleted() -> None:
    old = [
        read(a_set("a", "4")),
        read(a_set("b", "2")),
        read(a_set("c", "1", replicas=1)),
        read(a_set("d", "3", observedGeneration=0)),
        read(a_set("e", "5")),
    ]
    kept_two = a_deployment(revisionHistoryLimit=2)
    assert [each.name for each in revisions.beyond_history(kept_two, old)] == ["b"], (
        "c has pods, d was not looked after"
    )
    assert revisions.beyond_history(a_deployment(revisionHistoryLimit=2**31 - 1), old) == []
    assert revisions.beyond_history(a_deployment(), old) == []


def test_the_new_set_grows_only_when_all_generations_are_observed() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    deployment, new = a_deployment(replicas=4, strategy=update), read(a_set("new", "2", replicas=1))

    def size_beside(pods: int, seen: int = 1) -> int:
        old = a_set("old", "1", replicas=3)
        old["status"] = {"replicas": pods, "observedGeneration": seen}
        return rolling_update.new_size(deployment, [read(old), new], new.replicas)

    assert size_beside(pods=3) == 2
    assert size_beside(pods=4) == 1, "one that was to go is still there"
    assert size_beside(pods=3, seen=0) == 1, "nobody knows what it has done yet"


def test_availability_reported_before_a_resize_is_limited_by_the_new_size() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    deployment = a_deployment(replicas=10, strategy=update)
    old = read(a_set("old", "1", replicas=8, availableReplicas=10))
    new = read(a_set("new", "2", replicas=5, availableReplicas=1))
    assert rolling_update.shrink_old(deployment, [old], new) == [rolling_update.ReplicaSetResize("old", 7)]


def test_a_long_name_is_truncated_so_that_the_hash_fits() -> None:
    assert revisions.replica_set_name("web", "abc") == "web-abc"
    assert len(revisions.replica_set_name("w" * 253, "6768b9d8f5")) == 253


def test_templates_are_the_same_whatever_their_hash_and_how_amounts_are_written() -> None:
    def template(cpu: str, **labels: str) -> Object:
        limits = {"resources": {"limits": {"cpu": cpu}}}
        return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"containers": [{"name": "c", **limits}]}}

    assert revisions.same_template(template("1"), template("1000m", **{revisions.HASH_LABEL: "x"}))
    assert not revisions.same_template(template("1"), template("2"))
    assert not revisions.same_template(template("1"), template("1", tier="front"))
