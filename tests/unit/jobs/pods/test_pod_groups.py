"""Pod groups: admitted as a whole, replaced one by one, and finished as a whole."""

from __future__ import annotations

import pytest

from headgate.jobs.pods.pod_metadata import role_of
from kueue_builders import a_workload
from unit.jobs.pods.fixtures import (
    K,
    SlowKubelet,
    a_pod,
    a_world,
    add,
    add_group,
    condition,
    delete,
    end,
    has,
    messages_of,
    pods,
    reasons,
    started,
    workloads,
)
from unit.jobs.queue_fixtures import PODS, WORKLOADS, create, kueue_object


def test_a_group_waits_until_it_is_complete_and_starts_as_one() -> None:
    world = a_world(cpu=3)
    add(world, "a", group="g", total=3)
    add(world, "b", group="g", total=3, cpu="500m")
    world.advance(15)
    assert not workloads(world)
    assert messages_of(world, "ErrWorkloadCompose") == ["'g' group has fewer runnable pods than expected"], "once"
    add(world, "c", group="g", total=3)
    roles = {role_of(each) for each in pods(world).values()}
    world.advance(1)
    workload = workloads(world)["g"]
    assert workload["metadata"]["annotations"] == {f"{K}/is-group-workload": "true"}
    assert [(each["name"], "controller" in each) for each in workload["metadata"]["ownerReferences"]] == [
        ("a", False),
        ("b", False),
        ("c", False),
    ]
    assert [each["name"] for each in workload["spec"]["podSets"]] == sorted(roles)
    assert sorted(each["count"] for each in workload["spec"]["podSets"]) == [1, 2]
    assert started(world) == ["a", "b", "c"]
    assert reasons(world).count("Started") == 3
    assert {each["metadata"]["labels"][f"{K}/podset"] for each in pods(world).values()} == roles
    assert has(world, "g", "PodsReady")


def test_the_group_may_be_named_by_an_annotation() -> None:
    world = a_world()
    for name in ("a", "b"):
        pod = a_pod(name, group="g")
        del pod["metadata"]["labels"][f"{K}/pod-group-name"]
        pod["metadata"]["annotations"][f"{K}/pod-group-name"] = "g"
        create(world.server, PODS, pod)
    world.advance(1)
    assert started(world) == ["a", "b"]


def test_no_pod_of_a_group_that_does_not_fit_is_admitted() -> None:
    world = a_world(cpu=1)
    add_group(world, "g")
    world.advance(2)
    assert started(world) == []
    assert list(workloads(world)) == ["g"]


def test_a_large_group_is_reconciled_in_batches_and_not_for_each_pod() -> None:
    world = a_world(cpu=110)
    add_group(world, "g", count=110)
    before = len(world.requests)
    world.advance(2)
    assert len(started(world)) == 110
    assert has(world, "g", "PodsReady")
    written = [path for method, path in world.requests[before:] if method == "PATCH" and "/pods/" in path]
    assert len(written) == 110, "one patch each"


def test_members_must_agree_on_queue_and_count() -> None:
    world = a_world()
    add(world, "a", group="g")
    add(world, "b", group="g", queue="other")
    add(world, "c", group="h")
    add(world, "d", group="h", total=3)
    add(world, "e", group="h", total=3)
    world.advance(1)
    assert not workloads(world)
    assert messages_of(world, "ErrWorkloadCompose") == [
        "pods 'a' and 'b' have different queue names: lq!=other",
        "pods 'c' and 'd' have different values of pod-group-total-count: 2!=3",
    ]


def test_a_group_has_at_most_eighteen_roles() -> None:
    world = a_world(cpu=100)
    for number in range(19):
        add(world, f"p{number:02d}", group="g", total=19, cpu=f"{number + 1}m")
    world.advance(1)
    assert messages_of(world, "ErrWorkloadCompose")[-1] == "pod group can't include more than 18 roles, 'g' has 19"


