"""Preemption in random full queues: all victims are permitted and needed, and the pod fits without them.

Compared with trying everything: if there are no victims, all permitted victims together would not be enough.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity_builders import Queues, a_queue, a_task
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.conf import DEFAULTS
from headgate.capacity.engine import WaitReason

_BOTH = msgspec.structs.replace(DEFAULTS, actions=("allocate", "preempt", "reclaim"))
_LEAVES = ("a1", "a2", "b1")
_PARENTS = {"a1": "a", "a2": "a", "b1": "b"}


@st.composite
def worlds(draw: Any) -> list[Any]:
    some = st.sampled_from([None, 1, 2, 3])
    objects: list[Any] = [
        a_queue("root", cpu=draw(st.sampled_from([None, 6]))),
        a_queue("a", cpu=5),
        a_queue("b", cpu=5),
    ]
    for name, parent in _PARENTS.items():
        deserved = draw(some)
        objects.append(
            a_queue(
                name,
                cpu=draw(st.sampled_from([None, 3, 4])),
                parent=parent,
                deserved=None if deserved is None else {"cpu": deserved},
                reclaimable=draw(st.booleans()),
            )
        )
    objects += [
        a_task(
            f"r{number}",
            draw(st.sampled_from([None, "1", "2"])),
            queue=draw(st.sampled_from(_LEAVES)),
            priority=draw(st.integers(0, 2)),
            created_s=float(number),
            node_name="n",
            gates=(),
            preemptable=draw(st.sampled_from([True, True, False])),
        )
        for number in range(draw(st.integers(1, 8)))
    ]
    objects.append(
        a_task("p", draw(st.sampled_from(["1", "2", "3"])), queue=draw(st.sampled_from(_LEAVES)), priority=1)
    )
    return objects


def fits_without(objects: list[Any], gone: tuple[str, ...]) -> bool:
    left = [each for each in objects if not (isinstance(each, TaskInfo) and each.uid in gone)]
    return Queues(*left, conf=_BOTH).wait_reason("p") is WaitReason.WAITING_TURN


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_only_permitted_and_needed_victims_are_chosen(objects: list[Any]) -> None:
    queues = Queues(*objects, conf=_BOTH)
    tasks = {each.uid: each for each in objects if isinstance(each, TaskInfo)}
    asking = tasks["u-p"]
    room = queues.engine.plan_preemption("u-p")
    if queues.wait_reason("p") is not WaitReason.FULL:
        assert room is None
        return
    lower = [
        uid
        for uid, each in tasks.items()
        if each.queue == asking.queue and each.priority < asking.priority and each.preemptable and each.requests
    ]
    if room is None:
        assert not fits_without(objects, tuple(lower))
        return
    assert room.preemptor_uids == ("u-p",)
    assert fits_without(objects, room.victims)
    for fewer in combinations(room.victims, len(room.victims) - 1):
        assert not fits_without(objects, fewer)
    closed = {
        each["metadata"]["name"]
        for each in objects
        if isinstance(each, dict) and not each["spec"].get("reclaimable", 1)
    }
    for uid in room.victims:
        assert tasks[uid].preemptable
        assert uid in lower or (tasks[uid].queue != asking.queue and tasks[uid].queue not in closed)
    for uid in room.victims:
        queues.engine.evicted(uid)
    assert "p" in queues.admit()
