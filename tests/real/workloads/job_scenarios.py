"""Scenarios of Jobs: how many pods run, which index has which, and how a job ends, pauses, or goes."""

from __future__ import annotations

from functools import partial
from typing import Any

from real.workloads.manifests import IMAGE, STUBBORN, job, template
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

Object = dict[str, Any]

LONG: dict[str, str] = {}
"""No outcome: such a pod runs until the test ends it."""
FAILS = {"run-for": "300ms", "exit-code": "1"}
INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return job(name, annotations, completionMode="Indexed", **spec)


def living(cluster: WorkloadCluster, *indexes: int) -> list[str]:
    """Names of pods that run: of these indexes, or all."""
    found = [
        each
        for each in cluster.pods()
        if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
    ]
    if indexes:
        labels = [str(each) for each in indexes]
        found = [each for each in found if each["metadata"]["labels"].get(INDEX) in labels]
    return [each["metadata"]["name"] for each in found]


def end(cluster: WorkloadCluster, *names: str, **how: Any) -> None:
    for name in names:
        cluster.end_pod(name, **how)


def succeed(cluster: WorkloadCluster, *names: str) -> None:
    end(cluster, *names, phase="Succeeded", exit_code=0)


def over(cluster: WorkloadCluster, name: str = "j", kind: str = "Complete", reason: str | None = None) -> WaitCondition:
    return cluster.condition(f"jobs/{name}", kind, reason=reason)


def numbers(cluster: WorkloadCluster, **counts: Any) -> WaitCondition:
    return cluster.status("jobs/j", **counts)


def runs_to_its_end(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", parallelism=2, completions=4))
    cluster.checkpoint("it is complete", over(cluster), numbers(cluster, succeeded=4), words=True)


def needs_one_success(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=3))
    cluster.checkpoint("three run", numbers(cluster, active=3, ready=3))
    succeed(cluster, living(cluster)[0])
    cluster.checkpoint("one has succeeded", numbers(cluster, active=2, ready=2, succeeded=1))
    end(cluster, living(cluster)[0])
    cluster.checkpoint("one has failed and is not replaced", numbers(cluster, active=1, ready=1, succeeded=1, failed=1))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("all have ended", over(cluster))


def has_nothing_to_do(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", completions=0), job("k", parallelism=0, completions=2))
    cluster.checkpoint("one is complete, one waits", over(cluster), cluster.status("jobs/k", ready=0))


def runs_by_index(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", parallelism=2, completions=5))
    cluster.checkpoint("it is complete", over(cluster), numbers(cluster, completedIndexes="0-4"), words=True)


def tells_its_indexes(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", LONG, parallelism=6, completions=6))
    cluster.wait(numbers(cluster, active=6, ready=6))
    succeed(cluster, *living(cluster, 1, 3, 4))
    cluster.checkpoint("three are done", numbers(cluster, active=3, ready=3, succeeded=3, completedIndexes="1,3,4"))
    succeed(cluster, *living(cluster, 0, 2))
    cluster.checkpoint("one is left", numbers(cluster, active=1, ready=1, succeeded=5, completedIndexes="0-4"))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def grows_and_shrinks(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", LONG, parallelism=4, completions=4))
    cluster.wait(numbers(cluster, active=4, ready=4))
    succeed(cluster, *living(cluster, 0, 3))
    cluster.checkpoint("two are done", numbers(cluster, active=2, ready=2, completedIndexes="0,3"))
    cluster.change("jobs/j", {"spec": {"parallelism": 6, "completions": 6}})
    cluster.checkpoint("two more", numbers(cluster, active=4, ready=4, completedIndexes="0,3"))
    cluster.change("jobs/j", {"spec": {"parallelism": 3, "completions": 3}})
    cluster.checkpoint(
        "it has shrunk", numbers(cluster, active=2, ready=2, succeeded=1, completedIndexes="0", terminating=0)
    )
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def begins_suspended(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, suspend=True, parallelism=2, completions=2))
    cluster.checkpoint("it is suspended", cluster.condition("jobs/j", "Suspended"), words=True)
    cluster.change("jobs/j", {"spec": {"suspend": False}})
    cluster.checkpoint("it runs", numbers(cluster, active=2, ready=2), words=True)
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def is_suspended_while_it_runs(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", LONG, parallelism=3, completions=4))
    cluster.wait(numbers(cluster, active=3, ready=3))
    succeed(cluster, *living(cluster, 1))
    cluster.wait(numbers(cluster, active=3, ready=3, completedIndexes="1"))
    cluster.change("jobs/j", {"spec": {"suspend": True}})
    cluster.checkpoint(
        "nothing runs", cluster.condition("jobs/j", "Suspended"), numbers(cluster, active=0, terminating=0)
    )
    cluster.change("jobs/j", {"spec": {"suspend": False, "parallelism": 2}})
    cluster.checkpoint(
        "it runs again", cluster.condition("jobs/j", "Suspended", "False"), numbers(cluster, active=2, ready=2)
    )
    succeed(cluster, *living(cluster))
    cluster.wait(numbers(cluster, active=1, ready=1))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def changes_its_parallelism(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=2, completions=6))
    cluster.checkpoint("two run", numbers(cluster, active=2, ready=2))
    cluster.change("jobs/j", {"spec": {"parallelism": 4}})
    cluster.checkpoint("four run", numbers(cluster, active=4, ready=4))
    cluster.change("jobs/j", {"spec": {"parallelism": 1}})
    cluster.checkpoint("one runs", numbers(cluster, active=1, ready=1, terminating=0))
    cluster.change("jobs/j", {"spec": {"parallelism": 0}})
    cluster.checkpoint("none runs", numbers(cluster, active=0, terminating=0))


def fails_at_once(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=3, completions=3, backoffLimit=0))
    cluster.wait(numbers(cluster, active=3, ready=3))
    end(cluster, living(cluster)[0])
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="BackoffLimitExceeded"), words=True)


