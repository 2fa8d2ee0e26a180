"""Stories of Jobs: how many pods run, which index has which, and how a job ends, pauses, or goes."""

from __future__ import annotations

from functools import partial
from typing import Any

from real.workloads.manifests import IMAGE, STUBBORN, job, template
from real.workloads.scenario_cluster import Hold, Workplace, story

Object = dict[str, Any]

LONG: dict[str, str] = {}
"""No wish: such a pod runs until somebody ends it."""
FAILS = {"run-for": "300ms", "exit-code": "1"}
INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return job(name, annotations, completionMode="Indexed", **spec)


def living(place: Workplace, *indexes: int) -> list[str]:
    """Names of pods that run: of these indexes, or all."""
    found = [
        each
        for each in place.pods()
        if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
    ]
    if indexes:
        labels = [str(each) for each in indexes]
        found = [each for each in found if each["metadata"]["labels"].get(INDEX) in labels]
    return [each["metadata"]["name"] for each in found]


def end(place: Workplace, *names: str, **how: Any) -> None:
    for name in names:
        place.end_pod(name, **how)


def succeed(place: Workplace, *names: str) -> None:
    end(place, *names, phase="Succeeded", exit_code=0)


def over(place: Workplace, name: str = "j", kind: str = "Complete", reason: str | None = None) -> Hold:
    return place.condition(f"jobs/{name}", kind, reason=reason)


def numbers(place: Workplace, **counts: Any) -> Hold:
    return place.status("jobs/j", **counts)


def runs_to_its_end(place: Workplace) -> None:
    place.create(job("j", parallelism=2, completions=4))
    place.stop("it is complete", over(place), numbers(place, succeeded=4), words=True)


def needs_one_success(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=3))
    place.stop("three run", numbers(place, active=3, ready=3))
    succeed(place, living(place)[0])
    place.stop("one has succeeded", numbers(place, active=2, ready=2, succeeded=1))
    end(place, living(place)[0])
    place.stop("one has failed and is not replaced", numbers(place, active=1, ready=1, succeeded=1, failed=1))
    succeed(place, *living(place))
    place.stop("all have ended", over(place))


def has_nothing_to_do(place: Workplace) -> None:
    place.create(job("j", completions=0), job("k", parallelism=0, completions=2))
    place.stop("one is complete, one waits", over(place), place.status("jobs/k", ready=0))


def runs_by_index(place: Workplace) -> None:
    place.create(indexed("j", parallelism=2, completions=5))
    place.stop("it is complete", over(place), numbers(place, completedIndexes="0-4"), words=True)


def tells_its_indexes(place: Workplace) -> None:
    place.create(indexed("j", LONG, parallelism=6, completions=6))
    place.wait(numbers(place, active=6, ready=6))
    succeed(place, *living(place, 1, 3, 4))
    place.stop("three are done", numbers(place, active=3, ready=3, succeeded=3, completedIndexes="1,3,4"))
    succeed(place, *living(place, 0, 2))
    place.stop("one is left", numbers(place, active=1, ready=1, succeeded=5, completedIndexes="0-4"))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def grows_and_shrinks(place: Workplace) -> None:
    place.create(indexed("j", LONG, parallelism=4, completions=4))
    place.wait(numbers(place, active=4, ready=4))
    succeed(place, *living(place, 0, 3))
    place.stop("two are done", numbers(place, active=2, ready=2, completedIndexes="0,3"))
    place.change("jobs/j", {"spec": {"parallelism": 6, "completions": 6}})
    place.stop("two more", numbers(place, active=4, ready=4, completedIndexes="0,3"))
    place.change("jobs/j", {"spec": {"parallelism": 3, "completions": 3}})
    place.stop("it has shrunk", numbers(place, active=2, ready=2, succeeded=1, completedIndexes="0", terminating=0))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def begins_suspended(place: Workplace) -> None:
    place.create(job("j", LONG, suspend=True, parallelism=2, completions=2))
    place.stop("it is suspended", place.condition("jobs/j", "Suspended"), words=True)
    place.change("jobs/j", {"spec": {"suspend": False}})
    place.stop("it runs", numbers(place, active=2, ready=2), words=True)
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def is_suspended_while_it_runs(place: Workplace) -> None:
    place.create(indexed("j", LONG, parallelism=3, completions=4))
    place.wait(numbers(place, active=3, ready=3))
    succeed(place, *living(place, 1))
    place.wait(numbers(place, active=3, ready=3, completedIndexes="1"))
    place.change("jobs/j", {"spec": {"suspend": True}})
    place.stop("nothing runs", place.condition("jobs/j", "Suspended"), numbers(place, active=0, terminating=0))
    place.change("jobs/j", {"spec": {"suspend": False, "parallelism": 2}})
    place.stop("it runs again", place.condition("jobs/j", "Suspended", "False"), numbers(place, active=2, ready=2))
    succeed(place, *living(place))
    place.wait(numbers(place, active=1, ready=1))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def changes_its_parallelism(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=2, completions=6))
    place.stop("two run", numbers(place, active=2, ready=2))
    place.change("jobs/j", {"spec": {"parallelism": 4}})
    place.stop("four run", numbers(place, active=4, ready=4))
    place.change("jobs/j", {"spec": {"parallelism": 1}})
    place.stop("one runs", numbers(place, active=1, ready=1, terminating=0))
    place.change("jobs/j", {"spec": {"parallelism": 0}})
    place.stop("none runs", numbers(place, active=0, terminating=0))