def test_with_fast_admission_the_first_pod_is_enough() -> None:
    world = a_world(cpu=3)
    note = {f"{K}/pod-group-fast-admission": "true"}
    add(world, "a", group="g", total=3, annotations=note)
    world.advance(1)
    assert [each["count"] for each in workloads(world)["g"]["spec"]["podSets"]] == [3]
    assert started(world) == ["a"]
    add(world, "b", group="g", total=3, annotations=note)
    add(world, "c", group="g", total=3, annotations=note)
    add(world, "d", group="g", total=3, annotations=note)
    world.advance(1)
    assert started(world) == ["a", "b", "c"]
    assert messages_of(world, "ExcessPodDeleted") == ["Excess pod deleted"]


def test_of_too_many_pods_the_youngest_is_deleted() -> None:
    world = a_world()
    for name in ("a", "b", "c"):
        add(world, name, group="g")
    world.advance(1)
    assert started(world) == ["a", "b"]
    assert list(pods(world)) == ["a", "b"]
    add(world, "d", group="g")
    world.advance(1)
    assert list(pods(world)) == ["a", "b"]
    assert reasons(world).count("ExcessPodDeleted") == 2


def test_a_failed_pod_loses_its_finalizer_when_it_is_replaced() -> None:
    world = a_world()
    add_group(world, "g")
    world.advance(1)
    end(world, "g-0", "Failed")
    world.advance(1)
    told = condition(world, "g", "WaitingForReplacementPods")
    assert (told["status"], told["reason"], told["message"]) == (
        "True",
        "PodsFailed",
        "Some Failed pods need replacement",
    )
    assert pods(world)["g-0"]["metadata"]["finalizers"] == [f"{K}/managed"]
    assert has(world, "g", "Admitted"), "it keeps its quota"
    add(world, "new", group="g")
    world.advance(1)
    assert started(world) == ["g-0", "g-1", "new"]
    assert "finalizers" not in pods(world)["g-0"]["metadata"]
    told = condition(world, "g", "WaitingForReplacementPods")
    assert (told["status"], told["reason"], told["message"]) == ("False", "PodsReady", "No pods need replacement")
    assert "new" in [each["name"] for each in workloads(world)["g"]["metadata"]["ownerReferences"]]
    assert messages_of(world, "OwnerReferencesAdded") == ["Added 1 owner reference(s)"]


