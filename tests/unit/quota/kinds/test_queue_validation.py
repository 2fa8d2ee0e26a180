"""Validation of queues, cohorts and flavors: each rule, with Kueue's messages."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.quota.kinds.validation import validate_object
from unit.quota.kinds.manifests import a_cluster_queue, a_group, a_quota, an_object, problems

Object = dict[str, Any]
ONE = a_group(("f", [a_quota()]))


def test_a_queue_with_all_valid_fields_is_accepted() -> None:
    group = a_group(
        ("on-demand", [a_quota("cpu", 9), a_quota("memory", "36Gi", borrowingLimit="4Gi", lendingLimit="36Gi")]),
        ("spot", [a_quota("cpu", "18"), a_quota("memory", "72Gi")]),
    )
    gpus = a_group(("a100", [a_quota("nvidia.com/gpu", 4, lendingLimit=0)]))
    queue = a_cluster_queue(
        group,
        gpus,
        cohortName="all",
        namespaceSelector={"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]},
        preemption={
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            "withinClusterQueue": "LowerPriority",
        },
        flavorFungibility={
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": "PreemptionOverBorrowing",
        },
        admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["spot"]}, {"name": "d"}]},
        fairSharing={"weight": "500m"},
    )
    assert problems(queue) == []


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (
            a_cluster_queue(a_group(("f", [a_quota("@cpu")]))),
            'spec.resourceGroups[0].coveredResources[0]: Invalid value: "@cpu": name part must consist of',
        ),
        (
            a_cluster_queue(ONE, a_group(("g", [a_quota()]))),
            'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
        ),
        (
            a_cluster_queue(ONE, a_group(("f", [a_quota("memory")]))),
            'spec.resourceGroups[1].flavors[0].name: Duplicate value: "f"',
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota("cpu"), a_quota("gpu")]), covered=["cpu", "memory"])),
            'spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value: "gpu":'
            " must match the name in coveredResources",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota()]), covered=["cpu", "memory"])),
            "spec.resourceGroups[0]: Invalid value: flavors must have the same number of resources as the"
            " coveredResources",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota(nominal="-1")]))),
            'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1":'
            " must be greater than or equal to 0",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota(borrowingLimit="1")]))),
            'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "1":'
            " must be nil when cohort is empty",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota(lendingLimit="1")]))),
            'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "1":'
            " must be nil when cohort is empty",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota(lendingLimit="9001m")])), cohortName="c"),
            'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "9001m":'
            " must be less than or equal to the nominalQuota",
        ),
        (
            a_cluster_queue(a_group(("f", [a_quota(borrowingLimit="-1")])), cohortName="c"),
            'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "-1":'
            " must be greater than or equal to 0",
        ),
        (
            a_cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "spec.namespaceSelector.matchExpressions[0].values: Required value:"
            " must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            a_cluster_queue(
                preemption={"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "LowerPriority"}}
            ),
            "spec.preemption: Invalid value: reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
        (
            a_cluster_queue(
                flavorFungibility={
                    "whenCanBorrow": "MayStopSearch",
                    "whenCanPreempt": "TryNextFlavor",
                    "preference": "BorrowingOverPreemption",
                }
            ),
            'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": preference'
            ' "BorrowingOverPreemption" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor',
        ),
        (
            a_cluster_queue(fairSharing={"weight": "-1"}),
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            a_cluster_queue(fairSharing={"weight": "1n"}),
            'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
        ),
        (
            a_cluster_queue(ONE, admissionChecksStrategy={"admissionChecks": [{"name": "c", "onFlavors": ["g"]}]}),
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "g":'
            ' supported values: "f"',
        ),
    ],
)
def test_each_rule_for_cluster_queues_is_reported(queue: Object, said: str) -> None:
    found = problems(queue)
    assert [each[: len(said)] for each in found] == [said]


@pytest.mark.parametrize("value", ["fifo", "", 3])
def test_the_dequeue_strategy_of_a_queue_is_backfill(value: object) -> None:
    queue, path = a_cluster_queue(ONE), "metadata.annotations[headgate.dev/dequeue-strategy]"
    queue["metadata"]["annotations"] = {"headgate.dev/dequeue-strategy": "backfill"}
    assert problems(queue) == []
    wrong = {**queue, "metadata": {"name": "a", "annotations": {"headgate.dev/dequeue-strategy": value}}}
    (found,) = problems(wrong, queue)
    assert found.startswith(f"{path}: Unsupported value: ")
    assert found.endswith(': supported values: "backfill"')
    assert problems(wrong, wrong) == [], "an update of other fields"


def test_a_queue_has_at_most_256_flavors_and_512_pairs_of_flavor_and_resource_in_a_group() -> None:
    def many(group: int, flavors: int, resources: int) -> Object:
        quotas = [a_quota(f"example.com/r{group}-{index}") for index in range(resources)]
        return a_group(*((f"f{group}-{index}", quotas) for index in range(flavors)))

    assert problems(a_cluster_queue(*(many(group, 64, 1) for group in range(4)))) == []
    assert problems(a_cluster_queue(*(many(group, 52, 1) for group in range(5)))) == [
        "spec.resourceGroups: Invalid value: 260: total number of flavors across all resourceGroups must be ≤ 256,"
        " got 260"
    ]
    assert problems(a_cluster_queue(many(0, 27, 19))) == [
        "spec.resourceGroups[0]: Invalid value: 513: number of flavor-resource combinations in a resourceGroup must be"
        " ≤ 512, got 513"
    ]
    assert problems(a_cluster_queue(*(many(group, 1, 64) for group in range(5)))) == [
        "spec.resourceGroups: Invalid value: 320: total number of covered resources across all resourceGroups must be"
        " ≤ 256, got 320"
    ]


def test_a_cohort_may_lend_more_than_its_nominal_quota_but_needs_a_parent() -> None:
    group = a_group(("f", [a_quota(nominal="1", lendingLimit="5")]))
    assert problems(an_object("Cohort", {"parentName": "p", "resourceGroups": [group]})) == []
    assert problems(an_object("Cohort", {"resourceGroups": [group]})) == [
        'spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: "5": must be nil when parent is'
        " empty"
    ]


def test_the_cluster_queue_of_a_local_queue_is_immutable() -> None:
    old, new = (an_object("LocalQueue", {"clusterQueue": name}) for name in "ab")
    assert problems(new, old) == ['spec.clusterQueue: Invalid value: "b": field is immutable']
    assert problems(old, old) == []


def test_the_controller_of_an_admission_check_is_immutable() -> None:
    old, new = (an_object("AdmissionCheck", {"controllerName": name}) for name in "ab")
    assert problems(new, old) == ['spec.controllerName: Invalid value: "b": field is immutable']
    assert problems(new) == []


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"nodeLabels": {"@a": "b"}}, 'spec.nodeLabels: Invalid value: "@a": name part must consist of'),
        ({"nodeTaints": [{"key": "@a", "effect": "NoSchedule"}]}, 'spec.nodeTaints[0].key: Invalid value: "@a"'),
        ({"nodeTaints": [{"key": "a", "effect": "No"}]}, 'spec.nodeTaints[0].effect: Unsupported value: "No"'),
        (
            {"nodeTaints": [{"key": "a", "effect": "NoSchedule"}] * 2},
            "spec.nodeTaints[1]: Duplicate value: ",
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty',
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ),
    ],
)
def test_labels_taints_and_tolerations_of_a_flavor_are_validated(spec: Object, said: str) -> None:
    found = problems(an_object("ResourceFlavor", spec))
    assert [each[: len(said)] for each in found] == [said]


def test_all_problems_are_reported_at_once() -> None:
    queue = a_cluster_queue(a_group(("f", [a_quota("memory", "-1", lendingLimit="1")]), covered=["cpu"]))
    assert [each.split(": ")[0].rpartition(".")[2] for each in problems(queue)] == [
        "name",
        "nominalQuota",
        "lendingLimit",
        "lendingLimit",
    ]


def test_existing_problems_do_not_block_another_change() -> None:
    old = a_cluster_queue(a_group(("f", [a_quota(nominal="-1")])))
    new = a_cluster_queue(a_group(("f", [a_quota(nominal="-1")])), stopPolicy="Hold")
    worse = a_cluster_queue(a_group(("f", [a_quota(nominal="-2")])))
    assert problems(new, old) == []
    assert len(problems(worse, old)) == 1


def test_v1beta1_is_validated_as_v1beta2() -> None:
    limits = a_group(("f", [a_quota(borrowingLimit="1")]))
    older = {**a_cluster_queue(limits, cohort="c"), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    assert problems(older) == []
    alone = {**a_cluster_queue(limits), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    assert len(problems(alone)) == 1


def test_admission_fair_sharing_is_accepted_with_a_warning() -> None:
    queue = a_cluster_queue(admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    assert validate_object(queue, None).warnings == [
        "spec.admissionScope: admission fair sharing is not supported; the field is kept and has no effect"
    ]
    assert problems(queue) == []