def fails_at_once(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=3, completions=3, backoffLimit=0))
    place.wait(numbers(place, active=3, ready=3))
    end(place, living(place)[0])
    place.stop("it has failed", over(place, kind="Failed", reason="BackoffLimitExceeded"), words=True)


def waits_for_its_last_pod(place: Workplace) -> None:
    place.create(job("j", STUBBORN, parallelism=3, completions=3, backoffLimit=0))
    place.wait(numbers(place, active=3, ready=3))
    end(place, living(place)[0])
    place.stop("it is about to fail", place.condition("jobs/j", "FailureTarget"), numbers(place, terminating=2))
    place.stop("it has failed", over(place, kind="Failed"), numbers(place, terminating=0))


def restarts_its_containers(place: Workplace) -> None:
    place.create(job("j", FAILS, {"restartPolicy": "OnFailure"}, backoffLimit=2))
    place.stop("too often", over(place, kind="Failed", reason="BackoffLimitExceeded"), place.pods_are(0))


def fails_after_a_second_try(place: Workplace) -> None:
    place.create(job("j", FAILS, backoffLimit=1))
    place.stop("one has failed", numbers(place, failed=1))
    place.stop("it has failed", over(place, kind="Failed", reason="BackoffLimitExceeded"))


def replaces_a_failed_pod(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=2, completions=2))
    place.wait(numbers(place, active=2, ready=2))
    end(place, living(place)[0], exit_code=7)
    place.wait(numbers(place, failed=1))
    place.stop("another one runs", numbers(place, active=2, ready=2, failed=1))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def takes_too_long(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=2, completions=2, activeDeadlineSeconds=3))
    place.stop("its time is over", over(place, kind="Failed", reason="DeadlineExceeded"), words=True)


def gets_a_deadline_later(place: Workplace) -> None:
    place.create(job("j", LONG, parallelism=1))
    place.wait(numbers(place, active=1, ready=1))
    place.change("jobs/j", {"spec": {"activeDeadlineSeconds": 2}})
    place.stop("its time is over", over(place, kind="Failed", reason="DeadlineExceeded"))


def goes_after_its_time(place: Workplace) -> None:
    place.create(job("j", ttlSecondsAfterFinished=3), job("k", FAILS, backoffLimit=0, ttlSecondsAfterFinished=3))
    place.wait(over(place), over(place, "k", "Failed"))
    place.stop("both are gone, with their pods", place.gone("jobs/j", "jobs/k"), place.pods_are(0))


def loses_a_pod(place: Workplace) -> None:
    place.create(job("j", STUBBORN, {"terminationGracePeriodSeconds": 1}, parallelism=2, completions=2))
    place.wait(numbers(place, active=2, ready=2))
    place.remove(f"pods/{living(place)[0]}")
    place.stop("it counts as failed, and is replaced", numbers(place, active=2, ready=2, failed=1, terminating=0))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def replaces_when_pods_have_ended(place: Workplace) -> None:
    place.create(job("j", STUBBORN, parallelism=2, completions=2, podReplacementPolicy="Failed"))
    place.wait(numbers(place, active=2, ready=2))
    place.remove(f"pods/{living(place)[0]}")
    place.stop("one is going and not replaced", numbers(place, active=1, ready=1, terminating=1))
    place.stop("it has ended and is replaced", numbers(place, active=2, ready=2, failed=1, terminating=0))


