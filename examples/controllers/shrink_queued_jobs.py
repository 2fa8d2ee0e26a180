"""A controller in one file: a Job that waits too long for quota gets smaller requests, and waits again.

A Job in one of Kueue's queues opts in with two annotations:

    example.com/shrink-after: "300"              how many seconds it may wait for quota
    example.com/shrink-to: '{"cpu": "1"}'        the requests of each of its containers after that time

When the time is over, the controller deactivates the Job with the label kueue.x-k8s.io/deactivate=true, so that it
cannot be admitted with its former requests. When its Workload is inactive, one patch sets the new requests and
kueue.x-k8s.io/activate=true. Run it beside a cluster on which Headgate runs with --feature-gates ActivationLabels=true,
and whose API server has the feature gate MutablePodResourcesForSuspendedJobs:

    python shrink_queued_jobs.py --kubeconfig .headgate/kubeconfig

The controller keeps no state that the API does not have: the annotation example.com/shrinking says that it has
deactivated the Job, and example.com/shrunk that the Job has its new requests. When it is killed at any time, the next
one continues. A Job that was admitted first keeps its requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.client.write_requests import patch
from headgate.http.transport import Transport, Unreachable
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS
from headgate.kube.object_meta import controller_of
from headgate.kube.timestamps import parse_time
from headgate.quota.kinds.names import WORKLOADS

AFTER, TO = "example.com/shrink-after", "example.com/shrink-to"
SHRINKING, SHRUNK = "example.com/shrinking", "example.com/shrunk"
ACTIVATE, DEACTIVATE = "kueue.x-k8s.io/activate", "kueue.x-k8s.io/deactivate"
RETRY_S = 5.0
Object = dict[str, Any]
Key = tuple[str, str]


# -- decisions: no I/O -------------------------------------------------------------------------------------------------


def next_step(job: Object, workload: Object | None, now_s: float) -> Object | float | None:
    """A patch of the Job, or in how many seconds to ask again, or None: an event will tell."""
    metadata = job["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if not job["spec"].get("suspend"):
        # It was admitted before it was deactivated: what it was to be given does not matter any more.
        return {"metadata": {"annotations": {SHRINKING: None}}} if SHRINKING in annotations else None
    options = options_of(annotations)
    if options is None or SHRUNK in annotations or {ACTIVATE, DEACTIVATE} & labels.keys() or workload is None:
        return None
    after_s, requests = options
    if SHRINKING in annotations:
        is_inactive = workload["spec"].get("active") is False
        return smaller(job, requests) if is_inactive else None
    if has_quota(workload):
        return None
    waited_s = now_s - seconds(metadata["creationTimestamp"])
    if waited_s < after_s:
        return after_s - waited_s
    return {"metadata": {"annotations": {SHRINKING: "true"}, "labels": {DEACTIVATE: "true"}}}


def options_of(annotations: dict[str, str]) -> tuple[float, Object] | None:
    """None if the Job did not opt in, or its annotations cannot be read."""
    try:
        after_s, requests = float(annotations[AFTER]), json.loads(annotations[TO])
    except (KeyError, ValueError):
        return None
    return (after_s, requests) if isinstance(requests, dict) else None


def smaller(job: Object, requests: Object) -> Object:
    """The requests, the end of the deactivation and the record of both in one patch: nothing happens between them."""
    containers = [
        {**each, "resources": {**(each.get("resources") or {}), "requests": {**requests_of(each), **requests}}}
        for each in job["spec"]["template"]["spec"]["containers"]
    ]
    return {
        "metadata": {"annotations": {SHRINKING: None, SHRUNK: "true"}, "labels": {ACTIVATE: "true"}},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def requests_of(container: Object) -> Object:
    found: Object = (container.get("resources") or {}).get("requests") or {}
    return found


def has_quota(workload: Object) -> bool:
    return conditions.is_true((workload.get("status") or {}).get("conditions"), "QuotaReserved")


def seconds(stamp: str) -> float:
    found = parse_time(stamp)
    return 0.0 if isinstance(found, str) else float(found)


class Jobs:
    """The Jobs and their Workloads as the API shows them. An event comes in, the Jobs to look at go out."""

    def __init__(self) -> None:
        self._jobs: dict[Key, Object] = {}
        self._workloads: dict[str, Object] = {}  # by the uid of the Job
        self._owner_uids: dict[Key, str] = {}  # by the Workload

    def get(self, key: Key) -> tuple[Object, Object | None] | None:
        job = self._jobs.get(key)
        return None if job is None else (job, self._workloads.get(job["metadata"]["uid"]))

    def job(self, event: InformerEvent) -> list[Key]:
        if isinstance(event, ObjectDeleted):
            self._jobs.pop((event.namespace, event.name), None)
        if not isinstance(event, ObjectApplied):
            return []
        key = key_of(event.object)
        self._jobs[key] = event.object
        return [key]

    def workload(self, event: InformerEvent) -> list[Key]:
        if isinstance(event, ObjectDeleted):
            self._workloads.pop(self._owner_uids.pop((event.namespace, event.name), ""), None)
        owner = controller_of(event.object) if isinstance(event, ObjectApplied) else None
        if not isinstance(event, ObjectApplied) or owner is None:
            return []
        key = key_of(event.object)
        self._owner_uids[key] = owner["uid"]
        self._workloads[owner["uid"]] = event.object
        return [(key[0], owner["name"])]


def key_of(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


# -- performing them ---------------------------------------------------------------------------------------------------


async def control(transport: Transport) -> None:
    """Follows Jobs and Workloads, and patches Jobs, until it is cancelled."""
    jobs, work = Jobs(), asyncio.Queue[Key]()
    again: dict[Key, asyncio.TimerHandle] = {}

    def follow(path: str, decide: Callable[[InformerEvent], list[Key]]) -> Informer:
        def hear(event: InformerEvent) -> None:
            for key in decide(event):
                work.put_nowait(key)

        return Informer(transport, path, hear, jitter=random.random, sleep=asyncio.sleep, report=say)

    def ask_again(key: Key, after_s: float) -> None:
        if key in again:
            again[key].cancel()
        again[key] = asyncio.get_running_loop().call_later(after_s, work.put_nowait, key)

    async def perform() -> None:
        while True:
            key = await work.get()
            found = jobs.get(key)
            step = None if found is None else next_step(*found, time.time())
            if isinstance(step, float):
                ask_again(key, step)
            elif found is not None and step is not None and not await patched(transport, found[0], step):
                ask_again(key, RETRY_S)  # no event will come of it

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(WORKLOADS.collection_path(), jobs.workload).run())
        tasks.create_task(follow(JOBS.collection_path(), jobs.job).run())
        tasks.create_task(perform())


async def patched(transport: Transport, job: Object, step: Object) -> bool:
    """Whether the patch was written. It names the version that it was decided on."""
    metadata = job["metadata"]
    version = {"metadata": {**step["metadata"], "resourceVersion": metadata["resourceVersion"]}}
    body = {**step, **version}
    request = patch(JOBS, metadata["namespace"], metadata["name"], metadata["uid"], body)
    named = f"job {metadata['namespace']}/{metadata['name']}"
    try:
        answer = await transport.request(request)
    except Unreachable as problem:
        say(f"{named}: {problem}")
        return False
    if not answer.ok:
        say(f"{named}: {answer.body.decode(errors='replace')}")
        return False
    say(f"{named}: {'smaller' if 'spec' in step else 'deactivated' if 'labels' in step['metadata'] else 'started'}")
    return True


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="the cluster [default: as kubectl finds it]")
    options = parser.parse_args()
    access = find_rest_config(options.kubeconfig)
    if isinstance(access, str):
        sys.exit(access)
    transport = HTTPTransport(access)
    try:
        say("ready")
        await control(transport)
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main())
