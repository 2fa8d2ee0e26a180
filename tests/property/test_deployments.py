"""Deployments under any order of events: never more pods than the surge allows, never fewer available pods than
required; and the arithmetic of sizes against slow, plain references.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headgate.controllers.deployments import rolling_update, scaling
from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.deployments.replica_sets import ReplicaSet
from headgate.controllers.replica_sets.controller import ReplicaSetController
from unit.controllers.workload_fixtures import (
    DEPLOYMENTS,
    PODS,
    SETS,
    a_world,
    force_delete,
    get,
    name_suffixes,
    patch,
    pods,
    put,
    set_ready,
    template,
)
from unit.controllers.world import Object, World

PATH = f"{DEPLOYMENTS}/web"
NUMBERS = st.integers(0, 6)
SHARES = st.one_of(NUMBERS, st.integers(0, 100).map(lambda number: f"{number}%"))


def a_deployment(replicas: int, surge: int | str, missing: int | str, **status: int) -> Object:
    update = {"maxSurge": surge, "maxUnavailable": missing}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": update}}
    return {"metadata": {"name": "web"}, "spec": spec, "status": status}


def a_set(number: int, replicas: int, available: int, noted: int | None = None) -> ReplicaSet:
    name = f"set-{number}"
    return ReplicaSet(
        name=name,
        uid=name,
        created=name,
        is_terminating=False,
        generation=1,
        observed_generation=1,
        replicas=replicas,
        status_replicas=replicas,
        ready=available,
        available=available,
        terminating=0,
        desired_annotation=noted,
        max_replicas_annotation=noted,
        revision=number,
        obj={},
    )


@given(st.integers(0, 300), SHARES, SHARES)
def test_fences_are_rounded_away_from_harm(replicas: int, surge: int | str, missing: int | str) -> None:
    found = rolling_update.rollout_limits(a_deployment(replicas, surge, missing))

    def exactly(share: int | str) -> Fraction:
        return Fraction(share) if isinstance(share, int) else Fraction(share.rstrip("%")) * replicas / 100

    more, less = math.ceil(exactly(surge)), math.floor(exactly(missing))
    assert found.surge == more
    assert found.unavailable == min(replicas, less if more or less else 1)


SIZED = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (pair[0], min(pair)))


@given(st.integers(1, 20), NUMBERS, NUMBERS, st.lists(SIZED, min_size=1, max_size=4), SIZED)
def test_no_step_of_a_rollout_breaks_a_fence(
    replicas: int, surge: int, missing: int, olds: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    assume(surge or missing)
    deployment, limit = a_deployment(replicas, surge, missing), replicas + surge
    newest = a_set(9, *new)
    old = [a_set(number, *each) for number, each in enumerate(olds)]
    before = sum(each.replicas for each in [*old, newest])
    available = sum(each.available for each in [*old, newest])
    least = replicas - min(missing, replicas)
    for step in rolling_update.resize_new(deployment, [*old, newest], newest):
        grown = before - newest.replicas + step.replicas
        assert grown <= max(limit, before) or step.replicas < newest.replicas
        assert step.replicas <= replicas
    sizes = {each.uid: each.replicas for each in old}
    for step in rolling_update.shrink_old(deployment, old, newest):
        assert 0 <= step.replicas < sizes[step.uid]
        sizes[step.uid] = step.replicas
    left = newest.available + sum(min(each.available, sizes[each.uid]) for each in old)
    assert left >= min(least, available), "those that are not available go first"


@given(st.integers(0, 40), NUMBERS, st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(1, 60), st.data())
def test_scaling_is_in_proportion(replicas: int, surge: int, given_sizes: list[int], noted: int, data: Any) -> None:
    deployment = a_deployment(replicas, surge, 1)
    sets = [a_set(number, size, 0, noted) for number, size in enumerate(given_sizes)]
    *old, new = data.draw(st.permutations(sets))
    found = {step.uid: step.replicas for step in scaling.resizes(deployment, old, new)}
    allowed = replicas + surge if replicas else 0
    assert sum(found.values()) == allowed or min(found.values()) == 0
    assert found == _in_proportion(sets, replicas, allowed, noted)


def _in_proportion(sets: list[ReplicaSet], replicas: int, allowed: int, noted: int) -> dict[str, int]:
    """Computed for one ReplicaSet after the other, with integers and fractions only."""
    to_move = allowed - sum(each.replicas for each in sets)
    grows = to_move > 0
    ordered = sorted(sets, key=lambda each: (-each.replicas, -int(each.name[4:]) if grows else int(each.name[4:])))
    sizes, left = {}, to_move
    for each in ordered:
        exact = Fraction(each.replicas * allowed, noted) if replicas else Fraction(0)
        move = math.floor(exact + Fraction(1, 2)) - each.replicas
        move = 0 if left == 0 else min(move, left) if grows else max(move, left)
        sizes[each.uid] = each.replicas + move
        left -= move
    sizes[ordered[0].uid] = max(0, sizes[ordered[0].uid] + left)
    return sizes


def hashed(template: Object, collisions: int | None) -> str:
    image: str = template["spec"]["containers"][0]["image"]
    return image


def standing(world: World) -> list[Object]:
    return [pod for pod in pods(world) if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())


class Rollout:
    """A Deployment that is changed again and again, with a slow kubelet."""

    def __init__(self, seed: int, replicas: int, surge: int, missing: int) -> None:
        self.random = random.Random(seed)
        draw = name_suffixes()
        self.world = a_world(
            lambda: ReplicaSetController(draw, burst=2, batch_s=0), lambda: DeploymentController(hashed, batch_s=0)
        )
        self.most, self.least = replicas + surge, replicas - missing
        spec = a_deployment(replicas, surge, missing)["spec"]
        selector = {"matchLabels": {"app": "web"}}
        put(
            self.world,
            DEPLOYMENTS,
            {"metadata": {"name": "web"}, "spec": {**spec, "selector": selector, "template": template("0")}},
        )
        self.world.settle()
        while not self.is_idle():
            self.kubelet()
            self.world.settle()

    def waiting(self) -> list[Object]:
        return [pod for pod in pods(self.world) if "deletionTimestamp" in pod["metadata"] or not is_ready(pod)]

    def is_idle(self) -> bool:
        return not self.waiting()

    def kubelet(self) -> None:
        waiting = self.waiting()
        if waiting:
            chosen = self.random.choice(waiting)
            name = chosen["metadata"]["name"]
            if "deletionTimestamp" in chosen["metadata"]:
                force_delete(self.world, name)
            else:
                if "nodeName" not in chosen["spec"]:
                    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
                    self.world.server.post(f"{PODS}/{name}/binding", binding)
                set_ready(self.world, name)

    def user(self, image: str) -> None:
        patch(self.world, PATH, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})

    def step(self) -> None:
        what = self.random.random()
        if what < 0.1:
            self.kubelet()
        elif what < 0.12:
            self.world.crash().deliver_all()  # no controller works before it has all initial lists
        elif what < 0.14:
            self.user(str(self.random.randrange(3)))
        else:
            self.world.settle(self.random.choice, steps=1)
        there = standing(self.world)
        assert len(there) <= self.most
        assert sum(map(is_ready, there)) >= self.least


@settings(max_examples=10, deadline=None)  # an example is a rollout of 150 to 550 steps on an embedded server
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))
def test_in_any_order_of_events_both_fences_hold(seed: int, replicas: int, surge: int, missing: int) -> None:
    assume(surge or missing)
    told = Rollout(seed, replicas, surge, min(missing, replicas))
    for _ in range(150):
        told.step()
    for _ in range(400):
        told.world.advance(1)
        if told.is_idle():
            break
        told.kubelet()
    told.world.advance(1)
    image = get(told.world, PATH)["spec"]["template"]["spec"]["containers"][0]["image"]
    sizes = {each["metadata"]["name"]: each["spec"]["replicas"] for each in get(told.world, SETS)["items"]}
    assert {name: size for name, size in sizes.items() if size} == {f"web-{image}": replicas}
    assert len(pods(told.world)) == replicas