def is_managed_by_another(place: Workplace) -> None:
    place.create(job("j", LONG, managedBy="example.com/somebody"))
    place.create(job("k", LONG, managedBy="kubernetes.io/job-controller"))
    place.stop("nothing happens to it", place.status("jobs/k", active=1, ready=1))


def is_deleted(place: Workplace, policy: str) -> None:
    place.create(job("j", LONG, parallelism=2, completions=3))
    place.wait(numbers(place, active=2, ready=2))
    succeed(place, living(place)[0])
    place.stop("one has ended", numbers(place, active=2, ready=2, succeeded=1))
    place.remove("jobs/j", policy)
    left = place.pods_are(3) if policy == "Orphan" else place.pods_are(0)
    place.stop("it is gone", place.gone("jobs/j"), left)


def adopts(place: Workplace) -> None:
    pod = template("j", LONG, restartPolicy="Never")
    pod["metadata"]["labels"]["kind"] = "mine"
    place.post(
        place.at("pods"), {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": "p"}}
    )
    place.wait(place.pods_are(1, "Running"))
    wanted: Object = {"manualSelector": True, "selector": {"matchLabels": {"kind": "mine"}}}
    chosen = job("j", LONG, parallelism=2, completions=2, **wanted)
    chosen["spec"]["template"]["metadata"]["labels"]["kind"] = "mine"
    place.create(chosen)
    place.stop("one was there, one is new", numbers(place, active=2, ready=2))
    place.change("pods/p", {"metadata": {"labels": {"kind": "yours"}}})
    place.stop("it was let go and replaced", numbers(place, active=2, ready=2), place.pods_are(3, "Running"))


def is_used_by_kubectl(place: Workplace) -> None:
    place.create(job("j", LONG))
    place.wait(numbers(place, active=1, ready=1))
    place.kubectl("get jobs")
    place.kubectl("delete job j")
    place.wait(place.gone("jobs/j"), place.pods_are(0))
    place.kubectl(f"create job j --image={IMAGE} -- true")
    place.kubectl("wait --for=condition=complete job/j --timeout=40s")
    place.kubectl("get jobs")
    place.stop("it is complete", over(place))
    place.kubectl("delete job j")
    place.stop("it is gone", place.gone("jobs/j"), place.pods_are(0))


def has_no_room(place: Workplace) -> None:
    place.post(place.at("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
    place.until("the quota counts", lambda: "hard" in (place.read("resourcequotas/q").get("status") or {}))
    place.create(job("j", LONG, parallelism=2, completions=4))
    place.wait(numbers(place, active=2, ready=2))
    place.change("jobs/j", {"spec": {"parallelism": 4}})
    place.stop("two are refused", place.event("FailedCreate", "Job"), numbers(place, active=2, ready=2))


SCENARIOS = [
    story("a job runs to its end", runs_to_its_end),
    story("a job needs one success", needs_one_success),
    story("a job has nothing to do", has_nothing_to_do),
    story("a job runs by index", runs_by_index),
    story("a job tells its indexes", tells_its_indexes),
    story("a job grows and shrinks", grows_and_shrinks),
    story("a job begins suspended", begins_suspended),
    story("a job is suspended while it runs", is_suspended_while_it_runs),
    story("a job changes its parallelism", changes_its_parallelism),
    story("a job fails at once", fails_at_once),
    story("a job waits for its last pod", waits_for_its_last_pod),
    story("a job restarts its containers", restarts_its_containers),
    story("a job fails after a second try", fails_after_a_second_try),
    story("a job replaces a failed pod", replaces_a_failed_pod),
    story("a job takes too long", takes_too_long),
    story("a job gets a deadline later", gets_a_deadline_later),
    story("a job goes after its time", goes_after_its_time),
    story("a job loses a pod", loses_a_pod),
    story("a job replaces when pods have ended", replaces_when_pods_have_ended),
    story("a job is managed by another", is_managed_by_another),
    *(
        story(f"a job is deleted {policy}", partial(is_deleted, policy=policy))
        for policy in ("Background", "Foreground", "Orphan")
    ),
    story("a job adopts", adopts),
    story("a job is used by kubectl", is_used_by_kubectl),
    story("a job has no room", has_no_room),
]
