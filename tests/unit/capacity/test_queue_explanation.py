"""What is said about a queue: whether it admits pods, how full it is, who holds it, and what helps the first pod."""

from __future__ import annotations

import msgspec

from capacity_builders import Queues, a_queue, a_task, stamped
from headgate.capacity.api.task import TaskInfo
from headgate.capacity.queue_explanation import QueueExplanation, explain_queue, known_queue


def explained(queues: Queues, name: str, state: str = "Open") -> QueueExplanation:
    return explain_queue(queues.engine, name, state)


def on_a_node(name: str, cpu: int, queue: str) -> TaskInfo:
    return msgspec.structs.replace(stamped(a_task(name, cpu, queue=queue), queue), node_name="n")


def a_full_queue() -> Queues:
    return Queues(
        a_queue("eng", cpu=4),
        a_queue("a", cpu=3, parent="eng", deserved={"cpu": 2}),
        on_a_node("big", 2, "a"),
        stamped(a_task("promised", 1, queue="a"), "a"),
        a_task("first", 2, queue="a", created_s=1.0),
        a_task("second", 1, queue="a", created_s=2.0),
    )


def test_a_full_queue_names_its_largest_holders_and_its_first_pod() -> None:
    found = explained(a_full_queue(), "a")
    assert found.summary == "it has no cpu left: 3 of 3 are in use or promised; 2 pods wait"
    assert (found.admits, found.parent, found.full_at) == (True, "eng", ("a", "cpu"))
    (cpu,) = found.usage
    assert (cpu.allocated, cpu.reserved, cpu.limit, cpu.free, cpu.deserved) == ("2", "1", "3", "0", "2")
    assert [(each.pod, each.amounts, each.is_promised) for each in found.holders] == [
        ("ns/big", {"cpu": "2"}, False),
        ("ns/promised", {"cpu": "1"}, True),
    ]
    (first,) = found.first
    assert (first.pod, first.reason) == ("ns/first", "QueueFull")
    assert found.waiting_reasons == {"QueueFull": 2}
    assert found.next == (f"for pod ns/first: {first.help}",)
    assert "has to grow from 3 to" in first.help


def test_a_queue_above_others_shows_the_first_pod_of_each() -> None:
    queues = a_full_queue()
    queues.apply(a_queue("b", cpu=1, parent="eng"), a_task("other", 2, queue="b"))
    found = explained(queues, "eng")
    assert found.admits, "queues below it take pods"
    assert found.children == ("a", "b")
    assert [(each.queue, each.pod) for each in found.first] == [("a", "ns/first"), ("b", "ns/other")]
    assert found.waiting == 3


def test_a_queue_below_a_full_one_names_that_queue() -> None:
    queues = a_full_queue()
    queues.apply(a_queue("eng", cpu=3), a_queue("b", cpu=3, parent="eng"))
    found = explained(queues, "b")
    assert found.summary.startswith("its ancestor eng has no cpu left: 3 of 3")
    assert found.full_at == ("eng", "cpu")


def test_a_closed_queue_says_what_to_do() -> None:
    queues = Queues(a_queue("shut", cpu=2, state="Closed"), a_task("waits", 1, queue="shut"))
    found = explained(queues, "shut", "Closed")
    assert not found.admits
    assert found.summary == "it admits no pods: queue shut is Closed; 1 pod waits"
    assert found.next == ("queue shut has to be opened",)
    assert found.first == ()


def test_an_empty_queue_admits() -> None:
    found = explained(Queues(a_queue("free", cpu=2)), "free")
    assert (found.summary, found.holders, found.next) == ("it admits pods; 0 pods wait", (), ())


def test_only_existing_queues_and_the_root_are_known() -> None:
    queues = Queues(a_queue("free"))
    assert [known_queue(queues.engine, name) for name in ("free", "root", "absent")] == [True, True, False]
