"""LimitRanges and RuntimeClasses in the engine: which workloads they affect, and invalid ones."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.quota.api.pod_set import NO_DEFAULTS
from headgate.quota.engine import QuotaEngine
from kueue_builders import a_pod_set, a_workload


def a_range(limits: Any, name: str = "d", namespace: str = "ns") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"limits": limits}}


def memory(amount: Any, field: str = "defaultRequest") -> list[dict[str, Any]]:
    return [{"type": "Container", field: {"memory": amount}}]


def requests(engine: QuotaEngine, key: str = "ns/w") -> dict[str, int]:
    return dict(engine.workloads[key].pod_sets[0].requests)


def test_a_limit_range_affects_only_its_namespace() -> None:
    engine = QuotaEngine()
    engine.workload_applied(a_workload("w"), 0.0)
    engine.workload_applied(a_workload("w", namespace="other"), 0.0)
    engine.limit_range_applied(a_range(memory("1Ki")), 0.0)
    assert requests(engine) == {"cpu": 1000, "memory": 1024}
    assert requests(engine, "other/w") == {"cpu": 1000}
    engine.limit_range_removed("ns/d", 0.0)
    assert requests(engine) == {"cpu": 1000}
    assert engine.workloads["ns/w"].pod_sets[0].defaults == NO_DEFAULTS


def test_of_several_limit_ranges_the_first_by_name_wins() -> None:
    engine = QuotaEngine()
    engine.limit_range_applied(a_range(memory("2"), "b"), 0.0)
    engine.limit_range_applied(a_range(memory("1"), "a"), 0.0)
    engine.workload_applied(a_workload("w"), 0.0)
    assert requests(engine)["memory"] == 1


def test_limits_of_other_types_add_nothing() -> None:
    engine = QuotaEngine()
    engine.limit_range_applied(a_range([{"type": "Pod", "max": {"memory": "1"}}]), 0.0)
    engine.workload_applied(a_workload("w"), 0.0)
    assert requests(engine) == {"cpu": 1000}


@pytest.mark.parametrize(
    "limits", [None, "all", [3], memory("much"), memory(["1"]), [{"type": "Container", "default": 1}]]
)
def test_a_limit_range_that_cannot_be_read_adds_nothing(limits: Any) -> None:
    engine = QuotaEngine()
    engine.workload_applied(a_workload("w"), 0.0)
    engine.limit_range_applied(a_range(memory("1")), 0.0)
    engine.limit_range_applied(a_range(limits), 0.0)
    assert requests(engine) == {"cpu": 1000}


@pytest.mark.parametrize("overhead", [None, {}, {"podFixed": {"cpu": "much"}}, {"podFixed": "1"}])
def test_a_runtime_class_without_a_readable_overhead_adds_nothing(overhead: Any) -> None:
    engine = QuotaEngine()
    pods = a_pod_set()
    pods["template"]["spec"]["runtimeClassName"] = "vm"
    engine.workload_applied(a_workload("w", pods), 0.0)
    engine.runtime_class_applied({"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "1"}}}, 0.0)
    assert requests(engine) == {"cpu": 2000}
    engine.runtime_class_applied({"metadata": {"name": "vm"}, "overhead": overhead}, 0.0)
    assert requests(engine) == {"cpu": 1000}


def test_deleted_workloads_are_not_examined() -> None:
    engine = QuotaEngine()
    pods = a_pod_set()
    pods["template"]["spec"]["runtimeClassName"] = "vm"
    engine.workload_applied(a_workload("w", pods), 0.0)
    engine.workload_removed("ns/w", 0.0)
    vm = {"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": "1"}}}
    assert engine.runtime_class_applied(vm, 0.0) == []
    assert engine.limit_range_applied(a_range(memory("1")), 0.0) == []
    assert engine.workloads == {}
