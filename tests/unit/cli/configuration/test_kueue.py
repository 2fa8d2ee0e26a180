"""Kueue's own ``Configuration``: fields are honoured, are remarks, or are refused by path."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.configuration.kueue import KueueConfiguration, parse
from headgate.cli.configuration.types import PodsReadySection, RequeuingSection, values_of

OLD, NEW = "config.kueue.x-k8s.io/v1beta1", "config.kueue.x-k8s.io/v1beta2"
AS_SHIPPED: dict[str, Any] = {
    "health": {"healthProbeBindAddress": ":8081"},
    "metrics": {"bindAddress": ":8443"},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
    "controller": {"groupKindConcurrency": {"Job.batch": 5}},
    "clientConnection": {"qps": 300, "burst": 500},
    "integrations": {"frameworks": ["batch/job", "pod", "deployment", "statefulset"]},
}


def read(version: str = NEW, **fields: Any) -> KueueConfiguration:
    found = parse({"apiVersion": version, "kind": "Configuration", **fields})
    assert isinstance(found, KueueConfiguration), found
    return found


def errors_of(version: str = NEW, **fields: Any) -> list[str]:
    found = parse({"apiVersion": version, "kind": "Configuration", **fields})
    assert isinstance(found, list), found
    return [str(each) for each in found]


def values(version: str = NEW, **fields: Any) -> dict[str, Any]:
    return dict(values_of(read(version, **fields).configuration))


def test_what_concerns_only_kueues_process_is_a_remark() -> None:
    found = read(**AS_SHIPPED)
    assert [each.partition(":")[0] for each in found.remarks] == [
        "webhook",
        "metrics",
        "health",
        "controller",
        "clientConnection",
        "leaderElection.resourceName",
    ]
    assert values_of(found.configuration)["leaderElection.leaderElect"] is True


def test_honoured_fields_of_the_new_version() -> None:
    found = values(
        manageJobsWithoutQueueName=True,
        managedJobsNamespaceSelector={"matchLabels": {"team": "a"}},
        integrations={"frameworks": ["pod"]},
        featureGates={"SchedulingGatedBy": True},
        waitForPodsReady={
            "timeout": "5m",
            "recoveryTimeout": "3m",
            "blockAdmission": False,
            "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 2, "backoffBaseSeconds": 10},
        },
    )
    assert found == {
        "featureGates": {"SchedulingGatedBy": True},
        "jobs.manageJobsWithoutQueueName": True,
        "jobs.managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
        "jobs.frameworks": ("pod",),
        "jobs.waitForPodsReady": PodsReadySection(
            timeout="5m",
            recovery_timeout="3m",
            requeuing_strategy=RequeuingSection(timestamp="Creation", backoff_limit_count=2, backoff_base_seconds=10),
        ),
    }


def test_the_job_kinds_of_operators_are_turned_on() -> None:
    listed = ["batch/job", "ray.io/rayjob", "jobset.x-k8s.io/jobset"]
    found = values(integrations={"frameworks": listed})["jobs.frameworks"]
    assert sorted(found) == sorted(listed)


def test_defaults_are_those_of_kueue() -> None:
    found = values(namespace="queues")
    assert found["jobs.frameworks"] == ("batch/job",)
    assert found["jobs.waitForPodsReady"].timeout == "30m"
    (expression,) = found["jobs.managedJobsNamespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["headgate-system", "kube-system", "queues"]


def test_in_the_old_version_pods_are_waited_for_only_if_it_is_enabled() -> None:
    assert "jobs.waitForPodsReady" not in values(OLD)
    assert "jobs.waitForPodsReady" not in values(OLD, waitForPodsReady={"enable": False, "timeout": "1m"})
    enabled = values(OLD, waitForPodsReady={"enable": True, "blockAdmission": False, "timeout": 60_000_000_000})
    assert enabled["jobs.waitForPodsReady"].timeout == "1m0s"


def test_in_the_old_version_admission_blocks_unless_it_is_switched_off() -> None:
    expected = "waitForPodsReady.blockAdmission: Forbidden: not supported: set it to false"
    assert errors_of(OLD, waitForPodsReady={"enable": True}) == [expected]
    assert errors_of(NEW, waitForPodsReady={"blockAdmission": True}) == [expected]


def test_the_pods_of_a_deployment_make_pods_wait_as_in_kueue() -> None:
    found = values(integrations={"frameworks": ["deployment"]})
    assert found["jobs.frameworks"] == ("pod", "deployment")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"integrations": {"frameworks": ["batch/job", "example.com/job"]}}, "integrations.frameworks[1]"),
        ({"integrations": {"externalFrameworks": ["Foo.v1.example.com"]}}, "integrations.externalFrameworks"),
        ({"integrations": {"labelKeysToCopy": ["a"]}}, "integrations.labelKeysToCopy"),
        ({"integrations": {"podOptions": {"podSelector": {}}}}, "integrations.podOptions"),
        ({"multiKueue": {"origin": "x"}}, "multiKueue"),
        ({"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}}, "fairSharing"),
        ({"admissionFairSharing": {"usageHalfLifeTime": "1h"}}, "admissionFairSharing"),
        ({"resources": {"excludeResourcePrefixes": ["x"]}}, "resources"),
        ({"objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}}}, "objectRetentionPolicies"),
        ({"featureGates": {"TopologyAwareScheduling": True}}, "featureGates.TopologyAwareScheduling"),
        ({"featureGates": {"SchedulingGatedBy": "yes"}}, "featureGates.SchedulingGatedBy"),
        ({"waitForPodsReady": {"enable": True}}, "waitForPodsReady.enable"),
        ({"waitForPodsReady": {"timeout": "x"}}, "waitForPodsReady.timeout"),
        ({"waitForPodsReady": {"timeout": []}}, "waitForPodsReady.timeout"),
        (
            {"waitForPodsReady": {"requeuingStrategy": {"timestamp": "Now"}}},
            "waitForPodsReady.requeuingStrategy.timestamp",
        ),
        (
            {"waitForPodsReady": {"requeuingStrategy": {"backoffLimitCount": -1}}},
            "waitForPodsReady.requeuingStrategy.backoffLimitCount",
        ),
        ({"managedJobsNamespaceSelector": {"matchLabels": {"a": "?"}}}, "managedJobsNamespaceSelector.matchLabels"),
        ({"leaderElection": {"leaderElect": "x"}}, "leaderElection.leaderElect"),
        ({"manageJobsWithoutQueueNames": True}, "manageJobsWithoutQueueNames"),
    ],
)
def test_what_is_not_supported_is_refused_by_path(fields: dict[str, Any], path: str) -> None:
    assert [each.partition(":")[0] for each in errors_of(**fields)] == [path]


def test_fair_sharing_that_is_off_is_accepted() -> None:
    assert read(OLD, fairSharing={"enable": False}).remarks == ()


def test_other_versions_are_refused() -> None:
    assert "apiVersion: Unsupported value" in errors_of("config.kueue.x-k8s.io/v1")[0]
