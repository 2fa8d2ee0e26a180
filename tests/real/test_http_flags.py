"""What flags of the server change: privileged containers, and how long events stay."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CORE, DEPLOYMENTS, PODS, deployment, pod
from harness.request_cases import Case, case, cases_of, events, get, open_watch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

EVENTS = f"{CORE}/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"


def privileged(name: str, **context: Any) -> Any:
    return pod(name, containers=[{"name": "c", "image": "i", "securityContext": {"privileged": True, **context}}])


def event(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "finalizers": ["example.com/hold"]},
        "involvedObject": {"kind": "Pod", "namespace": "{ns}", "name": "p"},
        "reason": "Tested",
        "type": "Normal",
    }


def new_event(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "namespace": "{ns}", "name": "p"},
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Test",
        "reason": "Tested",
        "type": "Normal",
    }


LABELLED = {"metadata": {"labels": {"app": "a"}}}
HOST_PROCESS = {"windowsOptions": {"hostProcess": True, "runAsUserName": "u"}}
PRIVILEGED = [
    case(
        "privileged containers",
        post(PODS, privileged("a")),
        post(PODS, privileged("b", allowPrivilegeEscalation=False)),
        post(
            DEPLOYMENTS,
            deployment("d", template={"metadata": {"labels": {"app": "a"}}, "spec": privileged("x")["spec"]}),
        ),
        post(
            PODS,
            pod("w", hostNetwork=True, os={"name": "windows"}, securityContext=HOST_PROCESS),
        ),
        get(f"{PODS}/a"),
    ),
]
EXPIRY = [
    case(
        "an event goes when its time is up, finalizers or not",
        open_watch("old", EVENTS),
        open_watch("new", NEW_EVENTS),
        post(EVENTS, event("a")),
        events("old", 2),
        events("new", 2),
        get(f"{EVENTS}/a"),
    ),
    case(
        "an event of the new kind goes as well",
        open_watch("new", NEW_EVENTS),
        post(NEW_EVENTS, new_event("b")),
        events("new", 2),
        get(f"{NEW_EVENTS}/b"),
    ),
]
CASES = cases_of(PRIVILEGED, EXPIRY)


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.name)
def test_flags_change_the_same(governed: ServerPair, scenario: Case) -> None:
    governed.compare(scenario)
