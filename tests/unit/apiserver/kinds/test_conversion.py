"""Views of one stored object, against pairs that a kube-apiserver v1.35.8 answered (``views-v1.35.8.json``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.conversion import from_stored, to_stored
from headgate.apiserver.kinds.kind import ServedKind
from headgate.kube.schema import GroupVersionKind

PAIRS: dict[str, Any] = json.loads((Path(__file__).parent / "views-v1.35.8.json").read_text())


def the_kind(group: str, version: str, kind: str) -> ServedKind:
    found = BUILTIN.by_gvk(GroupVersionKind(group, version, kind))
    assert found is not None
    return found


HPA_V1 = the_kind("autoscaling", "v1", "HorizontalPodAutoscaler")
HPA_V2 = the_kind("autoscaling", "v2", "HorizontalPodAutoscaler")
EVENT = the_kind("events.k8s.io", "v1", "Event")
POD = the_kind("", "v1", "Pod")

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"


def an_old_autoscaler(annotations: dict[str, str] | None = None, target: int | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5}
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target
    metadata = {"name": "h", "annotations": annotations} if annotations else {"name": "h"}
    return {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("kind", [HPA_V1, EVENT], ids=lambda kind: kind.api_version)
def test_a_stored_object_is_shown_as_the_real_server_shows_it(kind: ServedKind) -> None:
    pair = PAIRS[kind.kind]
    assert from_stored(kind, pair["stored"]) == pair["shown"]


def test_an_event_is_converted_to_its_stored_form() -> None:
    pair = PAIRS["Event"]
    assert to_stored(EVENT, pair["shown"]) == pair["stored"]


def test_fields_of_an_event_come_in_the_order_of_its_version() -> None:
    pair = PAIRS["Event"]
    assert list(from_stored(EVENT, pair["stored"])) == list(pair["shown"])
    assert list(to_stored(EVENT, pair["shown"])) == list(pair["stored"])


def test_what_v1_cannot_say_survives_a_write_through_it() -> None:
    stored = PAIRS["HorizontalPodAutoscaler"]["stored"]
    back = to_stored(HPA_V1, from_stored(HPA_V1, stored))
    assert back["spec"]["behavior"] == {
        name: {key: value for key, value in rules.items() if value is not None}
        for name, rules in stored["spec"]["behavior"].items()
    }
    assert back["status"]["conditions"] == stored["status"]["conditions"]
    assert back["metadata"] == stored["metadata"]

    def by_text(metrics: list[Any]) -> list[str]:
        return sorted(json.dumps(each, sort_keys=True) for each in metrics)

    wanted = [each for each in stored["spec"]["metrics"] if each.get("object", {}).get("metric") != {"name": "hits2"}]
    got = [each for each in back["spec"]["metrics"] if each.get("object", {}).get("metric") != {"name": "hits2"}]
    assert by_text(got) == by_text(wanted)


def test_conversion_leaves_its_input_alone() -> None:
    for kind in (HPA_V1, EVENT):
        before = json.dumps(PAIRS[kind.kind])
        to_stored(kind, PAIRS[kind.kind]["shown"])
        from_stored(kind, PAIRS[kind.kind]["stored"])
        assert json.dumps(PAIRS[kind.kind]) == before


def test_a_kind_with_one_version_passes_through_untouched() -> None:
    pod = {"metadata": {"name": "a"}}
    assert to_stored(POD, pod) is pod
    assert from_stored(POD, pod) is pod


def test_an_old_autoscaler_without_a_target_aims_at_80_percent_of_cpu() -> None:
    stored = to_stored(HPA_V1, an_old_autoscaler())
    goal = {"type": "Utilization", "averageUtilization": 80}
    assert stored["apiVersion"] == "autoscaling/v2"
    assert stored["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}]


def test_metrics_of_the_annotation_come_before_the_cpu_target() -> None:
    text = '[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1000m"}}]'
    stored = to_stored(HPA_V1, an_old_autoscaler({METRICS: text}, target=55))
    assert stored["spec"]["metrics"] == [
        {
            "type": "Pods",
            "pods": {"target": {"type": "AverageValue", "averageValue": "1"}, "metric": {"name": "q"}},
        },
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}},
        },
    ]
    assert "annotations" not in stored["metadata"]


def test_the_behaviour_annotation_is_read_without_regard_to_case() -> None:
    text = '{"scaleUp":{"STABILIZATIONWINDOWSECONDS":3,"Policies":[{"type":"Pods","Value":1,"periodseconds":9}]}}'
    stored = to_stored(HPA_V1, an_old_autoscaler({BEHAVIOR: text}))
    assert stored["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 3,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}],
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        "junk",
        "{}",
        "[1]",
        '[{"type":"Pods","pods":{"targetAverageValue":"one","currentAverageValue":"one"}}]',
        '[{"type":"Pods","pods":{"metricName":7}}]',
        '[{"type":"Pods","pods":{"metricName":"q","selector":{"matchLabels":[]}}}]',
        '{"scaleUp":{"policies":[{"value":"one"}]}}',
    ],
)
def test_an_annotation_that_makes_no_sense_is_dropped(text: str) -> None:
    stored = to_stored(HPA_V1, an_old_autoscaler({METRICS: text, CURRENT_METRICS: text, BEHAVIOR: text}))
    assert len(stored["spec"]["metrics"]) == 1
    assert "currentMetrics" not in stored["status"]
    assert "behavior" not in stored["spec"]
    assert "annotations" not in stored["metadata"]


def test_a_v2_autoscaler_never_keeps_the_annotations_of_v1() -> None:
    obj = {"metadata": {"name": "h", "annotations": {METRICS: "[]", "x": "y"}}, "spec": {}}
    assert to_stored(HPA_V2, obj) == {"metadata": {"name": "h", "annotations": {"x": "y"}}, "spec": {}}
    plain = {"metadata": {"name": "h", "annotations": {"x": "y"}}}
    assert to_stored(HPA_V2, plain) is plain
