"""Scenarios of Jobs that say which failures matter, for the whole job or per index, and what success is."""

from __future__ import annotations

from typing import Any

from real.workloads.job_scenarios import LONG, end, indexed, living, numbers, over, succeed
from real.workloads.manifests import STUBBORN, job
from real.workloads.scenario_cluster import WorkloadCluster, scenario

Object = dict[str, Any]

DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "Test", "lastTransitionTime": None}


def codes(action: str, *values: int, operator: str = "In", **more: Any) -> Object:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def disrupted(action: str) -> Object:
    return {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def policy(*rules: Object) -> Object:
    return {"rules": list(rules)}


def fails_by_exit_code(cluster: WorkloadCluster) -> None:
    rules = policy(codes("Ignore", 3), codes("FailJob", 42, containerName="main"))
    cluster.create(job("j", LONG, parallelism=3, completions=3, podFailurePolicy=rules))
    cluster.wait(numbers(cluster, active=3, ready=3))
    end(cluster, living(cluster)[0], exit_code=42)
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="PodFailurePolicy"), words=True)


def fails_by_condition(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, podFailurePolicy=policy(codes("Count", 1), disrupted("FailJob"))))
    cluster.wait(numbers(cluster, active=1, ready=1))
    end(cluster, *living(cluster), exit_code=9, conditions=[DISRUPTED])
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="PodFailurePolicy"), words=True)


def ignores_disruptions(cluster: WorkloadCluster) -> None:
    cluster.create(job("j", LONG, backoffLimit=0, podFailurePolicy=policy(disrupted("Ignore"))))
    cluster.wait(numbers(cluster, active=1, ready=1))
    end(cluster, *living(cluster), conditions=[DISRUPTED])
    cluster.checkpoint(
        "another one runs, and nothing counts", numbers(cluster, active=1, ready=1, failed=0), cluster.pods_are(2)
    )
    end(cluster, *living(cluster))
    cluster.checkpoint("this one counts", over(cluster, kind="Failed", reason="BackoffLimitExceeded"))


def counts_other_codes(cluster: WorkloadCluster) -> None:
    rules = policy(codes("Ignore", 5, operator="NotIn"))
    cluster.create(job("j", LONG, backoffLimit=0, podFailurePolicy=rules))
    cluster.wait(numbers(cluster, active=1, ready=1))
    end(cluster, *living(cluster), exit_code=5)
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="BackoffLimitExceeded"))


def a_deleted_pod_with_a_policy(cluster: WorkloadCluster) -> None:
    rules = policy(codes("FailJob", 42))
    cluster.create(job("j", STUBBORN, parallelism=2, completions=2, podFailurePolicy=rules))
    cluster.wait(numbers(cluster, active=2, ready=2))
    cluster.remove(f"pods/{living(cluster)[0]}")
    cluster.checkpoint("it is going", numbers(cluster, active=1, ready=1, terminating=1))
    cluster.checkpoint("it has failed and is replaced", numbers(cluster, active=2, ready=2, failed=1, terminating=0))


def fails_an_index(cluster: WorkloadCluster) -> None:
    spec = {"backoffLimitPerIndex": 3, "podFailurePolicy": policy(codes("FailIndex", 42))}
    cluster.create(indexed("j", LONG, parallelism=3, completions=3, **spec))
    cluster.wait(numbers(cluster, active=3, ready=3))
    end(cluster, *living(cluster, 1), exit_code=42)
    cluster.checkpoint("one index has failed", numbers(cluster, active=2, ready=2, failed=1, failedIndexes="1"))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it has failed", over(cluster, kind="Failed", reason="FailedIndexes"), words=True)


