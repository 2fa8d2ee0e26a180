"""A Job under events in any order: late events, lost responses, cut watches, crashes.

A separate watch records the history of the pods. A pod whose finalizer was removed after it succeeded or failed is
counted once in the status; one whose finalizer was removed while it ran was not wanted. Never more pods run than
allowed.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from embedded import events
from headgate.controllers.framework.effects import Create, Delete, Effect, Patch, Replace
from headgate.controllers.jobs.controller import JobController
from headgate.controllers.jobs.indexes import CompletionIndexes
from headgate.controllers.jobs.job_pods import TRACKING
from headgate.controllers.pod_gc import PodGCController
from headgate.kube.api_resources import JOBS, PODS
from unit.controllers.world import Object, World

JOBS_PATH, PODS_PATH = "/apis/batch/v1/namespaces/a/jobs", "/api/v1/namespaces/a/pods"
COMPLETIONS = 4
BY_INDEX = {"completionMode": "Indexed"}
ONLY_FAILED = {"podReplacementPolicy": "Failed"}
SPECS: list[Object] = [
    {},
    BY_INDEX,
    ONLY_FAILED,
    {**BY_INDEX, "backoffLimitPerIndex": 1, "backoffLimit": None},
    {**BY_INDEX, **ONLY_FAILED, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": None},
    {"backoffLimit": 2},
]

moves = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from(("Succeeded", "Failed"))),
    st.tuples(st.just("remove"), st.integers(0, 5)),
    st.tuples(st.just("ask"), st.sampled_from(({"parallelism": 1}, {"parallelism": 3}, {"suspend": True}))),
    st.tuples(st.just("settle"), st.integers(1, 12)),
    st.tuples(st.just("lose"), st.integers(1, 4)),
    st.tuples(st.just("cut"), st.sampled_from((PODS, JOBS))),
    st.tuples(st.just("crash")),
    st.tuples(st.just("wait"), st.sampled_from((1.0, 30.0))),
)


class Play:
    def __init__(self, draw: Any, **spec: Any) -> None:
        numbers = count(1)
        self.world = World(
            lambda: JobController(lambda: f"{next(numbers):05d}"), PodGCController, kinds=("pods", "jobs")
        )
        self.server = self.world.server
        self._draw = draw
        self._losing = 0
        self.world.loses_response = self._loses
        self.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        self._watch = self.server.watch(PODS_PATH, timeoutSeconds="1000000")
        self._seen: list[tuple[str, Object]] = []
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        spec = {"parallelism": 2, "completions": COMPLETIONS, "backoffLimit": 1000, "template": template, **spec}
        assert self.server.post(JOBS_PATH, {"metadata": {"name": "j"}, "spec": spec}).status == 201

    def _loses(self, effect: Effect) -> bool:
        if not isinstance(effect, Create | Delete | Patch | Replace) or self._losing == 0:
            return False
        self._losing -= 1
        return True

    # -- moves -----------------------------------------------------------------------------------------------------

    def end(self, number: int, phase: str) -> None:
        running = self.running()
        if running:
            name = running[number % len(running)]["metadata"]["name"]
            assert self.server.patch(f"{PODS_PATH}/{name}/status", {"status": {"phase": phase}}).status == 200

    def remove(self, number: int) -> None:
        pods = self.pods()
        if pods:
            self.server.delete(f"{PODS_PATH}/{pods[number % len(pods)]['metadata']['name']}")

    def ask(self, spec: Object) -> None:
        suspended = self.job()["spec"].get("suspend", False)
        self.server.patch(f"{JOBS_PATH}/j", {"spec": {"suspend": not suspended} if "suspend" in spec else spec})

    def settle(self, steps: int) -> None:
        self.world.settle(lambda options: options[self._draw(st.integers(0, len(options) - 1))], steps)

    def lose(self, answers: int) -> None:
        self._losing = answers

    def cut(self, resource: Any) -> None:
        self.world.break_watch(resource)

    def crash(self) -> None:
        self.world.crash()

    def wait(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.check()

    # -- what there is ---------------------------------------------------------------------------------------------

    def job(self) -> Object:
        body: Object = self.server.get(f"{JOBS_PATH}/j").body
        return body

    def pods(self) -> list[Object]:
        items: list[Object] = self.server.get(PODS_PATH).body["items"]
        return items

    def running(self) -> list[Object]:
        return [
            each
            for each in self.pods()
            if "deletionTimestamp" not in each["metadata"] and each["status"]["phase"] not in ("Succeeded", "Failed")
        ]

    def look(self) -> None:
        self._seen += events(self._watch)

    def check(self) -> None:
        """When all events are delivered and all work is done, no more pods run than the job wants."""
        self.look()
        spec, status = self.job()["spec"], self.job().get("status") or {}
        assert len(self.running()) <= (0 if spec.get("suspend") else spec["parallelism"])
        assert status.get("active", 0) == len(self.running())

    def finish(self) -> None:
        self._losing = 0
        self.server.patch(f"{JOBS_PATH}/j", {"spec": {"suspend": False}})
        for _ in range(3 * COMPLETIONS):
            self.world.advance(700)
            self.check()
            self.end(0, "Succeeded")
        self.world.advance(700)
        self.look()

    def fates(self) -> list[str]:
        """The state of every pod when its finalizer was removed."""
        last: dict[str, Object] = {}
        fates: list[str] = []
        for kind, pod in self._seen:
            uid = pod["metadata"]["uid"]
            is_tracked = kind != "DELETED" and TRACKING in (pod["metadata"].get("finalizers") or ())
            if uid in last and not is_tracked:
                fates.append(_fate(last.pop(uid)))
            elif is_tracked:
                last[uid] = pod
        assert not last, "somebody is still tracked"
        return fates


def _fate(pod: Object) -> str:
    phase: str = pod["status"]["phase"]
    if phase in ("Succeeded", "Failed"):
        return phase
    return "Failed" if "deletionTimestamp" in pod["metadata"] else "unwanted"


@settings(max_examples=30)  # an example is a Job from its creation to its end on an embedded server
@given(st.data(), st.lists(moves, max_size=20), st.sampled_from(SPECS))
def test_every_finished_pod_is_counted_once(data: Any, moves: list[tuple[Any, ...]], spec: Object) -> None:
    play = Play(data.draw, **spec)
    for name, *arguments in moves:
        getattr(play, name)(*arguments)
        play.look()
    play.finish()
    status = play.job()["status"]
    fates = play.fates()
    last = [each["type"] for each in status["conditions"] if each["status"] == "True"][-1]
    done = CompletionIndexes.parse(status.get("completedIndexes", ""), COMPLETIONS)
    assert last in ("Complete", "Failed")
    assert status.get("failed", 0) == fates.count("Failed")
    assert status.get("succeeded", 0) == (len(done) if spec.get("completionMode") else fates.count("Succeeded"))
    assert last == "Failed" or status["succeeded"] >= COMPLETIONS
    assert status["uncountedTerminatedPods"] == {}
