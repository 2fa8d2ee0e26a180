"""The change of an installation between the component ``gates`` and the scheduler with queues.

Both give capacity of queues to pods, so one does not start while a replica of the other holds its Lease. In a rolling
update the new replica would wait for the old one to stop, and the old one is stopped when the new one is ready. So the
old replicas are stopped before the new Deployment is applied; until it is ready no webhook is served.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from headgate.client.installer import DelayedRequest
from headgate.client.write_requests import ACCEPT, patch
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query
from headgate.install.applying import decode
from headgate.install.names import NAME, SELECTOR
from headgate.kube.api_resources import DEPLOYMENTS, PODS

Object = dict[str, Any]

_FLAG: Final = "--components="
_ENDED: Final = ("Succeeded", "Failed")
_PAUSE_S: Final = 0.5
_PATIENCE_S: Final = 120.0


class ReplicasNotStopped(Exception):
    """The old replicas could not be stopped; the text says why and what to do."""


def stop_before_change(deployment: Object) -> Generator[DelayedRequest, HTTPResponse, str]:
    """Stops the replicas of the existing Deployment if they and those of ``deployment`` must not run at the same time.
    Returns what was done, empty for nothing. Raises :class:`ReplicasNotStopped`."""
    namespace = str(deployment["metadata"]["namespace"])
    response = yield DelayedRequest(HTTPRequest("GET", DEPLOYMENTS.object_path(namespace, NAME), "", ACCEPT))
    if not response.ok:
        return ""
    existing = decode(response)
    before, after = components_of(existing), components_of(deployment)
    if not before or ("gates" in before) == ("gates" in after) or not (existing["spec"].get("replicas") or 0):
        return ""
    request = patch(DEPLOYMENTS, namespace, NAME, existing["metadata"]["uid"], {"spec": {"replicas": 0}})
    response = yield DelayedRequest(request)
    if not response.ok:
        raise ReplicasNotStopped(f"cannot scale deployment.apps/{NAME} to 0: {message_of(response)}")
    selector = ",".join(f"{key}={value}" for key, value in SELECTOR.items())
    pods = HTTPRequest("GET", PODS.collection_path(namespace), encode_query({"labelSelector": selector}), ACCEPT)
    waited_s = 0.0
    while True:
        response = yield DelayedRequest(pods, _PAUSE_S)
        waited_s += _PAUSE_S
        if not response.ok:
            raise ReplicasNotStopped(f"cannot list the pods of namespace {namespace}: {message_of(response)}")
        running = [
            each["metadata"]["name"]
            for each in decode(response)["items"]
            if (each.get("status") or {}).get("phase") not in _ENDED
        ]
        if not running:
            return "stopped: replicas with the component gates and with the scheduler must not run at the same time"
        if waited_s > _PATIENCE_S:
            raise ReplicasNotStopped(f"pods do not end: {', '.join(running)}; delete them and run the command again")


def components_of(deployment: Object) -> frozenset[str]:
    """The components in the arguments of the container; empty if they are not there."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    found = [word for word in containers[0].get("args") or () if word.startswith(_FLAG)]
    return frozenset(found[-1].removeprefix(_FLAG).split(",")) if found else frozenset()
