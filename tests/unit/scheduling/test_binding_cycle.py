"""Between the choice of a node and the binding: reserving, permitting, preparing, waiting, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from headgate.kube.api_resources import CONFIG_MAPS
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.effects import Bind, ObjectPatch, PreBindWrites, SetStatus, WriteResult
from headgate.scheduling.framework.interface import PermitWait, PreBindPending, Rejection
from headgate.scheduling.pod_lifecycle import PodState
from unit.scheduling.world import World, a_node, a_pod

WRITE = ObjectPatch(CONFIG_MAPS, "default", "c", "uid-c", {"data": {}})


class Books:
    """Reserves, and refuses pods by name."""

    def __init__(self, name: str = "Books", refuses: str = "") -> None:
        self.name = name
        self.refuses = refuses
        self.held: list[str] = []

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        if pod.name == self.refuses:
            return Rejection(self.name, "full", cluster_events.own_update())
        self.held.append(f"{pod.name}@{node_name}")
        return None

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        if f"{pod.name}@{node_name}" in self.held:
            self.held.remove(f"{pod.name}@{node_name}")


class Pairs:
    """Lets pods go two by two; one named ``never`` turns the waiting ones away."""

    name = "Pairs"

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.answers: dict[str, Rejection | None] = {}

    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None:
        if pod.name == "never":
            self.answers = {uid: Rejection(self.name, "not today") for uid in self.waiting}
            return Rejection(self.name, "never")
        if self.waiting:
            self.answers[self.waiting.pop()] = None
            return None
        self.waiting.append(pod.uid)
        return PermitWait(30.0)

    def released(self) -> Mapping[str, Rejection | None]:
        answers, self.answers = self.answers, {}
        return answers


class Orders:
    """Writes something first, and awaits a new node."""

    name = "Orders"
    timeout_s = 60.0
    is_there = False
    problem = ""

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch] | Rejection:
        return [WRITE]

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None:
        return self.problem or (
            None if self.is_there else PreBindPending(cluster_events.on(cluster_events.NODE, cluster_events.ADD))
        )

    def post_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]:
        return [WRITE]


class Courier:
    """Binds in its own way."""

    name = "Courier"

    def bind(self, pod: PodInfo, node_name: str, /) -> ObjectPatch | None:
        return WRITE if pod.name.startswith("parcel") else None


def test_reservations_are_undone_when_a_later_plugin_rejects_the_pod() -> None:
    first, second = Books("First"), Books("Second", refuses="p")
    world = World(first, second)
    world.show(a_pod("p"), a_pod("q"))
    world.step()
    assert world.binds.keys() == {"q"}
    assert world.where("p") is PodState.UNSCHEDULABLE
    assert world.statuses == {"p": 'Unschedulable: Reserve plugin "Second": full'}
    assert [each.partition("@")[0] for each in first.held] == ["q"]
    assert world.taken("a") + world.taken("b") == 1


def test_reservations_are_undone_when_the_binding_fails() -> None:
    books = Books()
    world = World(books)
    world.show(a_pod("p"))
    world.step()
    assert books.held == ["p@a"]
    world.answer("p", WriteResult.LATER)
    assert books.held == []


def test_a_pod_waits_for_permission_and_goes_when_it_comes() -> None:
    world = World(Pairs())
    world.show(a_pod("p"), a_pod("q"), a_pod("r"))
    world.step()
    assert world.binds.keys() == {"p", "q"}
    assert world.taken("a") + world.taken("b") == 3  # the third waits and keeps its capacity


def test_a_pod_that_waits_too_long_for_permit_is_rejected() -> None:
    world = World(Pairs())
    world.show(a_pod("p"))
    assert world.step() == []
    world.step(after_s=30)
    assert world.statuses == {"p": 'Unschedulable: Permit plugin "Pairs": timed out waiting on permit'}
    assert world.taken("a") == 0


def test_a_permit_plugin_may_reject_waiting_pods() -> None:
    world = World(Pairs())
    world.show(a_pod("p"), a_pod("q-never"))
    world.step(most=1)
    world.show(a_pod("never", priority=5))
    world.step(most=1)
    by = 'Unschedulable: Permit plugin "Pairs"'
    assert world.statuses == {"never": f"{by}: never", "p": f"{by}: not today"}


def test_a_pod_that_is_deleted_while_it_waits_frees_its_capacity() -> None:
    books = Books()
    world = World(books, Pairs())
    world.show(a_pod("p"))
    world.step()
    world.remove("p")
    assert books.held == []
    assert world.taken("a") == 0
    assert len(world.scheduler.bindings) == 0
    assert world.step(after_s=100) == []


def test_what_has_to_be_written_is_written_before_the_binding_and_after_it() -> None:
    orders = Orders()
    world = World(orders)
    world.show(a_pod("p"))
    (prepare,) = world.step()
    assert isinstance(prepare, PreBindWrites)
    assert prepare.writes == (WRITE,)
    assert world.scheduler.prepared("uid-p", "", world.now_s) == []
    orders.is_there = True
    assert world.step(after_s=5) == []
    world.scheduler.node_applied(a_node("c"), world.now_s)
    (bind,) = world.step()
    assert isinstance(bind, Bind)
    world.answer("p", WriteResult.DONE)
    assert world.effects[0] == WRITE


@pytest.mark.parametrize("kind", ["write", "wait", "time"])
def test_a_preparation_that_fails_frees_the_capacity(kind: str) -> None:
    orders = Orders()
    world = World(orders)
    world.show(a_pod("p"))
    world.step()
    if kind == "write":
        world.effects = world.scheduler.prepared("uid-p", "no such thing", world.now_s)
    elif kind == "wait":
        orders.problem = "it will never come"
        world.effects = world.scheduler.prepared("uid-p", "", world.now_s)
    else:
        world.scheduler.prepared("uid-p", "", world.now_s)
        world.step(after_s=60)
    assert world.statuses["p"].startswith("SchedulerError: ")
    assert world.taken("a") == 0


def test_a_bind_plugin_may_write_something_of_its_own() -> None:
    courier = Courier()
    binders = {"enabled": [{"name": "Courier"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    world = World(known=[courier], profiles=[{"plugins": {"bind": binders}}])
    world.show(a_pod("parcel"), a_pod("plain"))
    world.step()
    written = {each.pod.name: each.instead for each in world.effects if isinstance(each, Bind)}
    assert written == {"parcel": WRITE, "plain": None}


def test_a_plugin_that_raises_fails_its_pod_in_its_own_name_and_is_asked_again_after_a_while() -> None:
    class Broken:
        name = "Broken"

        def reserve(self, pod: PodInfo, node_name: str, /) -> None:
            raise RuntimeError("oops")

        def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
            raise RuntimeError("oops again")

    world = World(Broken())
    world.show(a_pod("p"))
    world.step()
    assert world.statuses == {"p": 'SchedulerError: running plugin "Broken" (reserve): RuntimeError: oops'}
    assert world.taken("a") == 0
    assert world.where("p") is PodState.ERROR_BACKOFF


def bind_by(plugin: Courier) -> World:
    points = {"bind": {"enabled": [{"name": plugin.name}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}}
    return World(known=[plugin], profiles=[{"plugins": points}])


def test_a_write_of_a_bind_plugin_that_does_not_bind_is_reported_after_a_while() -> None:
    world = bind_by(Courier())
    world.show(a_pod("parcel"), a_pod("parcel-2"))
    world.step()
    assert world.binds.keys() == {"parcel", "parcel-2"}
    world.answer("parcel", WriteResult.DONE)
    world.answer("parcel-2", WriteResult.DONE)
    world.show_bound(a_pod("parcel-2"), "b")
    assert world.step(after_s=1) == []
    world.step(after_s=11)
    expected = 'Bind plugin "Courier": its write was accepted 10 s ago, and the pod is not bound to '
    assert world.statuses.keys() == {"parcel"}
    assert world.statuses["parcel"].startswith(f"SchedulerError: {expected}")
    assert [problem.startswith(f"pod default/parcel is not bound: {expected}") for problem in world.problems] == [True]


def test_a_write_of_a_plugin_that_fails_names_the_plugin() -> None:
    world = World(Orders())
    world.show(a_pod("p"))
    world.step()
    effects = world.scheduler.prepared("uid-p", "configmaps c: not found", world.now_s)
    assert isinstance(effects[0], SetStatus)
    assert effects[0].condition is not None
    assert effects[0].condition["message"] == 'running PreBind plugin "Orders": configmaps c: not found'
    world = bind_by(Courier())
    world.show(a_pod("parcel"))
    world.step()
    world.answer("parcel", WriteResult.REFUSED, "forbidden")
    assert world.statuses["parcel"].endswith('binding rejected: running Bind plugin "Courier": forbidden')
