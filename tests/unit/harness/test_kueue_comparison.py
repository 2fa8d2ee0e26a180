"""The differences between Kueue and Headgate that the comparison of random clusters allows, and what is drawn."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from kueue_builders import a_cluster_queue, a_condition, a_local_queue, a_pod_set, a_workload
from real.kueue_and_headgate import View
from real.kueue_comparison import ON_PURPOSE, compare, purpose_of
from real.kueue_endings import ENDINGS, Ended, ending_of
from real.kueue_messages import clauses
from real.kueue_random_clusters import RandomCluster
from real.test_kueue_parity import SEED, STEPS, WORLDS

Object = dict[str, Any]
TWO = (a_pod_set("set0", 2, {"cpu": 1}), a_pod_set("set1", 3, {"cpu": 2}))
ONE = (a_pod_set("set0", 2, {"cpu": 1, "example.com/gpu": 1}),)
SAID = "couldn't assign flavors to pod set"


def over(pod_set: str, asked: int, most: int, flavor: str = "spot", resource: str = "cpu", before: int = 0) -> str:
    return (
        f"{SAID} {pod_set}: insufficient quota for {resource} in flavor {flavor}, previously considered podsets"
        f" requests ({before}) + current podset request ({asked}) > maximum capacity ({most})"
    )


def lacking(pod_set: str, more: int, flavor: str = "spot", resource: str = "cpu") -> str:
    return f"{SAID} {pod_set}: insufficient unused quota for {resource} in flavor {flavor}, {more} more needed"


def a_view(*workloads: Object, pending: int = 0) -> View:
    queue = {**a_local_queue("w00-a", "w00-a", "default"), "status": {"pendingWorkloads": pending}}
    return {
        "Workload": {each["metadata"]["name"]: each for each in workloads},
        "ClusterQueue": {"w00-a": a_cluster_queue("w00-a")},
        "LocalQueue": {"w00-a": queue},
    }


def waiting(message: str, reason: str = "Pending", pod_sets: tuple[Object, ...] = ONE, name: str = "w00-01") -> Object:
    conditions = [a_condition("QuotaReserved", False, reason, message)]
    return a_workload(name, *pod_sets, queue="w00-a", status={"conditions": conditions})


def purposes(kueue: str, ours: str, reason: str, pod_sets: tuple[Object, ...] = ONE) -> list[str]:
    views = a_view(waiting(kueue, pod_sets=pod_sets), pending=1), a_view(waiting(ours, reason, pod_sets), pending=1)
    return [purpose_of(each) for each in compare("w00", *views)]


@pytest.mark.parametrize(
    ("name", "kueue", "ours", "reason", "pod_sets"),
    [
        ("reasons", lacking("set0", 1), lacking("set0", 1), "WaitingForQuota", ONE),
        (
            "taints",
            f"{SAID} set0: untolerated taint {{a b NoSchedule <nil>}} in flavor spot",
            f"{SAID} set0: untolerated taint a=b:NoSchedule in flavor spot",
            "NoMatchingFlavor",
            ONE,
        ),
        ("numbers", lacking("set0", 1), lacking("set0", 2), "WaitingForQuota", ONE),
        ("parts", over("set1", 6, 5), lacking("set0", 1), "WaitingForQuota", TWO),
        ("groups", over("set0", 2, 1, "gpu", "example.com/gpu"), over("set0", 2, 1), "ExceedsMaxQuota", ONE),
    ],
)
def test_a_difference_on_purpose_has_its_name(
    name: str, kueue: str, ours: str, reason: str, pod_sets: tuple[Object, ...]
) -> None:
    assert purposes(kueue, ours, reason, pod_sets) == [name]


@pytest.mark.parametrize(
    ("kueue", "ours", "reason", "pod_sets"),
    [
        # the reason is not one of what the message tells
        (lacking("set0", 1), lacking("set0", 1), "ExceedsMaxQuota", ONE),
        (over("set0", 2, 1), over("set0", 2, 1), "WaitingForQuota", ONE),
        # words that are not known
        (lacking("set0", 1), "something else", "WaitingForQuota", ONE),
        (lacking("set0", 1), lacking("set0", 1) + ", and more", "WaitingForQuota", ONE),
        # a part of the search that is not true: another request, or one that does not exceed the capacity
        (over("set1", 6, 5), over("set0", 3, 1), "ExceedsMaxQuota", TWO),
        (over("set1", 6, 5), over("set0", 2, 2), "ExceedsMaxQuota", TWO),
        (over("set1", 6, 5), over("set0", 2, 1, before=7), "ExceedsMaxQuota", TWO),
        (over("set1", 6, 5), over("set2", 6, 5), "ExceedsMaxQuota", TWO),
        # the same place with another capacity
        (over("set1", 6, 5), over("set1", 6, 4), "ExceedsMaxQuota", TWO),
        # a flavor that cannot be had is counted
        (
            f"{SAID} set1: untolerated taint {{a b NoSchedule <nil>}} in flavor spot",
            over("set1", 6, 5),
            "ExceedsMaxQuota",
            TWO,
        ),
        # groups: the same resource or flavor is no other group
        (over("set0", 2, 1, "fixed"), over("set0", 2, 1), "ExceedsMaxQuota", ONE),
        # numbers: something else differs, too
        (over("set0", 2, 1), lacking("set0", 1), "WaitingForQuota", ONE),
    ],
)
def test_a_difference_that_only_resembles_one_has_none(
    kueue: str, ours: str, reason: str, pod_sets: tuple[Object, ...]
) -> None:
    assert purposes(kueue, ours, reason, pod_sets) == [""]


@pytest.mark.parametrize(("kueue", "ours", "name"), [(0, 1, "stale counts"), (1, 2, ""), (1, 0, "")])
def test_the_count_of_a_local_queue_may_be_stale_in_kueue_but_not_with_us(kueue: int, ours: int, name: str) -> None:
    one = waiting(lacking("set0", 1), "WaitingForQuota")
    (found,) = compare("w00", a_view(one, pending=kueue), a_view(one, pending=ours))
    assert purpose_of(found) == name


STOPPED = "LocalQueue w00-a is inactive"


@pytest.mark.parametrize(
    ("kueue", "ours", "policy", "name"),
    [
        (("Inadmissible", STOPPED), ("Suspended", STOPPED), "Hold", "stopped queues"),
        (("Pending", lacking("set0", 1)), ("Suspended", STOPPED), "Hold", "stopped queues"),
        (("Inadmissible", STOPPED), ("Suspended", STOPPED), "None", ""),
        (("Inadmissible", STOPPED), ("WaitingForQuota", STOPPED), "Hold", ""),
        (("Inadmissible", STOPPED), ("Suspended", "ClusterQueue w00-a is inactive"), "Hold", ""),
        (("Inadmissible", "no room"), ("Suspended", STOPPED), "Hold", ""),
    ],
)
def test_headgate_reports_a_stopped_queue_as_the_reason(
    kueue: tuple[str, str], ours: tuple[str, str], policy: str, name: str
) -> None:
    views = [a_view(waiting(message, reason), pending=1) for reason, message in (kueue, ours)]
    for each in views:
        each["LocalQueue"]["w00-a"]["spec"]["stopPolicy"] = policy
    assert [purpose_of(each) for each in compare("w00", *views)] == [name]


@pytest.mark.parametrize(("count", "total", "names"), [(1, "1", ["deactivated"] * 4), (2, "2", [""] * 4)])
def test_what_deactivated_workloads_hold_may_be_counted_by_us_alone(count: int, total: str, names: list[str]) -> None:
    def with_counts(number: int, amount: str) -> View:
        view = a_view(holding("w00-01", "spot", queue="w00-a"))
        view["Workload"]["w00-01"]["spec"]["active"] = False
        for kind in ("ClusterQueue", "LocalQueue"):
            used = [{"name": "spot", "resources": [{"name": "cpu", "total": amount}]}]
            view[kind]["w00-a"]["status"] = {"reservingWorkloads": number, "flavorsReservation": used}
        return view

    found = compare("w00", with_counts(0, "0"), with_counts(count, total))
    assert [purpose_of(each) for each in found] == names


@pytest.mark.parametrize(("is_active", "name"), [(False, "deactivated"), (True, "")])
def test_headgate_reports_a_deactivated_workload(is_active: bool, name: str) -> None:
    views = [
        a_view(waiting(message, reason))
        for reason, message in (("Pending", "rejected"), ("Deactivated", "The workload is deactivated"))
    ]
    for each in views:
        each["Workload"]["w00-01"]["spec"]["active"] = is_active
    assert [purpose_of(each) for each in compare("w00", *views) if each.aspect == "QuotaReserved"] == [name]


@pytest.mark.parametrize(
    ("is_reserved", "state", "reason", "message", "name"),
    [
        (True, "Pending", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready", "not admitted"),
        (True, "Ready", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready", ""),
        (True, "Pending", "NoReservation", "The workload has no reservation", ""),
        (False, "Pending", "NoReservation", "The workload has no reservation", "not admitted"),
        (False, "Pending", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready", ""),
    ],
)
def test_only_headgate_reports_what_a_workload_lacks_to_be_admitted(
    is_reserved: bool, state: str, reason: str, message: str, name: str
) -> None:
    def with_check(*conditions: Object) -> Object:
        known = [a_condition("QuotaReserved", is_reserved), *conditions]
        status = {"admissionChecks": [{"name": "c", "state": state}], "conditions": known}
        return a_workload("w00-01", queue="w00-a", status=status)

    found = compare("w00", a_view(with_check()), a_view(with_check(a_condition("Admitted", False, reason, message))))
    assert [purpose_of(each) for each in found] == [name]


def test_clauses_are_read_whole() -> None:
    told = clauses(f"{lacking('set0', 1)}; {over('set1', 6, 5, before=2)}. Pending the preemption of 1 workload(s)")
    assert told is not None
    assert [(each.pod_set, each.kind, each.more, each.before) for each in told] == [
        ("set0", "lacking", "1", ""),
        ("set1", "too much", "", "2"),
    ]


# -- endings -------------------------------------------------------------------------------------------------------


def holding(name: str, *flavors: str, queue: str = "", priority: int = 0, **conditions: str) -> Object:
    """``flavors``: of its pod sets; none if it holds no quota."""
    sets = [a_pod_set(f"set{at}") for at in range(max(len(flavors), 1))]
    given = [
        {"name": f"set{at}", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "1"}, "count": 1}
        for at, flavor in enumerate(flavors)
    ]
    told = [a_condition("QuotaReserved", bool(flavors), "QuotaReserved")]
    told += [a_condition(type_, reason=reason) for type_, reason in conditions.items()]
    admission = {"admission": {"clusterQueue": queue, "podSetAssignments": given}} if flavors else {}
    return a_workload(name, *sets, queue=queue, priority=priority, status={"conditions": told, **admission})


def a_world(number: int, **queues: str) -> RandomCluster:
    """A drawn world whose queues have these strategies."""
    world = RandomCluster(number, 1)
    world.counts_pods = False
    world.queues = {name: a_cluster_queue(name, queueingStrategy=strategy) for name, strategy in queues.items()}
    return world


BOTH = {"a": "StrictFIFO", "b": "BestEffortFIFO"}


def ended(kueue: tuple[Object, ...], ours: tuple[Object, ...], preemptors: dict[str, str] | None = None) -> str:
    return ending_of(Ended(a_world(0, **BOTH), a_view(*kueue), a_view(*ours), preemptors or {}))


def test_what_was_freed_for_a_preemptor_ends_a_world_only_if_kueue_gave_it_to_another() -> None:
    mine, other = holding("w00-01", "spot", queue="b"), holding("w00-02", "spot", queue="b", priority=1)
    without = holding("w00-01", queue="b"), holding("w00-02", queue="b", priority=1)
    preemptors = {"w00-01": "uid-w00-01"}
    assert ended((without[0], other), (mine, without[1]), preemptors) == "stolen"
    assert ended((without[0], without[1]), (mine, without[1]), preemptors) == ""
    assert ended((without[0], other), (mine, without[1])) == ""
    assert ended((without[0], other), (mine, without[1]), {"w00-01": "another"}) == ""


def test_other_flavors_end_a_world_only_of_several_pod_sets_with_the_same_usage() -> None:
    assert ended((holding("w00-01", "spot", "fixed"),), (holding("w00-01", "fixed", "spot"),)) == "elsewhere"
    assert ended((holding("w00-01", "spot"),), (holding("w00-01", "fixed"),)) == ""
    less = holding("w00-01", "fixed", "spot")
    less["status"]["admission"]["podSetAssignments"][0]["count"] = 0
    assert ended((holding("w00-01", "spot", "fixed"),), (less,)) == ""


def test_strict_queues_come_first_in_kueue_only() -> None:
    def pair(first: str, second: str) -> tuple[Object, Object]:
        return holding("w00-01", *filter(None, [first]), queue="a"), holding(
            "w00-02", *filter(None, [second]), queue="b", priority=1
        )

    assert ended(pair("spot", ""), pair("", "spot")) == "strict first"
    assert ended(pair("", "spot"), pair("spot", "")) == ""


def test_ties_are_between_queues() -> None:
    def pair(first: str, second: str, queue: str, priority: int = 0) -> tuple[Object, Object]:
        return holding("w00-01", *filter(None, [first]), queue="b"), holding(
            "w00-02", *filter(None, [second]), queue=queue, priority=priority
        )

    assert ended(pair("spot", "", "a"), pair("", "spot", "a")) == "ties"
    assert ended(pair("spot", "", "b"), pair("", "spot", "b")) == ""
    assert ended(pair("spot", "", "a", 1), pair("", "spot", "a", 1)) == ""


def test_a_place_that_is_kept_for_another_workload_ends_a_world() -> None:
    kueue, ours = holding("w00-01", "spot", queue="b"), holding("w00-01", queue="b")
    assert ended((kueue,), (ours,)) == ""
    ours["status"]["conditions"][0]["message"] = "Workload no longer fits after processing another workload"
    assert ended((kueue,), (ours,)) == "kept places"
    del ours["status"]
    assert ended((kueue,), (ours,)) == "", "of a workload that says nothing yet nothing is known"


def test_preemption_may_differ_where_pods_are_counted() -> None:
    kueue, ours = holding("w00-01", "spot", queue="a", Preempted="InClusterQueue"), holding("w00-01", "spot", queue="a")
    world = a_world(0, **BOTH)
    assert ending_of(Ended(world, a_view(kueue), a_view(ours), {})) == ""
    world.counts_pods = True
    assert ending_of(Ended(world, a_view(kueue), a_view(ours), {})) == "pods"


def test_every_allowance_was_recorded_in_five_stories() -> None:
    for each in (*ON_PURPOSE, *ENDINGS):
        assert len(each.met) == 5, each.name
        assert each.at_most <= 2 * max(*each.met, 1), each.name


# -- what is drawn ---------------------------------------------------------------------------------------------------


def drawn_acts(world: RandomCluster) -> list[tuple[str, Object]]:
    """The events of a cluster in which every workload has quota, and a pending check where its queue has one."""
    workloads: dict[str, Object] = {}
    acts = []
    for _ in range(STEPS):
        what, wire = world.next_act(workloads)
        if what == "plant":
            checks = world.queues[wire["spec"]["queueName"]]["spec"].get("admissionChecksStrategy")
            pending = {"admissionChecks": [{"name": "check", "state": "Pending"}]} if checks else {}
            workloads[wire["metadata"]["name"]] = {**wire, "status": {"admission": {}, **pending}}
        acts.append((what, copy.deepcopy(wire)))
    return acts


def test_the_clusters_of_the_suite_have_everything_that_both_may_decide_differently() -> None:
    worlds = [RandomCluster(number, SEED) for number in range(WORLDS)]
    specs = {world.name: [queue["spec"] for queue in world.queues.values()] for world in worlds}
    acts = {world.name: drawn_acts(world) for world in worlds}
    stop_policies = {wire["spec"]["stopPolicy"] for each in acts.values() for what, wire in each if what == "stop"}
    created = {
        name: Counter(wire["metadata"]["creationTimestamp"] for what, wire in each if what == "plant")
        for name, each in acts.items()
    }
    seen = {
        "mixed strategies": [
            name for name, each in specs.items() if len({one["queueingStrategy"] for one in each}) > 1
        ],
        "equal timestamps": [name for name, each in created.items() if max(each.values(), default=0) > 1],
        "admission checks": [name for name, each in acts.items() if any(what == "check" for what, _ in each)],
        "pods quotas": [name for name, each in specs.items() if any(_covers_pods(one) for one in each)],
    }
    assert {what: len(names) for what, names in seen.items() if len(names) < 3} == {}
    assert stop_policies == {"Hold", "HoldAndDrain", None}


def _covers_pods(spec: Object) -> bool:
    return any("pods" in group["coveredResources"] for group in spec["resourceGroups"])
