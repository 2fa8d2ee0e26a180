"""CronJobs on the embedded server with their controller, that of Jobs, and pods that run. The clock is the test's.

It is 22:13:20 UTC on a Tuesday in November when a test begins.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from embedded import Embedded
from headgate.controllers.cron_jobs.controller import CronJobController
from headgate.controllers.framework.reconcile import Enqueue
from headgate.controllers.jobs.controller import JobController
from headgate.kube.api_resources import APIResource
from headgate.runtime.time_zones import find_zone
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS, Kubelet
from unit.controllers.world import Object

CRONS = "/apis/batch/v1/namespaces/a/cronjobs"
PATH = "/apis/batch/v1/namespaces/a/jobs"
MINUTE_S = 60.0


class Stage:
    def __init__(self) -> None:
        self.server = Embedded(namespace="")
        assert self.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}}).status == 201
        numbers = count(1)
        self.world = CrashingWorld(
            lambda: CronJobController(find_zone),
            lambda: JobController(lambda: f"{next(numbers):05d}"),
            lambda: Kubelet(self.server),
            server=self.server,
        )

    # -- acting ----------------------------------------------------------------------------------------------------

    def add(self, name: str = "c", /, ends: str | None = None, job: Object | None = None, **spec: Any) -> Object:
        annotations = {} if ends is None else {ENDS: ends}
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        template = {"metadata": {"annotations": annotations}, "spec": pod}
        jobs = {"spec": {"template": template, "backoffLimit": 0}, **(job or {})}
        body = {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": jobs, **spec}}
        answer = self.server.post(CRONS, body)
        assert answer.status == 201, answer.body
        self.world.advance(0)
        made: Object = answer.body
        return made

    def change(self, name: str = "c", /, **spec: Any) -> None:
        answer = self.server.patch(f"{CRONS}/{name}", {"spec": spec})
        assert answer.status == 200, answer.body
        self.world.advance(0)

    def last_started(self, at: str, name: str = "c") -> None:
        """As if the last Job had been started then."""
        answer = self.server.patch(f"{CRONS}/{name}/status", {"status": {"lastScheduleTime": at}})
        assert answer.status == 200, answer.body
        self.world.advance(0)

    def pass_minutes(self, minutes: int) -> None:
        self.world.advance(minutes * MINUTE_S)

    def look_deaf_to(self, resource: APIResource) -> None:
        """Work on the CronJob while watches of a resource are late."""
        self.world.enqueue(self.world.controllers[0], [Enqueue(("a", "c"))])
        self.world.settle(delayed=(resource,))

    def delete_job(self, name: str) -> None:
        assert self.server.delete(f"{PATH}/{name}", {"propagationPolicy": "Background"}).status == 200
        self.world.advance(1)

    # -- seeing ----------------------------------------------------------------------------------------------------

    def status(self, name: str = "c") -> Object:
        status: Object = self.server.get(f"{CRONS}/{name}").body.get("status") or {}
        return status

    def active(self, name: str = "c") -> list[str]:
        return [each["name"] for each in self.status(name).get("active") or ()]

    def jobs(self) -> list[Object]:
        items: list[Object] = self.server.get(PATH).body["items"]
        return items

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.jobs()]

    def events(self) -> list[str]:
        return [each.reason for each in self.world.emitted if each.component == "cronjob-controller"]

    def said(self, reason: str) -> str:
        return next(each.message for each in self.world.emitted if each.reason == reason)