def waits_for_its_last_pod(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", STUBBORN, parallelism=3, completions=3, backoffLimit=0))
    cluster.wait(numbers(cluster, active=3, ready=3))
    end(cluster, living(cluster)[0])
    cluster.checkpoint(
        "it is about to fail", cluster.condition("jobs/j", "FailureTarget"), numbers(cluster, terminating=2)
    )
    cluster.checkpoint("it has failed", over(cluster, kind="Failed"), numbers(cluster, terminating=0))


def restarts_its_containers(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", FAILS, {"restartPolicy": "OnFailure"}, backoffLimit=2))
    cluster.checkpoint("too often", over(cluster, kind="Failed", reason="BackoffLimitExceeded"), cluster.pods_are(0))


def fails_after_a_second_try(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", FAILS, backoffLimit=1))
    cluster.checkpoint("one has failed", numbers(cluster, failed=1))
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="BackoffLimitExceeded"))


def replaces_a_failed_pod(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=2, completions=2))
    cluster.wait(numbers(cluster, active=2, ready=2))
    end(cluster, living(cluster)[0], exit_code=7)
    cluster.wait(numbers(cluster, failed=1))
    cluster.checkpoint("another one runs", numbers(cluster, active=2, ready=2, failed=1))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def takes_too_long(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=2, completions=2, activeDeadlineSeconds=3))
    cluster.checkpoint("its time is over", over(cluster, kind="Failed", reason="DeadlineExceeded"), words=True)


def gets_a_deadline_later(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, parallelism=1))
    cluster.wait(numbers(cluster, active=1, ready=1))
    cluster.change("jobs/j", {"spec": {"activeDeadlineSeconds": 2}})
    cluster.checkpoint("its time is over", over(cluster, kind="Failed", reason="DeadlineExceeded"))