def test_a_replacement_is_no_excess_pod_while_the_old_one_terminates() -> None:
    """kueue#13830, kueue#15424."""
    world = a_world(kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(1)
    delete(world, "g-0")
    world.advance(1)
    add(world, "new", group="g")
    world.advance(1)
    assert "deletionTimestamp" in pods(world)["g-0"]["metadata"]
    assert started(world) == ["g-1"], "the old one uses the place on a node"
    assert "ExcessPodDeleted" not in reasons(world)
    world.advance(70)
    assert sorted(pods(world)) == ["g-1", "new"]
    assert started(world) == ["g-1", "new"]


def test_succeeded_pods_release_their_quota_and_all_of_them_finish_the_group() -> None:
    world = a_world(cpu=2)
    add_group(world, "g")
    add(world, "next")
    world.advance(1)
    assert started(world) == ["g-0", "g-1"]
    end(world, "g-0", "Succeeded")
    world.advance(1)
    assert [each["count"] for each in workloads(world)["g"]["status"]["reclaimablePods"]] == [1]
    assert "next" in started(world)
    end(world, "g-1", "Succeeded")
    world.advance(1)
    told = condition(world, "g", "Finished")
    assert (told["reason"], told["message"]) == ("Succeeded", "Pods succeeded: 2/2.")
    for name in ("g-0", "g-1"):
        assert "finalizers" not in pods(world)[name]["metadata"]


def test_a_succeeded_pod_that_is_deleted_still_counts() -> None:
    world = a_world()
    add_group(world, "g")
    world.advance(1)
    end(world, "g-0", "Succeeded")
    world.advance(1)
    delete(world, "g-0")
    world.advance(5)
    assert "g-0" in pods(world), "its end must be seen"
    end(world, "g-1", "Succeeded")
    world.advance(5)
    assert condition(world, "g", "Finished")["message"] == "Pods succeeded: 2/2."
    assert "g-0" not in pods(world)


def test_a_group_with_a_succeeded_pod_is_removed_when_all_pods_are_deleted() -> None:
    world = a_world(kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(1)
    end(world, "g-0", "Succeeded")
    world.advance(1)
    delete(world, "g-0", "g-1")
    world.advance(100)
    assert not pods(world)
    assert not workloads(world)


def test_an_unretriable_group_ends_when_all_pods_have_ended() -> None:
    world = a_world()
    add(world, "a", group="g", annotations={f"{K}/retriable-in-group": "false"})
    add(world, "b", group="g")
    world.advance(1)
    end(world, "b", "Failed")
    world.advance(1)
    delete(world, "b")
    world.advance(1)
    assert "b" in pods(world), "it is counted when the group ends"
    end(world, "a", "Succeeded")
    world.advance(1)
    told = condition(world, "g", "Finished")
    assert (told["reason"], told["message"]) == ("Failed", "Pods succeeded: 1/2.")
    assert "b" not in pods(world)


def test_a_serving_group_never_ends_and_reclaims_nothing() -> None:
    world = a_world()
    add_group(world, "g", annotations={f"{K}/pod-group-serving": "true"})
    world.advance(1)
    for name in ("g-0", "g-1"):
        end(world, name, "Succeeded")
    world.advance(2)
    assert not has(world, "g", "Finished")
    assert "reclaimablePods" not in workloads(world)["g"]["status"]


def test_a_foreign_workload_with_the_groups_name_is_not_changed() -> None:
    world = a_world()
    create(world.server, WORKLOADS, kueue_object("Workload", a_workload("g", cpu=1)))
    add_group(world, "g")
    world.advance(30)
    assert started(world) == []
    text = 'A Workload named "g" already exists but is not a pod group workload; this pod group cannot be admitted'
    assert messages_of(world, "WorkloadNameConflict") == [text], "once"
    assert "ownerReferences" not in workloads(world)["g"]["metadata"]
    delete(world, "g-0", "g-1")
    world.advance(15)
    assert not pods(world), "finalizers are off"


def test_a_deleted_workload_ends_all_pods_of_its_group() -> None:
    world = a_world(kubelet=SlowKubelet)
    add_group(world, "g")
    world.advance(1)
    end(world, "g-0", "Succeeded")
    world.advance(1)
    world.server.delete(f"{WORKLOADS}/g")
    world.advance(1)
    assert all("deletionTimestamp" in each["metadata"] for each in pods(world).values())
    assert all("finalizers" not in each["metadata"] for each in pods(world).values())
    world.advance(70)
    assert not pods(world)
    assert not workloads(world)


@pytest.mark.parametrize("count", [1, 2])
def test_a_deleted_gated_group_is_removed_at_once(count: int) -> None:
    world = a_world(cpu=1)
    add_group(world, "g", cpu="2")
    world.advance(1)
    delete(world, *["g-0", "g-1"][:count])
    world.advance(1)
    assert len(pods(world)) == 2 - count
    if count == 2:
        assert not workloads(world)
    else:
        assert has(world, "g", "WaitingForReplacementPods"), "who is absent cannot be admitted"


def test_a_new_group_with_the_same_name_gets_a_new_workload() -> None:
    world = a_world()
    add_group(world, "g", ends="Succeeded")
    world.advance(5)
    before = workloads(world)["g"]["metadata"]["uid"]
    delete(world, "g-0", "g-1")
    add(world, "x", group="g")
    add(world, "y", group="g")
    world.advance(5)
    assert workloads(world)["g"]["metadata"]["uid"] != before
    assert started(world) == ["x", "y"]


def test_a_waiting_group_may_change_its_roles() -> None:
    world = a_world(cpu=1)
    add_group(world, "g")
    world.advance(1)
    delete(world, "g-0", "g-1")
    add(world, "x", group="g", cpu="500m")
    add(world, "y", group="g", cpu="500m")
    world.advance(2)
    assert started(world) == ["x", "y"]


def test_a_replacement_with_another_role_reports_why_it_waits() -> None:
    world = a_world()
    add_group(world, "g")
    world.advance(1)
    end(world, "g-0", "Failed")
    add(world, "x", group="g", cpu="500m")
    world.advance(2)
    assert "x" not in started(world)
    assert messages_of(world, "ErrWorkloadCompose") == [
        "pod 'x' asks for something that Workload 'g' was not admitted for"
    ]
