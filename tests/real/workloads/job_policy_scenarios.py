"""Stories of Jobs that say which failures matter, for the whole job or per index, and what success is."""

from __future__ import annotations

from typing import Any

from real.workloads.job_scenarios import LONG, end, indexed, living, numbers, over, succeed
from real.workloads.manifests import STUBBORN, job
from real.workloads.scenario_cluster import Workplace, story

Object = dict[str, Any]

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "Test", "lastTransitionTime": None}


def codes(action: str, *values: int, operator: str = "In", **more: Any) -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def disrupted(action: str) -> Object:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def policy(*rules: Object) -> Object:
    return {"rules": list(rules)}


def fails_by_exit_code(place: Workplace) -> None:
    rules = policy(codes("Ignore", 3), codes("FailJob", 42, containerName="main"))
    place.create(job("j", LONG, parallelism=3, completions=3, podFailurePolicy=rules))
    place.wait(numbers(place, active=3, ready=3))
    end(place, living(place)[0], exit_code=42)
    place.stop("it has failed", over(place, kind="Failed", reason="PodFailurePolicy"), words=True)


def fails_by_condition(place: Workplace) -> None:
    place.create(job("j", LONG, podFailurePolicy=policy(codes("Count", 1), disrupted("FailJob"))))
    place.wait(numbers(place, active=1, ready=1))
    end(place, *living(place), exit_code=9, conditions=[DISRUPTED])
    place.stop("it has failed", over(place, kind="Failed", reason="PodFailurePolicy"), words=True)


def ignores_disruptions(place: Workplace) -> None:
    place.create(job("j", LONG, backoffLimit=0, podFailurePolicy=policy(disrupted("Ignore"))))
    place.wait(numbers(place, active=1, ready=1))
    end(place, *living(place), conditions=[DISRUPTED])
    place.stop("another one runs, and nothing counts", numbers(place, active=1, ready=1, failed=0), place.pods_are(2))
    end(place, *living(place))
    place.stop("this one counts", over(place, kind="Failed", reason="BackoffLimitExceeded"))


def counts_other_codes(place: Workplace) -> None:
    rules = policy(codes("Ignore", 5, operator="NotIn"))
    place.create(job("j", LONG, backoffLimit=0, podFailurePolicy=rules))
    place.wait(numbers(place, active=1, ready=1))
    end(place, *living(place), exit_code=5)
    place.stop("it has failed", over(place, kind="Failed", reason="BackoffLimitExceeded"))


def a_deleted_pod_with_a_policy(place: Workplace) -> None:
    rules = policy(codes("FailJob", 42))
    place.create(job("j", STUBBORN, parallelism=2, completions=2, podFailurePolicy=rules))
    place.wait(numbers(place, active=2, ready=2))
    place.remove(f"pods/{living(place)[0]}")
    place.stop("it is going", numbers(place, active=1, ready=1, terminating=1))
    place.stop("it has failed and is replaced", numbers(place, active=2, ready=2, failed=1, terminating=0))


def fails_an_index(place: Workplace) -> None:
    spec = {"backoffLimitPerIndex": 3, "podFailurePolicy": policy(codes("FailIndex", 42))}
    place.create(indexed("j", LONG, parallelism=3, completions=3, **spec))
    place.wait(numbers(place, active=3, ready=3))
    end(place, *living(place, 1), exit_code=42)
    place.stop("one index has failed", numbers(place, active=2, ready=2, failed=1, failedIndexes="1"))
    succeed(place, *living(place))
    place.stop("it has failed", over(place, kind="Failed", reason="FailedIndexes"), words=True)


def has_failed_indexes(place: Workplace) -> None:
    place.create(indexed("j", LONG, parallelism=4, completions=4, backoffLimitPerIndex=0))
    place.wait(numbers(place, active=4, ready=4))
    end(place, *living(place, 0, 2))
    place.stop("two have failed", numbers(place, active=2, ready=2, failed=2, failedIndexes="0,2"))
    succeed(place, *living(place))
    place.stop("it is over", over(place, kind="Failed", reason="FailedIndexes"))


