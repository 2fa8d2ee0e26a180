"""Every transition of the table is made by the queue and the binding cycle, and by nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tools import pod_lifecycle as page

from headgate import capacity
from headgate.capacity.conf import DEFAULTS as QUEUE_SETTINGS
from headgate.kube.api_resources import CONFIG_MAPS
from headgate.scheduling import binding_cycle
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework import cluster_events
from headgate.scheduling.framework.cluster_events import NODE, ClusterEvent
from headgate.scheduling.framework.effects import Bind, EmitPodEvent, ObjectPatch, PreBindWrites, SetStatus, WriteResult
from headgate.scheduling.framework.interface import PermitWait, PreBindPending, Rejection
from headgate.scheduling.pod_lifecycle import (
    BACKING_OFF,
    IN_FLIGHT,
    MEANINGS,
    QUEUED,
    TRANSITIONS,
    Guard,
    InvalidTransition,
    PodEvent,
    PodState,
    next_state,
)
from headgate.scheduling.queue import scheduling_queue
from headgate.scheduling.queue.backoff_queue import PodBackoff
from headgate.scheduling.queue.scheduling_queue import DEFAULTS, QueueSettings
from unit.scheduling.world import World, a_node, a_pod

Step = tuple[PodState | None, PodEvent, Guard]
WRITE = ObjectPatch(CONFIG_MAPS, "default", "c", "uid-c", {"data": {}})
NODE_ADDED = cluster_events.on(NODE, cluster_events.ADD)
POD = "uid-p"


class Script:
    """A plugin at all points of an attempt that answers as the test says."""

    name = "Script"
    timeout_s = 1000.0

    def __init__(self) -> None:
        self.gate: Rejection | None = None
        self.reserving: Callable[[], Rejection | None] = lambda: None
        self.waits_on_permit = False
        self.releases: dict[str, Rejection | None] = {}
        self.writes: list[ObjectPatch] = []
        self.is_pending = False
        self.problem = ""
        self.bind_rejection: Rejection | None = None

    def pre_enqueue(self, pod: Any, /) -> Rejection | None:
        return self.gate

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        return self.reserving()

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        pass

    def permit(self, pod: PodInfo, node_name: str, /) -> Rejection | PermitWait | None:
        return PermitWait(1000.0) if self.waits_on_permit else None

    def released(self) -> Mapping[str, Rejection | None]:
        found, self.releases = self.releases, {}
        return found

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch] | Rejection:
        return self.writes

    def awaited(self, pod: PodInfo, node_name: str, /) -> PreBindPending | str | None:
        return self.problem or (PreBindPending(NODE_ADDED) if self.is_pending else None)

    def bind(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        return self.bind_rejection

    def post_bind(self, pod: PodInfo, node_name: str, /) -> Sequence[ObjectPatch]:
        return [WRITE]


class Walk:
    """A pod that is brought to a state and then meets an event."""

    def __init__(self, settings: QueueSettings = DEFAULTS) -> None:
        self.script = Script()
        self.world = World(self.script, nodes=[a_node("a")])
        self.queue = self.world.scheduler.queue
        # Of settings that no configuration has: they exist for the queue alone.
        self.queue._settings = settings
        self.queue._pod_backoff = PodBackoff(settings.initial_backoff_s, settings.max_backoff_s)

    @property
    def state(self) -> PodState | None:
        return self.world.where("p")

    def go(self, state: PodState) -> None:
        {
            PodState.GATED: self._to_gated,
            PodState.ACTIVE: self._to_active,
            PodState.BACKOFF: self._to_backoff,
            PodState.ERROR_BACKOFF: self._to_error_backoff,
            PodState.UNSCHEDULABLE: self._to_unschedulable,
            PodState.SCHEDULING: self._to_scheduling,
            PodState.PERMIT: self._to_permit,
            PodState.PRE_BIND_WRITES: self._to_pre_bind_writes,
            PodState.PRE_BIND_WAIT: self._to_pre_bind_wait,
            PodState.BIND: self._to_bind,
            PodState.BIND_RETRY: self._to_bind_retry,
        }[state]()
        assert self.state is state

    def _to_active(self) -> None:
        self.world.show(a_pod("p"))

    def _to_gated(self) -> None:
        self.script.gate = Rejection("Script", "not yet", NODE_ADDED)
        self._to_active()
        self.script.gate = None

    def _to_scheduling(self) -> None:
        self._to_active()
        assert self.queue.pop(self.world.now_s) is not None

    def _fails(self, *rejections: Rejection) -> None:
        queued = self.queue.get(POD)
        assert queued is not None
        self.queue.fail(queued, rejections, self.world.now_s)

    def _to_unschedulable(self) -> None:
        self._to_scheduling()
        self._fails(Rejection("Script", "no", NODE_ADDED))

    def _to_backoff(self) -> None:
        self._to_unschedulable()
        self.queue.event(ClusterEvent(NODE, cluster_events.ADD), self.world.now_s)

    def _to_error_backoff(self) -> None:
        self._to_scheduling()
        self._fails()

    def _steps(self) -> None:
        self._to_active()
        self.world.step()

    def _to_permit(self) -> None:
        self.script.waits_on_permit = True
        self._steps()

    def _to_pre_bind_writes(self) -> None:
        self.script.writes = [WRITE]
        self._steps()

    def _to_pre_bind_wait(self) -> None:
        self.script.is_pending = True
        self._steps()

    def _to_bind(self) -> None:
        self._steps()

    def _to_bind_retry(self) -> None:
        self._to_bind()
        self.world.answer("p", WriteResult.UNKNOWN)

    def permits(self) -> None:
        """The Permit plugin releases the pod; plugins are asked when another pod comes."""
        self.script.releases = {POD: None}
        self.script.waits_on_permit = False
        self.world.show(a_pod("other"))
        self.world.step()

    def add_node(self) -> None:
        self.world.scheduler.node_applied(a_node("b"), self.world.now_s)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[Step]:
    """The entries of the table that were used."""
    found: set[Step] = set()

    def recorded(state: PodState | None, event: PodEvent, guard: Guard = Guard.ALWAYS) -> PodState | None:
        found.add((state, event, guard))
        return next_state(state, event, guard)

    monkeypatch.setattr(scheduling_queue, "next_state", recorded)
    monkeypatch.setattr(binding_cycle, "next_state", recorded)
    return found


def entries(*events: PodEvent) -> list[tuple[Step, PodState | None]]:
    return [
        ((source, row.event, row.guard), row.target)
        for row in TRANSITIONS
        if row.event in events
        for source in (None, *PodState)
        if source in row.sources
    ]


def each_entry(*events: PodEvent) -> pytest.MarkDecorator:
    found = [
        pytest.param(step, target, id=f"{step[0] or 'new'}-{step[1].name.lower()}-{step[2].name.lower()}")
        for step, target in entries(*events)
    ]
    return pytest.mark.parametrize(("step", "target"), found)


WALKED_IN_QUEUE = (PodEvent.ADDED, PodEvent.WOKEN, PodEvent.ACTIVATED, PodEvent.BACKOFF_OVER, PodEvent.DELETED)
POPPED = (PodEvent.POPPED, PodEvent.TAKEN, PodEvent.HELD)
ENDINGS = (PodEvent.REJECTED, PodEvent.FAILED, PodEvent.ENDED)
BINDING = (
    *(PodEvent.PERMIT_WAITS, PodEvent.WRITES, PodEvent.WAITS, PodEvent.PREPARED),
    *(PodEvent.OUTCOME_UNKNOWN, PodEvent.RETRIED),
)


def test_all_events_are_walked_below() -> None:
    assert {*WALKED_IN_QUEUE, *POPPED, *ENDINGS, *BINDING} == set(PodEvent)


@each_entry(*WALKED_IN_QUEUE)
def test_an_event_moves_a_pod_in_the_queue(step: Step, target: PodState | None, taken: set[Step]) -> None:
    state, event, guard = step
    # If pods are not popped from backoff, PreEnqueue plugins run when the back-off is over.
    walk = Walk(QueueSettings(pop_from_backoff=state not in BACKING_OFF or guard is Guard.READY))
    if state is not None:
        walk.go(state)
    if guard is Guard.PRE_ENQUEUE_REJECTS:
        walk.script.gate = Rejection("Script", "not any more", NODE_ADDED)
    queued = walk.queue.get(POD)
    if guard is Guard.BACKOFF_LASTS and queued is not None:
        queued.unschedulable_count, queued.backoff_until_s = 5, None
    match event:
        case PodEvent.ADDED:
            walk.world.show(a_pod("p"))
        case PodEvent.WOKEN if guard is Guard.READY:
            walk.queue.event(ClusterEvent(NODE, cluster_events.ADD), walk.world.now_s + 100.0)
        case PodEvent.WOKEN:
            walk.queue.event(ClusterEvent(NODE, cluster_events.ADD), walk.world.now_s)
        case PodEvent.ACTIVATED:
            walk.queue.activate([POD], walk.world.now_s)
        case PodEvent.BACKOFF_OVER:
            walk.queue.requeue_due(walk.world.now_s + 100.0)
        case _:
            walk.world.remove("p")
    assert step in taken
    assert walk.state is target


@each_entry(*POPPED)
def test_a_pod_is_popped_or_taken_with_its_group(step: Step, target: PodState | None, taken: set[Step]) -> None:
    state, event, _ = step
    assert state is not None
    walk = Walk()
    walk.go(state)
    if event is PodEvent.POPPED:
        assert walk.queue.pop(walk.world.now_s) is not None
    elif event is PodEvent.TAKEN:
        assert walk.queue.take(POD) is not None
    else:
        queued = walk.queue.get(POD)
        assert queued is not None
        walk.queue.hold(queued, Rejection("Script", "withdrawn", NODE_ADDED), walk.world.now_s)
    assert step in taken
    assert walk.state is target


@each_entry(*BINDING)
def test_a_pod_continues_in_its_binding_cycle(step: Step, target: PodState | None, taken: set[Step]) -> None:
    state, event, _ = step
    walk = Walk()
    script = walk.script
    if state is not None and state is not PodState.SCHEDULING:
        walk.go(state)
    script.waits_on_permit = event is PodEvent.PERMIT_WAITS
    script.writes = [WRITE] if event is PodEvent.WRITES else []
    script.is_pending = event is PodEvent.WAITS
    match state:
        case PodState.SCHEDULING:
            walk._to_active()
            walk.world.step()
        case PodState.PERMIT:
            walk.permits()
        case PodState.PRE_BIND_WRITES:
            if event is PodEvent.WRITES:  # of a second plugin
                cycle = walk.world.scheduler.bindings.get(POD)
                assert cycle is not None
                cycle.writes.append(("Second", (WRITE,)))
            walk.world.effects = walk.world.scheduler.prepared(POD, "", walk.world.now_s)
        case PodState.PRE_BIND_WAIT:
            walk.add_node()
            walk.world.step()
        case PodState.BIND:
            walk.world.answer("p", WriteResult.UNKNOWN)
        case _:
            walk.world.step(after_s=20.0)
    assert step in taken
    assert walk.state is target
    effects = {
        type(each) for each in walk.world.effects if isinstance(each, Bind | PreBindWrites) and each.pod.uid == POD
    }
    assert effects == {
        PodState.BIND: {Bind},
        PodState.PRE_BIND_WRITES: {PreBindWrites},
    }.get(target or PodState.GATED, set())


@each_entry(*ENDINGS)
def test_an_attempt_ends(step: Step, target: PodState | None, taken: set[Step]) -> None:
    state, event, guard = step
    assert state is not None
    has_backoff = event is not PodEvent.FAILED or guard is not Guard.READY
    walk = Walk(QueueSettings(max_backoff_s=10.0 if has_backoff else 0.0))
    walk.go(state)
    queued = walk.queue.get(POD)
    assert queued is not None
    if guard is Guard.PRE_ENQUEUE_REJECTS:
        walk.script.gate = Rejection("Script", "not any more", NODE_ADDED)
    if event is PodEvent.ENDED:
        walk.queue.done(queued)
    elif event is PodEvent.FAILED:
        walk.queue.fail(queued, (), walk.world.now_s)
    else:
        if guard is not Guard.NOTHING_HELPS:
            walk.queue.event(ClusterEvent(NODE, cluster_events.ADD), walk.world.now_s)
        rejection = Rejection("Script", "no", NODE_ADDED, pending=guard is Guard.READY)
        walk.queue.fail(queued, (rejection,), walk.world.now_s)
    assert step in taken
    assert walk.state is target


def test_a_rejected_pod_gets_a_condition_and_an_event() -> None:
    walk = Walk()
    walk.script.reserving = lambda: Rejection("Script", "no", NODE_ADDED)
    walk._to_active()
    assert {type(each) for each in walk.world.step()} == {SetStatus, EmitPodEvent}
    assert walk.state is PodState.UNSCHEDULABLE


def test_a_bound_pod_gets_an_event_and_the_writes_of_post_bind() -> None:
    walk = Walk()
    walk.go(PodState.BIND)
    assert {type(each) for each in walk.world.answer("p", WriteResult.DONE)} == {EmitPodEvent, ObjectPatch}
    assert walk.state is None


def test_a_transition_that_the_table_does_not_have_is_an_error() -> None:
    has = {step for step, _ in entries(*PodEvent)}
    for state, event, guard in product((None, *PodState), PodEvent, Guard):
        if (state, event, guard) not in has:
            with pytest.raises(InvalidTransition):
                next_state(state, event, guard)
    with pytest.raises(InvalidTransition, match="a pod that is gated: the pod is popped"):
        next_state(PodState.GATED, PodEvent.POPPED)


def test_every_table_entry_is_unique_and_every_state_is_explained_and_can_be_left() -> None:
    steps = [step for step, _ in entries(*PodEvent)]
    assert len(steps) == len(set(steps))
    assert set(MEANINGS) == set(PodState) == QUEUED | IN_FLIGHT
    assert {state for state, _, _ in steps} == {None, *PodState}


def test_the_page_shows_the_table() -> None:
    text = page.PAGE.read_text()
    assert f"{page.BEGIN}\n{page.rendered()}\n{page.END}" in text, "run: python tools/pod_lifecycle.py"


def calls_of_capacity(work: Callable[[], None]) -> set[str]:
    folder = str(Path(capacity.__file__).parent)
    called: set[str] = set()

    def observe(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            called.add(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")

    sys.setprofile(observe)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("has_queues", [False, True])
def test_only_pods_of_queues_run_code_of_capacity(has_queues: bool) -> None:
    world = World(nodes=[a_node("a")], queues=QUEUE_SETTINGS if has_queues else None)

    def live() -> None:
        world.show(a_pod("p"), a_pod("q", cpu="100"))
        world.step()
        world.answer("p", WriteResult.DONE)
        world.show_bound(a_pod("p"), "a")
        world.step(after_s=20.0)
        world.remove("q")
        world.remove("p")
        world.step(after_s=20.0)
        world.scheduler.next_deadline_s()

    assert bool(calls_of_capacity(live)) is has_queues
