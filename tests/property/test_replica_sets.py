"""Incremental counts against recounts, and the order of deletions against the rules, one by one."""

from __future__ import annotations

import math
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.controllers.framework.effects import Create, Delete
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.controllers.replica_sets.counts import ReplicaSetCounter
from headgate.controllers.replica_sets.deletion_order import DELETION_COST, on_nodes, pods_to_delete
from headgate.kube.timestamps import format_time
from unit.controllers.workload_fixtures import SETS, a_set, a_world, force_delete, name_suffixes, names, pods, put

Object = dict[str, Any]
NOW_S = 1_700_000_000.0
WEB = {"app": "web"}


@st.composite
def a_pod(draw: st.DrawFn, uid: str) -> Object:
    def pick(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    ready = pick("True", "False", "")
    at = format_time(NOW_S - pick(0, 1, 3, 100, 5000))
    metadata: Object = {"name": uid, "uid": uid, "creationTimestamp": format_time(NOW_S - pick(0, 1, 2, 60, 5000))}
    metadata["labels"] = pick(WEB, {**WEB, "tier": "a"}, {"app": "other"})
    if pick(False, False, True):
        metadata["deletionTimestamp"] = at
    if cost := pick("", "", "5", "-5", "05", "junk"):
        metadata["annotations"] = {DELETION_COST: cost}
    containers = [{"name": "c", "restartCount": pick(0, 0, 3)}]
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": at}] if ready else []
    status = {"phase": pick("Pending", "Running", "Failed"), "conditions": conditions, "containerStatuses": containers}
    return {"metadata": metadata, "spec": {"nodeName": node} if (node := pick("", "m", "n")) else {}, "status": status}


def an_owner(uid: str, **labels: str) -> Object:
    template = {"metadata": {"labels": {**WEB, **labels}}}
    return {"metadata": {"uid": uid}, "spec": {"selector": {"matchLabels": WEB}, "template": template}}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_counts_that_are_kept_are_those_that_are_counted(data: Any) -> None:
    tally, owners = ReplicaSetCounter(), {"x": an_owner("x"), "y": an_owner("y")}
    there: dict[str, tuple[str | None, Object]] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(("pod", "pod", "pod", "gone", "owner", "counted")))
        uid = data.draw(st.sampled_from("abcde"))
        owner = data.draw(st.sampled_from(("x", "y", None, "stranger")))
        if what == "pod":
            there[uid] = owner, data.draw(a_pod(uid))
            tally.pod(uid, *there[uid], _is_going(there[uid][1]))
        elif what == "gone":
            there.pop(uid, None)
            tally.pod(uid, None, None, False)
        elif what == "owner" and owner in owners:
            owners[owner] = data.draw(st.sampled_from((an_owner(owner), an_owner(owner, tier="a"))))
            tally.owner_applied(owners[owner])
        else:
            _compare(tally, there, owners)
    for each in owners.values():
        tally.owner_applied(each)
    _compare(tally, there, owners)


def _is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _compare(tally: ReplicaSetCounter, there: dict[str, tuple[str | None, Object]], owners: dict[str, Object]) -> None:
    for uid, owner in owners.items():
        tally.owner_applied(owner)
        mine = {pod_uid: pod for pod_uid, (each, pod) in there.items() if each == uid}
        found = tally.counts(uid, mine, lambda pod_uid: _is_going(there[pod_uid][1]))
        standing = [pod for pod in mine.values() if pod["status"]["phase"] != "Failed"]
        meant = [pod for pod in standing if pod["metadata"]["labels"]["app"] == "web"]
        active = [pod for pod in meant if not _is_going(pod)]
        labels = owner["spec"]["template"]["metadata"]["labels"].items()
        assert found.active == len(active)
        assert found.terminating == len(meant) - len(active)
        assert found.unselected == len([pod for pod in standing if pod not in meant and not _is_going(pod)])
        assert found.labelled == len([pod for pod in active if labels <= pod["metadata"]["labels"].items()])
        assert found.ready == sum(_is_ready(pod) for pod in active)


def _is_ready(pod: Object) -> bool:
    return any(each["status"] == "True" for each in pod["status"]["conditions"])


@given(st.data(), st.integers(0, 7))
def test_pods_are_deleted_in_the_order_of_the_rules(data: Any, count: int) -> None:
    drawn = [data.draw(a_pod(uid)) for uid in "abcdefg"[: data.draw(st.integers(1, 7))]]
    related = on_nodes(drawn)
    going = pods_to_delete(drawn, related, count, NOW_S)
    assert len(going) == min(count, len(drawn))
    if count < len(drawn):
        staying = [pod for pod in drawn if pod not in going]
        for leaving in going:
            assert not any(_goes_before(each, leaving, related) for each in staying if _is_plain(each, leaving))


def _is_plain(one: Object, other: Object) -> bool:
    """Whether no rule looks at uids: different times of one magnitude."""
    return all(low == high or _magnitude(low) != _magnitude(high) for low in _times(one) for high in _times(other))


def _times(pod: Object) -> list[str]:
    return [pod["metadata"]["creationTimestamp"], *(each["lastTransitionTime"] for each in pod["status"]["conditions"])]


def _magnitude(at: str) -> int:
    ages = {format_time(NOW_S - age_s): age_s for age_s in (0, 1, 2, 3, 60, 100, 5000)}
    return int(math.log2(ages[at] * 10**9)) if ages[at] else -1


def _goes_before(one: Object, other: Object, related: dict[str, int]) -> bool:
    """The rules in their order: the first that tells them apart decides."""
    for rule in _RULES:
        left, right = rule(one, related), rule(other, related)
        if left != right:
            return bool(left < right)
    return False


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    return {"5": 5, "-5": -5}.get(text, 0)


_RULES: Any = (
    lambda pod, related: "nodeName" in pod["spec"],
    lambda pod, related: pod["status"]["phase"] == "Running",
    lambda pod, related: _is_ready(pod),
    lambda pod, related: _cost(pod),
    lambda pod, related: -related[pod["spec"].get("nodeName", "")],
    lambda pod, related: _magnitude(pod["status"]["conditions"][0]["lastTransitionTime"]) if _is_ready(pod) else 0,
    lambda pod, related: -pod["status"]["containerStatuses"][0]["restartCount"],
    lambda pod, related: _magnitude(pod["metadata"]["creationTimestamp"]),
)


@settings(max_examples=15, deadline=None)  # an example is 80 disturbances on an embedded server
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_in_any_order_of_events_there_are_never_too_many_pods(seed: int, replicas: int) -> None:
    """Answers get lost, watches are late, processes die, pods end and are deleted by others."""
    chance, draw = random.Random(seed), name_suffixes()
    world = a_world(lambda: ReplicaSetController(draw, burst=3, batch_s=0))
    world.loses_response = lambda effect: isinstance(effect, Create | Delete) and chance.random() < 0.1
    put(world, SETS, a_set(replicas=replicas))
    for _ in range(80):
        what = chance.random()
        if what < 0.08 and (there := names(world)):
            force_delete(world, chance.choice(there))
        elif what < 0.11:
            world.crash().deliver_all()
        elif what < 0.16:
            world.advance(1)
        else:
            world.settle(chance.choice, steps=1)
        assert len([pod for pod in pods(world) if not _is_going(pod)]) <= replicas
    world.loses_response = lambda effect: False
    world.advance(60)
    assert len([pod for pod in pods(world) if not _is_going(pod)]) == replicas
