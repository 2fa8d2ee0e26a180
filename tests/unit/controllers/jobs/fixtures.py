"""A job on the embedded server with the Job controller, and pods that a test ends."""

from __future__ import annotations

from itertools import count
from typing import Any

from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.jobs.controller import JobController
from headgate.kube.feature_gates import DEFAULTS, FeatureGates
from headgate.kube.timestamps import format_time
from unit.controllers.world import Object, World

JOBS_PATH = "/apis/batch/v1/namespaces/a/jobs"
PODS_PATH = "/api/v1/namespaces/a/pods"
TRACKING = "batch.kubernetes.io/job-tracking"
_NUMBERS = ("active", "succeeded", "failed", "terminating")
INDEX = "batch.kubernetes.io/job-completion-index"


class Stage:
    def __init__(self, *others: type[Controller], features: FeatureGates = DEFAULTS) -> None:
        numbers = count(1)
        self.world = World(lambda: JobController(lambda: f"{next(numbers):05d}", features), *others)
        self.server = self.world.server
        assert self.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}}).status == 201
        self.settle()

    # -- jobs ------------------------------------------------------------------------------------------------------

    def add(self, name: str = "j", /, template: Object | None = None, **spec: Any) -> Object:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}], **(template or {})}
        answer = self.server.post(JOBS_PATH, {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}})
        assert answer.status == 201, answer.body
        self.settle()
        made: Object = answer.body
        return made

    def change(self, name: str = "j", /, **spec: Any) -> None:
        answer = self.server.patch(f"{JOBS_PATH}/{name}", {"spec": spec})
        assert answer.status == 200, answer.body
        self.settle()

    def job(self, name: str = "j") -> Object:
        body: Object = self.server.get(f"{JOBS_PATH}/{name}").body
        return body

    def status(self, name: str = "j") -> Object:
        status: Object = self.job(name).get("status") or {}
        return status

    def numbers(self, name: str = "j") -> tuple[int, int, int, int]:
        """Active, succeeded, failed, terminating."""
        status = self.status(name)
        active, succeeded, failed, terminating = (status.get(each, 0) for each in _NUMBERS)
        return active, succeeded, failed, terminating

    def conditions(self, name: str = "j") -> list[tuple[str, str, str]]:
        told = self.status(name).get("conditions") or ()
        return [(each["type"], each["status"], each["reason"]) for each in told]

    def message(self, type_: str, name: str = "j") -> str:
        return next(str(each["message"]) for each in self.status(name)["conditions"] if each["type"] == type_)

    def events(self) -> list[str]:
        return [each.reason for each in self.world.emitted]

    # -- pods ------------------------------------------------------------------------------------------------------

    def pods(self) -> list[Object]:
        items: list[Object] = self.server.get(PODS_PATH).body["items"]
        return items

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.pods()]

    def live(self) -> list[str]:
        """Pods that have not ended and are not terminating."""
        return [
            each["metadata"]["name"]
            for each in self.pods()
            if "deletionTimestamp" not in each["metadata"]
            and (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def pod(self, name: str) -> Object:
        body: Object = self.server.get(f"{PODS_PATH}/{name}").body
        return body

    def index_of(self, name: str) -> int:
        return int(self.pod(name)["metadata"]["annotations"][INDEX])

    def of_index(self, index: int) -> str:
        """The living pod of an index."""
        return next(each for each in self.live() if self.index_of(each) == index)

    def set_pod(self, name: str, settle: bool = True, **status: Any) -> None:
        answer = self.server.patch(f"{PODS_PATH}/{name}/status", {"status": status})
        assert answer.status == 200, answer.body
        if settle:
            self.settle()

    def run(self, name: str) -> None:
        self.set_pod(name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    def succeed(self, *names: str) -> None:
        self._end("Succeeded", 0, names)

    def fail(self, *names: str, code: int = 1, conditions: list[Object] | None = None) -> None:
        self._end("Failed", code, names, conditions)

    def _end(self, phase: str, code: int, names: tuple[str, ...], conditions: list[Object] | None = None) -> None:
        now = format_time(self.server.epoch_s)
        ended = {"exitCode": code, "finishedAt": now, "startedAt": now}
        container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        for name in names:
            told = {"containerStatuses": [{**container, "state": {"terminated": ended}}]}
            self.set_pod(name, settle=False, phase=phase, conditions=conditions or [], **told)
        self.settle()

    def delete_pod(self, name: str, **options: Any) -> None:
        assert self.server.delete(f"{PODS_PATH}/{name}", options or None).status in (200, 202)
        self.settle()

    # -- time ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Long enough for what gathers news, too short for anything that waits on purpose."""
        self.world.advance(0.1)

    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)