def goes_after_its_time(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", ttlSecondsAfterFinished=3), job("k", FAILS, backoffLimit=0, ttlSecondsAfterFinished=3))
    cluster.wait(over(cluster), over(cluster, "k", "Failed"))
    cluster.checkpoint("both are gone, with their pods", cluster.gone("jobs/j", "jobs/k"), cluster.pods_are(0))


def loses_a_pod(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", STUBBORN, {"terminationGracePeriodSeconds": 1}, parallelism=2, completions=2))
    cluster.wait(numbers(cluster, active=2, ready=2))
    cluster.remove(f"pods/{living(cluster)[0]}")
    cluster.checkpoint(
        "it counts as failed, and is replaced", numbers(cluster, active=2, ready=2, failed=1, terminating=0)
    )
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def replaces_when_pods_have_ended(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", STUBBORN, parallelism=2, completions=2, podReplacementPolicy="Failed"))
    cluster.wait(numbers(cluster, active=2, ready=2))
    cluster.remove(f"pods/{living(cluster)[0]}")
    cluster.checkpoint("one is going and not replaced", numbers(cluster, active=1, ready=1, terminating=1))
    cluster.checkpoint("it has ended and is replaced", numbers(cluster, active=2, ready=2, failed=1, terminating=0))


def is_managed_by_another(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, managedBy="example.com/somebody"))
    cluster.create(job("k", LONG, managedBy="kubernetes.io/job-controller"))
    cluster.checkpoint("nothing happens to it", cluster.status("jobs/k", active=1, ready=1))


def is_deleted(cluster: WorkloadCluster, policy: str) -> None:
    cluster.create(job("j", LONG, parallelism=2, completions=3))
    cluster.wait(numbers(cluster, active=2, ready=2))
    succeed(cluster, living(cluster)[0])
    cluster.checkpoint("one has ended", numbers(cluster, active=2, ready=2, succeeded=1))
    cluster.remove("jobs/j", policy)
    left = cluster.pods_are(3) if policy == "Orphan" else cluster.pods_are(0)
    cluster.checkpoint("it is gone", cluster.gone("jobs/j"), left)


def adopts(cluster: WorkloadCluster) -> None:
    pod = template("j", LONG, restartPolicy="Never")
    pod["metadata"]["labels"]["kind"] = "mine"
    cluster.post(
        cluster.at("pods"), {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": "p"}}
    )
    cluster.wait(cluster.pods_are(1, "Running"))
    wanted: Object = {"manualSelector": True, "selector": {"matchLabels": {"kind": "mine"}}}
    chosen = job("j", LONG, parallelism=2, completions=2, **wanted)
    chosen["spec"]["template"]["metadata"]["labels"]["kind"] = "mine"
    cluster.create(chosen)
    cluster.checkpoint("one was there, one is new", numbers(cluster, active=2, ready=2))
    cluster.change("pods/p", {"metadata": {"labels": {"kind": "yours"}}})
    cluster.checkpoint(
        "it was let go and replaced", numbers(cluster, active=2, ready=2), cluster.pods_are(3, "Running")
    )


def is_used_by_kubectl(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG))
    cluster.wait(numbers(cluster, active=1, ready=1))
    cluster.kubectl("get jobs")
    cluster.kubectl("delete job j")
    cluster.wait(cluster.gone("jobs/j"), cluster.pods_are(0))
    cluster.kubectl(f"create job j --image={IMAGE} -- true")
    cluster.kubectl("wait --for=condition=complete job/j --timeout=40s")
    cluster.kubectl("get jobs")
    cluster.checkpoint("it is complete", over(cluster))
    cluster.kubectl("delete job j")
    cluster.checkpoint("it is gone", cluster.gone("jobs/j"), cluster.pods_are(0))


def has_no_room(cluster: WorkloadCluster) -> None:
    cluster.post(cluster.at("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
    cluster.until("the quota counts", lambda: "hard" in (cluster.read("resourcequotas/q").get("status") or {}))
    cluster.create(job("j", LONG, parallelism=2, completions=4))
    cluster.wait(numbers(cluster, active=2, ready=2))
    cluster.change("jobs/j", {"spec": {"parallelism": 4}})
    cluster.checkpoint("two are refused", cluster.event("FailedCreate", "Job"), numbers(cluster, active=2, ready=2))


SCENARIOS = [
    scenario("a job runs to its end", runs_to_its_end),
    scenario("a job needs one success", needs_one_success),
    scenario("a job has nothing to do", has_nothing_to_do),
    scenario("a job runs by index", runs_by_index),
    scenario("a job tells its indexes", tells_its_indexes),
    scenario("a job grows and shrinks", grows_and_shrinks),
    scenario("a job begins suspended", begins_suspended),
    scenario("a job is suspended while it runs", is_suspended_while_it_runs),
    scenario("a job changes its parallelism", changes_its_parallelism),
    scenario("a job fails at once", fails_at_once),
    scenario("a job waits for its last pod", waits_for_its_last_pod),
    scenario("a job restarts its containers", restarts_its_containers),
    scenario("a job fails after a second try", fails_after_a_second_try),
    scenario("a job replaces a failed pod", replaces_a_failed_pod),
    scenario("a job takes too long", takes_too_long),
    scenario("a job gets a deadline later", gets_a_deadline_later),
    scenario("a job goes after its time", goes_after_its_time),
    scenario("a job loses a pod", loses_a_pod),
    scenario("a job replaces when pods have ended", replaces_when_pods_have_ended),
    scenario("a job is managed by another", is_managed_by_another),
    *(
        scenario(f"a job is deleted {policy}", partial(is_deleted, policy=policy))
        for policy in ("Background", "Foreground", "Orphan")
    ),
    scenario("a job adopts", adopts),
    scenario("a job is used by kubectl", is_used_by_kubectl),
    scenario("a job has no room", has_no_room),
]
