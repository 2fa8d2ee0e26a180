"""The changes that `headgate explain` suggests for a workload help: each is applied to a copy of the cluster, for
Kueue's quota.

Random clusters have ClusterQueues alone and in cohorts, with several flavors, limits on borrowing and lending, both
queueing strategies and preemption. Workloads hold quota or wait, with one or several pod sets, some larger than their
queue or with resources that no flavor covers. Each suggestion is parsed from the text, applied to an engine that is
built anew from the objects, and followed by one cycle.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headgate.quota.effects import Admit, Effect, Evict
from headgate.quota.engine import QuotaEngine
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from kueue_builders import a_pod_set
from quota_engine import Api

Wire = dict[str, Any]
Objects = dict[tuple[str, str], Wire]
QUEUES = {"alone": "", "left": "co", "right": "co", "below": "sub"}
GPU = "nvidia.com/gpu"
ENDS = re.compile(r"^the end of (.+?) is enough")
GROWTH = re.compile(r"the nominalQuota of ClusterQueue (\S+) for (\S+) in flavor (\S+) has to grow from (\S+) to (\S+)")
ALONE = re.compile(r"ClusterQueue (\S+) for .* \((.*) will do once no other workload")
AMOUNT = re.compile(r"(\S+) (\S+) in flavor (\S+)")
UNCOVERED = re.compile(r"^no resource group of ClusterQueue (\S+) covers (.+?): ")
EVICTS = re.compile(r"^it may preempt (.+)$")


def build(objects: Objects, now_s: float) -> QuotaEngine:
    engine = QuotaEngine()
    for kind in ("namespace", "flavor", "cohort", "cluster_queue", "local_queue", "workload"):
        for (each, name), wire in sorted(objects.items(), key=lambda item: item[0]):
            if each == kind == "namespace":
                engine.namespace_applied(name, wire, now_s)
            elif each == kind:
                getattr(engine, f"{kind}_applied")(wire, now_s)
    return engine


def cycle(objects: Objects, now_s: float) -> list[Effect]:
    return build(objects, now_s).run_cycle(now_s)


def is_admitted(objects: Objects, key: str, now_s: float) -> bool:
    return any(isinstance(each, Admit) and each.key == key for each in cycle(objects, now_s))


def is_waiting(objects: Objects, key: str) -> bool:
    return not objects["workload", key]["status"].get("admission")


def without(objects: Objects, *keys: str) -> Objects:
    return {at: wire for at, wire in objects.items() if at[0] != "workload" or at[1] not in keys}


def others_that_wait(objects: Objects, key: str) -> list[str]:
    return [name for kind, name in objects if kind == "workload" and name != key and is_waiting(objects, name)]


@st.composite
def worlds(draw: st.DrawFn) -> Api:
    api = Api()
    api.flavor("spot")
    api.flavor("special", labels={"zone": "a"})
    api.cohort("co")
    api.cohort("sub", "co", *([{"default": {"cpu": draw(st.integers(0, 3))}}] if draw(st.booleans()) else []))
    for name, cohort in QUEUES.items():
        flavors = draw(st.sampled_from([("default",), ("default", "spot"), ("special", "default")]))
        limits = st.sampled_from([None, None, 0, 2]) if cohort else st.none()
        quotas = {}
        for flavor in flavors:
            nominal, borrowing, lending = draw(st.integers(0, 8)), draw(limits), draw(limits)
            quotas[flavor] = {"cpu": (nominal, borrowing, None if lending is None else min(lending, nominal))}
        spec: Wire = {"cohortName": cohort} if cohort else {}
        if draw(st.integers(0, 2)) == 0:
            spec["queueingStrategy"] = "StrictFIFO"
        if draw(st.booleans()):
            spec["preemption"] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        api.queue(name, quotas, local=f"lq-{name}", **spec)
    for number in range(draw(st.integers(2, 9))):
        submit(draw, api, f"h{number}", most=2)
        api.now_s += draw(st.integers(0, 1))
    api.cycle()
    for key in others_that_wait(api.objects, ""):
        api.remove("workload", key)
    for number in range(draw(st.integers(1, 3))):
        submit(draw, api, f"w{number}", most=5)
        api.now_s += draw(st.integers(0, 1))
    return api


def submit(draw: st.DrawFn, api: Api, name: str, most: int) -> None:
    sets = []
    for at in range(draw(st.sampled_from([1, 1, 1, 1, 2]))):
        requests: Wire = {"cpu": draw(st.sampled_from([*range(1, most), most, most * 3 if most > 3 else 1]))}
        if most > 3 and draw(st.integers(0, 6)) == 0:
            requests[GPU] = 1
        selector = {"nodeSelector": {"zone": draw(st.sampled_from(["a", "b"]))}} if draw(st.integers(0, 5)) == 0 else {}
        sets.append(a_pod_set(f"s{at}", draw(st.sampled_from([1, 1, 1, 2])), requests, **selector))
    queue = f"lq-{draw(st.sampled_from(sorted(QUEUES)))}"
    api.submit(name, *sets, queue=queue, priority=draw(st.sampled_from([0, 0, 5])))


@given(worlds())
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_suggested_changes_help(api: Api) -> None:
    objects, now_s = api.objects, api.now_s
    for kind, key in sorted(objects):
        if kind != "workload" or not is_waiting(objects, key):
            continue
        about = describe_workload(build(objects, now_s), objects[kind, key], True, now_s)
        for step in about.next:
            check(objects, key, step, about, now_s)


def check(objects: Objects, key: str, step: str, about: WorkloadDescription, now_s: float) -> None:
    if found := ENDS.search(step):
        event("ended")
        assert is_admitted(without(objects, *found[1].split(", ")), key, now_s), (step, about)
    if GROWTH.search(step):
        event("grown")
        after = copy.deepcopy(objects)
        for queue, resource, flavor, before, needed in GROWTH.findall(step):
            quota = quota_of(after["cluster_queue", queue], flavor, resource)
            assert quota["nominalQuota"] == before
            quota["nominalQuota"] = needed
        assert is_admitted(after, key, now_s), (step, about)
    if "freed quota does not help" in step:
        event("never fits")
        everybody = [name for kind, name in objects if kind == "workload" and name != key]
        assert not is_admitted(without(objects, *everybody), key, now_s), (step, about)
    if found := ALONE.search(step):
        event("smaller growth")
        after = without(objects, *(name for kind, name in objects if kind == "workload" and name != key))
        for amount, resource, flavor in AMOUNT.findall(found[2]):
            quota_of(after["cluster_queue", found[1]], flavor, resource)["nominalQuota"] = amount
        assert is_admitted(after, key, now_s), (step, about)
    if found := UNCOVERED.search(step):
        event("uncovered")
        after = copy.deepcopy(objects)
        cover(after, found[1], found[2].split(", "))
        told = describe_workload(build(after, now_s), after["workload", key], True, now_s)
        assert not any(UNCOVERED.search(each) for each in told.next), told
    if EVICTS.search(step):
        event("evicts")
        alone = without(objects, *others_that_wait(objects, key))
        evicted = {each.key for each in cycle(alone, now_s) if isinstance(each, Evict)}
        assert evicted == set(about.would_evict), (step, about)
    if step.startswith("there is free quota for it now"):
        event("free quota")
        assert is_admitted(without(objects, *others_that_wait(objects, key)), key, now_s), (step, about)
    if step.startswith("no flavor of the queue matches it"):
        event("no flavor")
        everybody = [name for kind, name in objects if kind == "workload" and name != key]
        assert not is_admitted(without(objects, *everybody), key, now_s), (step, about)


def quota_of(queue: Wire, flavor: str, resource: str) -> Wire:
    return next(
        each
        for group in queue["spec"]["resourceGroups"]
        for offered in group["flavors"]
        if offered["name"] == flavor
        for each in offered["resources"]
        if each["name"] == resource
    )


def cover(objects: Objects, queue: str, resources: list[str]) -> None:
    quotas = [{"name": each, "nominalQuota": "100"} for each in resources]
    group = {"coveredResources": resources, "flavors": [{"name": "spot", "resources": quotas}]}
    objects["cluster_queue", queue]["spec"]["resourceGroups"].append(group)


@given(worlds())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_asking_what_would_help_changes_nothing(api: Api) -> None:
    asked = build(api.objects, api.now_s)
    for (kind, _), wire in sorted(api.objects.items(), key=lambda item: item[0]):
        if kind == "workload":
            describe_workload(asked, wire, True, api.now_s)
    assert asked.run_cycle(api.now_s) == cycle(api.objects, api.now_s)