def has_failed_indexes(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", LONG, parallelism=4, completions=4, backoffLimitPerIndex=0))
    cluster.wait(numbers(cluster, active=4, ready=4))
    end(cluster, *living(cluster, 0, 2))
    cluster.checkpoint("two have failed", numbers(cluster, active=2, ready=2, failed=2, failedIndexes="0,2"))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is over", over(cluster, kind="Failed", reason="FailedIndexes"))


def has_too_many_failed_indexes(cluster: WorkloadCluster) -> None:
    spec = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    cluster.create(indexed("j", LONG, parallelism=5, completions=5, **spec))
    cluster.wait(numbers(cluster, active=5, ready=5))
    end(cluster, *living(cluster, 3))
    cluster.checkpoint("one may fail", numbers(cluster, active=4, ready=4, failed=1, failedIndexes="3"))
    end(cluster, *living(cluster, 4))
    cluster.checkpoint("two may not", over(cluster, kind="Failed", reason="MaxFailedIndexesExceeded"), words=True)


def tries_an_index_again(cluster: WorkloadCluster) -> None:
    cluster.create(indexed("j", LONG, parallelism=2, completions=2, backoffLimitPerIndex=1))
    cluster.wait(numbers(cluster, active=2, ready=2))
    end(cluster, *living(cluster, 1))
    cluster.wait(numbers(cluster, active=1, ready=1))
    cluster.checkpoint("it waits for its next try", numbers(cluster, active=1, ready=1, failed=0))
    cluster.checkpoint("it is tried again", numbers(cluster, active=2, ready=2, failed=1))
    end(cluster, *living(cluster, 1))
    cluster.checkpoint("once, and no more", numbers(cluster, active=1, ready=1, failed=2, failedIndexes="1"))
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is over", over(cluster, kind="Failed", reason="FailedIndexes"))


def ignores_failures_of_an_index(cluster: WorkloadCluster) -> None:
    spec = {"backoffLimitPerIndex": 1, "podFailurePolicy": policy(codes("Ignore", 3))}
    cluster.create(indexed("j", LONG, parallelism=1, completions=1, **spec))
    cluster.wait(numbers(cluster, active=1, ready=1))
    end(cluster, *living(cluster, 0), exit_code=3)
    cluster.checkpoint(
        "it is tried again, and told what was ignored", numbers(cluster, active=1, ready=1), cluster.pods_are(2)
    )
    succeed(cluster, *living(cluster))
    cluster.checkpoint("it is complete", over(cluster))


def succeeds_by_its_leader(cluster: WorkloadCluster) -> None:
    rules = {"rules": [{"succeededIndexes": "2-3", "succeededCount": 2}, {"succeededIndexes": "0"}]}
    cluster.create(indexed("j", LONG, parallelism=4, completions=4, successPolicy=rules))
    cluster.wait(numbers(cluster, active=4, ready=4))
    succeed(cluster, *living(cluster, 3))
    cluster.checkpoint("that is not enough", numbers(cluster, active=3, ready=3, completedIndexes="3"))
    succeed(cluster, *living(cluster, 0))
    cluster.checkpoint("that is", over(cluster, reason="SuccessPolicy"), words=True)


def succeeds_while_others_stop(cluster: WorkloadCluster) -> None:
    rules = {"rules": [{"succeededIndexes": "0"}]}
    cluster.create(indexed("j", STUBBORN, parallelism=3, completions=3, successPolicy=rules))
    cluster.wait(numbers(cluster, active=3, ready=3))
    succeed(cluster, *living(cluster, 0))
    cluster.checkpoint(
        "it is about to", cluster.condition("jobs/j", "SuccessCriteriaMet"), numbers(cluster, terminating=2)
    )
    cluster.checkpoint("it is complete", over(cluster, reason="SuccessPolicy"), numbers(cluster, terminating=0))


def succeeds_by_number(cluster: WorkloadCluster) -> None:
    rules = {"rules": [{"succeededCount": 2}]}
    cluster.create(indexed("j", LONG, parallelism=4, completions=4, successPolicy=rules, backoffLimitPerIndex=0))
    cluster.wait(numbers(cluster, active=4, ready=4))
    end(cluster, *living(cluster, 1))
    cluster.wait(numbers(cluster, active=3, ready=3, failedIndexes="1"))
    succeed(cluster, *living(cluster, 0, 2))
    cluster.checkpoint("two are enough", over(cluster, reason="SuccessPolicy"))


SCENARIOS = [
    scenario("a policy fails a job by exit code", fails_by_exit_code),
    scenario("a policy fails a job by condition", fails_by_condition),
    scenario("a policy ignores disruptions", ignores_disruptions),
    scenario("a policy counts other codes", counts_other_codes),
    scenario("a policy and a deleted pod", a_deleted_pod_with_a_policy),
    scenario("a policy fails an index", fails_an_index),
    scenario("a job has failed indexes", has_failed_indexes),
    scenario("a job has too many failed indexes", has_too_many_failed_indexes),
    scenario("a job tries an index again", tries_an_index_again),
    scenario("a job ignores failures of an index", ignores_failures_of_an_index),
    scenario("a job succeeds by its leader", succeeds_by_its_leader),
    scenario("a job succeeds while others stop", succeeds_while_others_stop),
    scenario("a job succeeds by number", succeeds_by_number),
]
