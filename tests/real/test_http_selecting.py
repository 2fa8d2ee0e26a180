"""Label and field selectors, good and bad, on lists and on single objects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from harness.objects import CONFIG_MAPS, JOBS, NODES, PODS, SECRETS, config_map, gated, job, node, pod
from harness.request_cases import TABLE, Case, case, cases_of, events, get, open_watch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

THREE = [
    post(CONFIG_MAPS, config_map("alpha", labels={"app": "a", "tier": "front"})),
    post(CONFIG_MAPS, config_map("beta", labels={"app": "b", "tier": "front", "number": "4"})),
    post(CONFIG_MAPS, config_map("gamma", labels={"app": "c", "empty": "", "example.com/app": "a"})),
]
LABEL_SELECTORS = {
    "equality": ["app=a", "app==a", "app = a", " app=a "],
    "inequality keeps objects without the key": ["tier!=front", "tier != front"],
    "sets": ["app in (a,b)", "app notin (a)", "app in ()", "app in (a, )", "app IN (a)", "tier notin (front)"],
    "existence": ["tier", "!tier", "! tier"],
    "several requirements": ["tier=front,app in (a,z)", "tier,app", "app=a,app=b", "app=a,app!=b"],
    "an empty value": ["empty=", "empty", "app=", "empty!=", "empty in ()", "empty in (a,)"],
    "comparison": ["number>3", "number>4", "number<5", "app>1", "number > 3"],
    "nothing asked": ["", "app=none"],
    "a prefixed key": ["example.com/app=a", "example.com/app", "!example.com/app"],
    "dots, dashes and underscores": ["a.b-c_d=e.f-g_h", "app in (a.b,c_d)"],
}
BAD_LABEL_SELECTORS = [
    *("app in a", "app=a=b", "=a", "!", ",", "app,", "app in (a", "app in a)", "(a)", "a b", "app>", "app>x", "app<"),
    *("UPPER.example/x=a", "a/b/c=d", "app=under_score-", "app=ä", "-app", "app in (a,,b)", "app=" + "x" * 64),
    *(
        "app!a",
        "&",
        "app notin",
        "in in (in)",
        "app in (a) tier",
        "x" * 64 + "=a",
        "/x=a",
        "a=b,,c=d",
        "app\t=\na",
        "\x00",
    ),
]
FIELD_SELECTORS = {
    "the name": ["metadata.name=beta", "metadata.name==beta", "metadata.name!=beta", "metadata.name=none"],
    "the namespace": ["metadata.namespace={ns}", "metadata.namespace=other", "metadata.namespace!={ns}"],
    "the name and the namespace": [
        "metadata.name=beta,metadata.namespace={ns}",
        "metadata.name=beta,metadata.name=alpha",
    ],
    "an escaped character": [r"metadata.name=a\,b", r"metadata.name=a\=b", r"metadata.name=a\\b"],
    "nothing": ["", "metadata.name=", "metadata.name!="],
}
BAD_FIELD_SELECTORS = [
    *(
        "spec.foo=1",
        "metadata.labels=a",
        "metadata.uid=x",
        "data=x",
        "name=beta",
        "metadata.name",
        "=",
        "metadata.name>a",
    ),
    *("x", ",", r"metadata.name=a\b", "metadata.name=a\\", "metadata.name=a,", "metadata.name=a=b", "metadata..name=a"),
]
SOME_PODS = [
    post(PODS, pod("one", {"app": "a"}, nodeName="node-1")),
    post(PODS, pod("two", {"app": "b"}, schedulerName="headgate", restartPolicy="Never")),
    post(PODS, pod("three", {"app": "b"}, serviceAccountName="robot", hostNetwork=True)),
    post(PODS, gated("four", "example.com/hold")),
]
POD_FIELDS = [
    *("spec.nodeName=node-1", "spec.nodeName=", "spec.nodeName!=node-1", "spec.nodeName!="),
    *(
        "spec.restartPolicy=Never",
        "spec.schedulerName=headgate",
        "spec.serviceAccountName=robot",
        "spec.hostNetwork=true",
    ),
    *("spec.hostNetwork=false", "status.phase=Pending", "status.phase!=Pending", "status.podIP=", "status.podIPs="),
    *("status.nominatedNodeName=", "spec.nodeName=node-1,status.phase=Pending", "metadata.name=one", "spec.priority=0"),
    *("status.reason=x", "spec.schedulingGates=x", "metadata.namespace={ns}"),
]
OTHER_FIELDS = {
    "/api/v1/namespaces/{ns}/secrets": ["type=Opaque", "type!=Opaque"],
    "/api/v1/namespaces/{ns}/events": ["involvedObject.name=p", "reason=Odd", "source=test", "type=Warning", "odd=1"],
    "/api/v1/namespaces/{ns}/services": ["spec.clusterIP=None", "spec.type=ClusterIP", "spec.ports=1"],
    "/apis/batch/v1/namespaces/{ns}/jobs": ["status.successful=0", "status.successful=1", "status.active=1"],
    "/apis/apps/v1/namespaces/{ns}/replicasets": ["status.replicas=0", "spec.replicas=1"],
    "/apis/apps/v1/namespaces/{ns}/deployments": ["metadata.name=d", "spec.replicas=1"],
    "/api/v1/namespaces/{ns}/replicationcontrollers": ["status.replicas=0"],
    "/api/v1/nodes": ["spec.unschedulable=true", "metadata.name=none", "spec.foo=1"],
    "/api/v1/namespaces": ["status.phase=Terminating&labelSelector=none=here", "metadata.name={ns}", "spec.foo=1"],
    "/apis/scheduling.k8s.io/v1/priorityclasses": ["metadata.name=system-node-critical", "value=1"],
    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases": ["metadata.name=l", "spec.holderIdentity=x"],
    "/apis/events.k8s.io/v1/namespaces/{ns}/events": ["reason=Odd", "involvedObject.kind=Pod", "regarding.name=p"],
}


EVENTS, CORE_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events", "/api/v1/namespaces/{ns}/events"
EVENT_FIELDS = {
    EVENTS: [
        *("reportingController=example.com/a", "reportingController!=example.com/a", "regarding.name=p"),
        *("regarding.kind=Pod,reportingController=example.com/b", "regarding.namespace={ns}", "reportingComponent=x"),
        *("reason=Tested", "type=Normal", "regarding.uid=1", "metadata.name=a"),
    ],
    CORE_EVENTS: [
        *("reportingComponent=example.com/a", "source=example.com/a", "involvedObject.name=p", "reason=Tested"),
        *("reportingController=example.com/a", "involvedObject.uid=1", "involvedObject.apiVersion=v1"),
    ],
}


def an_event(name: str, controller: str, pod_name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "namespace": "{ns}", "name": pod_name},
        "reportingController": controller,
        "reportingInstance": "i",
        "action": "Test",
        "reason": "Tested",
        "type": "Normal",
    }


def listing(path: str, parameter: str, text: str) -> str:
    return f"{path}?{parameter}={quote(text, safe='{}&')}"


GOOD = [
    *(
        case(f"a label selector: {name}", *THREE, *(get(listing(CONFIG_MAPS, "labelSelector", text)) for text in texts))
        for name, texts in LABEL_SELECTORS.items()
    ),
    *(
        case(f"a field selector: {name}", *THREE, *(get(listing(CONFIG_MAPS, "fieldSelector", text)) for text in texts))
        for name, texts in FIELD_SELECTORS.items()
    ),
    case(
        "both selectors narrow the list",
        *THREE,
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name=beta&labelSelector=tier=front"),
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name=beta&labelSelector=app=a"),
        get(f"{CONFIG_MAPS}?fieldSelector=metadata.name=beta&labelSelector=app=b", TABLE),
    ),
    case(
        "selectors on a single object",
        *THREE,
        get(f"{CONFIG_MAPS}/beta?labelSelector=app=a"),
        get(f"{CONFIG_MAPS}/beta?fieldSelector=metadata.name=alpha"),
        get(f"{CONFIG_MAPS}/beta?labelSelector=((("),
    ),
    case("a selector given twice", *THREE, get(f"{CONFIG_MAPS}?labelSelector=app=a&labelSelector=app=b")),
    case(
        "selecting across namespaces",
        *THREE,
        get("/api/v1/configmaps?labelSelector=app=a&fieldSelector=metadata.namespace={ns}"),
        get("/api/v1/configmaps?fieldSelector=metadata.namespace={ns},metadata.name=gamma", TABLE),
    ),
]
BAD = [
    *(
        case(f"a bad label selector, number {number}", get(listing(CONFIG_MAPS, "labelSelector", text)))
        for number, text in enumerate(BAD_LABEL_SELECTORS)
    ),
    *(
        case(f"a bad field selector, number {number}", get(listing(CONFIG_MAPS, "fieldSelector", text)))
        for number, text in enumerate(BAD_FIELD_SELECTORS)
    ),
]
FIELDS = [
    case(
        "the fields that pods are selected by",
        *SOME_PODS,
        *(get(listing(PODS, "fieldSelector", f)) for f in POD_FIELDS),
    ),
    *(
        case(
            f"the fields of {path.rsplit('/', 1)[1]}, {path.split('/')[1]}/{path.split('/')[2]}",
            get(f"{SECRETS}?limit=1"),
            *(get(listing(path, "fieldSelector", text)) for text in texts),
        )
        for path, texts in OTHER_FIELDS.items()
    ),
    *(
        case(
            f"events selected by their fields, {path.split('/')[1]}/{path.split('/')[2]}",
            post(EVENTS, an_event("a", "example.com/a", "p")),
            post(EVENTS, an_event("b", "example.com/b", "q")),
            *(get(listing(path, "fieldSelector", text)) for text in texts),
        )
        for path, texts in EVENT_FIELDS.items()
    ),
    case(
        "events that one controller reported are watched",
        post(EVENTS, an_event("a", "example.com/a", "p")),
        open_watch("w", f"{EVENTS}?fieldSelector=reportingController%3Dexample.com/b&resourceVersion=0"),
        post(EVENTS, an_event("b", "example.com/b", "q")),
        events("w", 1),
    ),
    case(
        "nodes by being unschedulable",
        post(NODES, node("{ns}-a", {"of": "{ns}"}, spec={"unschedulable": True})),
        post(NODES, node("{ns}-b", {"of": "{ns}"})),
        get(f"{NODES}?labelSelector=of={{ns}}&fieldSelector=spec.unschedulable=true"),
        get(f"{NODES}?labelSelector=of={{ns}}&fieldSelector=spec.unschedulable=false"),
        get(f"{NODES}?labelSelector=of={{ns}}&fieldSelector=spec.unschedulable="),
    ),
    case(
        "jobs by success",
        post(JOBS, job("j")),
        get(f"{JOBS}?fieldSelector=status.successful=0"),
        get(f"{JOBS}?fieldSelector=status.successful="),
    ),
]
CASES = cases_of(GOOD, BAD, FIELDS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_selectors_choose_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
