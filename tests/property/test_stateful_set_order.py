"""StatefulSets under events in any order, with crashes and cut watches: pods start in order, and no ordinal exists
twice.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import Create, Delete
from headgate.controllers.stateful_sets.controller import StatefulSetController
from headgate.controllers.stateful_sets.plan import StartPod, StatefulSetPod, StatefulSetRules, StopPod, plan_pods
from property.random_steps import Drawn, chooser
from unit.controllers.kubelet_steps import finish, pods, report, run

Object = dict[str, Any]
SETS = "/apis/apps/v1/namespaces/a/statefulsets"
LABELS = {"app": "db"}


def a_set(replicas: int, policy: str) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "v0"}]}}
    spec = {"replicas": replicas, "podManagementPolicy": policy, "selector": {"matchLabels": LABELS}}
    return {"metadata": {"name": "db"}, "spec": {**spec, "serviceName": "db", "template": template}}


class Watched:
    """A set in a drawn world, and what must never happen to it."""

    def __init__(self, policy: str) -> None:
        self.world = Drawn(StatefulSetController)
        self.world.judge = self.judge
        self.world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        assert self.world.server.post(SETS, a_set(3, policy)).status == 201
        self.is_ordered = policy == "OrderedReady"
        self.was_ready: set[str] = set()
        self.image = 0
        self.replicas = 3

    def judge(self, effect: effects.RequestEffect) -> None:
        if isinstance(effect, Create) and effect.resource.plural == "pods" and self.is_ordered:
            there = pods(self.world)
            for below in range(ordinal(effect.obj["metadata"]["name"])):
                pod = there.get(f"db-{below}")
                assert pod is not None, f"started before db-{below} was there"
                assert pod["metadata"]["uid"] in self.was_ready, f"started before db-{below} was ready"
        if isinstance(effect, Delete) and effect.resource.plural == "pods" and self.is_ordered:
            there = pods(self.world)
            leaving = {name for name, pod in there.items() if "deletionTimestamp" in pod["metadata"]}
            assert leaving <= {effect.name}, "told to go while another one was leaving"

    def act(self, what: int) -> None:
        there = sorted(pods(self.world).items())
        name, pod = there[what % len(there)] if there else ("", {})
        match what // 16 % 8:
            case 0 | 1 if name and "deletionTimestamp" not in pod["metadata"] and not is_ended(pod):
                run(self.world, name)
                self.was_ready.add(pod["metadata"]["uid"])
            case 2:
                finish(self.world)
            case 3 if name and pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                report(self.world, name, "Failed")
            case 4:
                self.replicas = what % 5
                assert self.world.server.patch(f"{SETS}/db", {"spec": {"replicas": self.replicas}}).status == 200
            case 5:
                self.image = what % 3
                containers = [{"name": "c", "image": f"v{self.image}"}]
                self.world.server.patch(f"{SETS}/db", {"spec": {"template": {"spec": {"containers": containers}}}})
            case 6:
                self.world.die()
            case 7:
                self.world.cut_pods()

    def come_to_rest(self) -> None:
        for _ in range(40):
            self.world.advance(1.0)
            finish(self.world)
            for name, pod in pods(self.world).items():
                if "deletionTimestamp" not in pod["metadata"] and not is_ended(pod):
                    run(self.world, name)
                    self.was_ready.add(pod["metadata"]["uid"])


def ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def is_ended(pod: Object) -> bool:
    return pod["status"]["phase"] in ("Failed", "Succeeded")


@settings(max_examples=30)  # an example is the whole life of a set on an embedded server
@given(
    policy=st.sampled_from(["OrderedReady", "Parallel"]),
    acts=st.lists(st.integers(0, 255), max_size=40),
    tape=st.lists(st.integers(0, 7), max_size=200),
)
def test_whatever_happens_members_start_in_their_turn_and_all_are_there_in_the_end(
    policy: str, acts: list[int], tape: list[int]
) -> None:
    watched, choose = Watched(policy), chooser(tape)
    for act in acts:
        for _ in range(act % 4):
            watched.world.move(choose)
        watched.world.pass_a_moment()
        watched.act(act)
    watched.come_to_rest()
    left = pods(watched.world)
    assert sorted(left) == [f"db-{number}" for number in range(watched.replicas)]
    assert {pod["spec"]["containers"][0]["image"] for pod in left.values()} <= {f"v{watched.image}"}
    status = watched.world.server.get(f"{SETS}/db").body["status"]
    told = [status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")]
    assert told == [watched.replicas] * 4


MEMBERS = st.dictionaries(
    st.integers(0, 7),
    st.tuples(
        st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]), st.booleans(), st.booleans(), st.booleans()
    ),
    max_size=6,
)


@settings(max_examples=400)
@given(
    members=MEMBERS,
    start=st.integers(0, 2),
    replicas=st.integers(0, 5),
    is_ordered=st.booleans(),
    partition=st.none() | st.integers(0, 4),
)
def test_a_plan_never_does_what_has_to_wait(
    members: dict[int, tuple[str, bool, bool, bool]], start: int, replicas: int, is_ordered: bool, partition: int | None
) -> None:
    rules = StatefulSetRules(start, replicas, is_ordered, partition, 0)
    there = [
        StatefulSetPod(number, {}, "new" if is_new else "old", phase, phase == "Running" and ready, ready, leaving)
        for number, (phase, ready, leaving, is_new) in members.items()
    ]
    steps = [step for stage in plan_pods(rules, there, "new", lambda member: False) for step in stage]
    started = [step.ordinal for step in steps if isinstance(step, StartPod)]
    ended = [step.member for step in steps if isinstance(step, StopPod)]
    good = {each.ordinal for each in there if each.is_ready and not each.is_unavailable}
    assert set(started) <= set(rules.ordinals) - members.keys()
    assert not any(each.is_terminating for each in ended)
    assert len({each.ordinal for each in ended}) == len(ended)
    if not is_ordered:
        assert set(started) == set(rules.ordinals) - members.keys()
        assert {each.ordinal for each in there if each.ordinal not in rules.ordinals and not each.is_terminating} <= {
            each.ordinal for each in ended
        }
    else:
        assert len(started) + len(ended) <= 1
        for number in started:
            assert set(range(start, number)) <= good
    for each in ended:
        is_needed = each.phase in ("Failed", "Succeeded") or each.ordinal not in rules.ordinals
        if not is_needed:
            assert each.revision == "old"
            assert partition is not None
            assert each.ordinal >= start + partition
            assert set(range(each.ordinal + 1, start + replicas)) <= {
                other.ordinal for other in there if not other.is_unavailable
            }
            assert not is_ordered or set(rules.ordinals) <= good
