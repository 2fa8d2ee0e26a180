"""A ``Configuration`` is decoded strictly: all errors at once, each with its path and a suggestion."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.configuration.decoder import parse
from headgate.cli.configuration.types import Configuration
from headgate.scheduling.config.plugin_registry import BUILT_IN

HEADER = {"apiVersion": "headgate.dev/v1alpha1", "kind": "Configuration"}


def errors_of(**fields: Any) -> list[str]:
    read = parse({**HEADER, **fields}, BUILT_IN)
    assert isinstance(read, list), read
    return [str(each) for each in read]


def test_an_empty_configuration_sets_nothing() -> None:
    assert parse(HEADER, BUILT_IN) == Configuration()


def test_null_means_absent() -> None:
    assert parse({**HEADER, "scheduler": None, "jobs": {"frameworks": None}}, BUILT_IN) == Configuration()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([], "must be an object"),
        ({}, "apiVersion: Required value: must be headgate.dev/v1alpha1"),
        ({**HEADER, "kind": "Config"}, 'kind: Unsupported value: "Config": supported values: "Configuration"'),
        ({**HEADER, "apiVersion": "headgate.dev/v1"}, "apiVersion: Unsupported value"),
    ],
)
def test_the_header_must_be_that_of_the_kind(value: Any, expected: str) -> None:
    read = parse(value, BUILT_IN)
    assert isinstance(read, list)
    assert any(expected in str(each) for each in read)


def test_all_errors_are_reported_at_once() -> None:
    assert errors_of(componentz=["quota"], logging={"level": "loud"}, takeover="yes") == [
        "componentz: Forbidden: unknown field: is it components?",
        'logging.level: Unsupported value: "loud": supported values: "debug", "error", "info", "warning"',
        'takeover: Invalid value: "yes": must be true or false',
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"components": ["web-hooks"]}, 'components[0]: Unsupported value: "web-hooks"'),
        ({"components": ["web-hooks"]}, "is it webhooks?"),
        ({"featureGates": {"GangAtomicUngated": True}}, "is it GangAtomicUngate?"),
        ({"featureGates": {"GangAtomicUngate": "on"}}, "featureGates.GangAtomicUngate: Invalid value"),
        ({"featureGates": {"PodSchedulingReadiness": False}}, "featureGates: Invalid value"),
        (
            {"featureGates": {"QueueAllocationGate": True, "SchedulingGatesQueueAdmission": False}},
            "feature gate QueueAllocationGate is set both to true and to false",
        ),
        ({"scheduler": {"names": ["a", ""]}}, 'scheduler.names[1]: Invalid value: "": may not be empty'),
        ({"scheduler": {"gatedPodEventsPerHour": 1000001}}, "must be at least 0 and at most 1000000"),
        ({"scheduler": {"gatedPodEventsPerHour": True}}, "must be an integer of 64 bits"),
        (
            {"scheduler": {"configuration": {"kind": "KubeSchedulerConfiguration", "paralelism": 1}}},
            "scheduler.configuration.paralelism: Forbidden: unknown field: is it parallelism?",
        ),
        (
            {"scheduler": {"configuration": {"actions": "allocate", "tiers": []}}},
            "scheduler.configuration.tiers: Required value",
        ),
        (
            {"scheduler": {"configuration": {"actions": "allocate"}, "configurationFile": "x"}},
            "scheduler.configuration: Forbidden: scheduler.configurationFile is set, too",
        ),
        ({"webhooks": {"url": "http://x"}}, "webhooks.url: Invalid value"),
        ({"webhooks": {"service": "x"}}, "webhooks.service: Invalid value"),
        ({"webhooks": {"service": "a/b", "url": "https://x"}}, "webhooks.service is set, too; keep one of them"),
        ({"webhooks": {"listen": "x"}}, 'webhooks.listen: Invalid value: "x": must be HOST:PORT'),
        ({"webhooks": {"secret": "x"}}, "webhooks.secret: Invalid value"),
        ({"metrics": {"listen": "0:99999"}}, "metrics.listen: Invalid value"),
        ({"metrics": {"certFile": "x"}}, "metrics.keyFile: Required value: metrics.certFile needs it"),
        ({"metrics": {"keyFile": "x"}}, "metrics.certFile: Required value"),
        ({"queues": {"trustedUsers": [""]}}, "queues.trustedUsers[0]: Invalid value"),
        ({"jobs": {"frameworks": ["jobs"]}}, "jobs.frameworks[0]: Unsupported value"),
        ({"jobs": {"frameworks": ["deployment"]}}, "so pod must be listed, too"),
        ({"jobs": {"quotaRelease": {"pods": "OnTerminal"}}}, "jobs.quotaRelease.pods: Unsupported value"),
        ({"jobs": {"quotaRelease": {"pod": "Never"}}}, "jobs.quotaRelease.pod: Unsupported value"),
        (
            {"jobs": {"managedJobsNamespaceSelector": {"matchLabel": {}}}},
            "jobs.managedJobsNamespaceSelector.matchLabel: Forbidden: unknown field: is it matchLabels?",
        ),
        (
            {"jobs": {"managedJobsNamespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}},
            "jobs.managedJobsNamespaceSelector.matchExpressions[0].operator: Invalid value",
        ),
        ({"jobs": {"kinds": [{}]}}, "jobs.kinds[0].apiVersion: Required value"),
        ({"jobs": {"kinds": [], "kindsFile": "x"}}, "jobs.kinds: Forbidden: jobs.kindsFile is set, too"),
        ({"jobs": {"waitForPodsReady": {}}}, "jobs.waitForPodsReady.timeout: Required value: such as 5m"),
        ({"jobs": {"waitForPodsReady": {"timeout": "0s"}}}, "jobs.waitForPodsReady.timeout: Invalid value"),
        ({"jobs": {"waitForPodsReady": {"timeout": "soon"}}}, "write a duration such as 5m or 90s"),
        (
            {"jobs": {"waitForPodsReady": {"timeout": "1m", "requeuingStrategy": {"backoffMaxSeconds": 10}}}},
            "jobs.waitForPodsReady.requeuingStrategy.backoffMaxSeconds: Invalid value",
        ),
        ({"jobs": {"maxWaitForTerminatingPods": "-1s"}}, "jobs.maxWaitForTerminatingPods: Invalid value"),
        ({"jobs": {"reportTerminatingPodsAfter": "0s"}}, "jobs.reportTerminatingPodsAfter: Invalid value"),
        ({"jobs": {"forceDeleteTerminatingPodsAfter": "10s"}}, "must be at least 60s: the clocks of nodes may differ"),
    ],
)
def test_an_invalid_value_is_named_by_its_path(fields: dict[str, Any], expected: str) -> None:
    assert any(expected in each for each in errors_of(**fields)), errors_of(**fields)


def test_a_wrong_type_of_the_time_out_is_one_error() -> None:
    assert errors_of(jobs={"waitForPodsReady": {"timeout": 5}}) == [
        "jobs.waitForPodsReady.timeout: Invalid value: 5: must be a string"
    ]