def has_too_many_failed_indexes(place: Workplace) -> None:
    spec = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    place.create(indexed("j", LONG, parallelism=5, completions=5, **spec))
    place.wait(numbers(place, active=5, ready=5))
    end(place, *living(place, 3))
    place.stop("one may fail", numbers(place, active=4, ready=4, failed=1, failedIndexes="3"))
    end(place, *living(place, 4))
    place.stop("two may not", over(place, kind="Failed", reason="MaxFailedIndexesExceeded"), words=True)


def tries_an_index_again(place: Workplace) -> None:
    place.create(indexed("j", LONG, parallelism=2, completions=2, backoffLimitPerIndex=1))
    place.wait(numbers(place, active=2, ready=2))
    end(place, *living(place, 1))
    place.wait(numbers(place, active=1, ready=1))
    place.stop("it waits for its next try", numbers(place, active=1, ready=1, failed=0))
    place.stop("it is tried again", numbers(place, active=2, ready=2, failed=1))
    end(place, *living(place, 1))
    place.stop("once, and no more", numbers(place, active=1, ready=1, failed=2, failedIndexes="1"))
    succeed(place, *living(place))
    place.stop("it is over", over(place, kind="Failed", reason="FailedIndexes"))


def ignores_failures_of_an_index(place: Workplace) -> None:
    spec = {"backoffLimitPerIndex": 1, "podFailurePolicy": policy(codes("Ignore", 3))}
    place.create(indexed("j", LONG, parallelism=1, completions=1, **spec))
    place.wait(numbers(place, active=1, ready=1))
    end(place, *living(place, 0), exit_code=3)
    place.stop("it is tried again, and told what was ignored", numbers(place, active=1, ready=1), place.pods_are(2))
    succeed(place, *living(place))
    place.stop("it is complete", over(place))


def succeeds_by_its_leader(place: Workplace) -> None:
    rules = {"rules": [{"succeededIndexes": "2-3", "succeededCount": 2}, {"succeededIndexes": "0"}]}
    place.create(indexed("j", LONG, parallelism=4, completions=4, successPolicy=rules))
    place.wait(numbers(place, active=4, ready=4))
    succeed(place, *living(place, 3))
    place.stop("that is not enough", numbers(place, active=3, ready=3, completedIndexes="3"))
    succeed(place, *living(place, 0))
    place.stop("that is", over(place, reason="SuccessPolicy"), words=True)


def succeeds_while_others_stop(place: Workplace) -> None:
    rules = {"rules": [{"succeededIndexes": "0"}]}
    place.create(indexed("j", STUBBORN, parallelism=3, completions=3, successPolicy=rules))
    place.wait(numbers(place, active=3, ready=3))
    succeed(place, *living(place, 0))
    place.stop("it is about to", place.condition("jobs/j", "SuccessCriteriaMet"), numbers(place, terminating=2))
    place.stop("it is complete", over(place, reason="SuccessPolicy"), numbers(place, terminating=0))


def succeeds_by_number(place: Workplace) -> None:
    rules = {"rules": [{"succeededCount": 2}]}
    place.create(indexed("j", LONG, parallelism=4, completions=4, successPolicy=rules, backoffLimitPerIndex=0))
    place.wait(numbers(place, active=4, ready=4))
    end(place, *living(place, 1))
    place.wait(numbers(place, active=3, ready=3, failedIndexes="1"))
    succeed(place, *living(place, 0, 2))
    place.stop("two are enough", over(place, reason="SuccessPolicy"))


SCENARIOS = [
    story("a policy fails a job by exit code", fails_by_exit_code),
    story("a policy fails a job by condition", fails_by_condition),
    story("a policy ignores disruptions", ignores_disruptions),
    story("a policy counts other codes", counts_other_codes),
    story("a policy and a deleted pod", a_deleted_pod_with_a_policy),
    story("a policy fails an index", fails_an_index),
    story("a job has failed indexes", has_failed_indexes),
    story("a job has too many failed indexes", has_too_many_failed_indexes),
    story("a job tries an index again", tries_an_index_again),
    story("a job ignores failures of an index", ignores_failures_of_an_index),
    story("a job succeeds by its leader", succeeds_by_its_leader),
    story("a job succeeds while others stop", succeeds_while_others_stop),
    story("a job succeeds by number", succeeds_by_number),
]
