"""kubectl sessions that read objects, and typical mistakes of beginners."""

from __future__ import annotations

import re

from harness.kubectl_session import Scripted, k
from harness.manifests import KINDS
from harness.objects import config_map, gated, labelled, pod
from harness.served_groups import SERVED_VERSIONS


def served_rows(output: str) -> str:
    """Of a listing of API resources or versions, the rows of the groups that both serve."""
    return "\n".join(line for line in output.splitlines() if any(word in SERVED_VERSIONS for word in line.split()))


def fields_and_types(output: str) -> str:
    """Of an explanation, the names and types: the sentences between are prose."""
    kept = [
        line for line in output.splitlines() if re.match(r"\s*(\w+\s+<|(KIND|VERSION|GROUP|FIELD|RESOURCE):)", line)
    ]
    return "\n".join(line.rstrip() for line in kept)


def without_years(output: str) -> str:
    """Events of a fixed date long ago have an age that grows."""
    return re.sub(r"\d+y\d*d?", "<years>", output)


def without_build(output: str) -> str:
    return re.sub(r'"(goVersion|buildDate|gitCommit|gitTreeState|compiler|platform)": .*', "", output)


THREE_PODS = [
    labelled(pod("one", nodeName="node-1"), app="a", tier="front"),
    labelled(pod("two"), app="b"),
    labelled(gated("three", "example.com/hold", "second"), app="b"),
]
# kubectl prints limits in the order of a Go map, and the age of old events grows.
DESCRIBED = [kind for kind in KINDS if kind.namespaced and kind.kind not in ("LimitRange", "Event")]


READING: dict[str, list[Scripted]] = {
    "looking around": [
        k("version"),
        k("version -o json", only=without_build),
        k("api-versions", only=served_rows),
        k("api-resources --no-headers", only=served_rows),
        k("api-resources -o wide --no-headers --sort-by=name", only=served_rows),
        k("api-resources --namespaced=false --no-headers", only=served_rows),
        k("api-resources --api-group=apps -o name"),
        k("api-resources --verbs=list,get --api-group=batch"),
        k("cluster-info"),
        k("get namespace {ns}"),
        k("get --raw /healthz"),
        k("get --raw /api/v1/namespaces/{ns}/pods"),
        k("get pods"),
        k("get all"),
        k("get events"),
    ],
    "reading pods": [
        k("create -f -", THREE_PODS),
        k("get pods"),
        k("get pods -o wide"),
        k("get pods --show-labels"),
        k("get pods -L app,tier"),
        k("get pods -l app=b"),
        k("get pods -l 'app in (a,z),tier'"),
        k("get pods --field-selector spec.nodeName=node-1"),
        k("get pods --field-selector status.phase!=Pending"),
        k("get pods -o name"),
        k("get pods -o json"),
        k("get pods -o yaml"),
        k("get pod three -o yaml --show-managed-fields"),
        k('get pods -o jsonpath=\'{range .items[*]}{.metadata.name}{" "}{.spec.schedulingGates[*].name}{"\\n"}{end}\''),
        k("get pods -o custom-columns=NAME:.metadata.name,GATES:.spec.schedulingGates[*].name,NODE:.spec.nodeName"),
        k("get pods -o go-template='{{range .items}}{{.metadata.name}} {{.status.phase}}{{\"\\n\"}}{{end}}'"),
        k("get pods --sort-by=.metadata.name"),
        k("get pods --sort-by=.spec.nodeName"),
        k("get pods --no-headers"),
        k("get pods --chunk-size=1"),
        k("get pods -A -l app=b --field-selector metadata.namespace={ns}"),
        k("get pod two"),
        k("get pod/two pod/three"),
        k("get pod two three -o wide"),
        k("get po,cm,svc"),
        k("get pods two -o jsonpath-as-json='{.spec}'"),
        k("get pods --server-print=false"),
        k("get pods --subresource=status two -o json"),
        k("describe pod one"),
        k("describe pod two"),
        k("describe pod three"),
        k("describe pods -l app=b"),
    ],
    "explaining": [
        *(
            k(f"explain {what}", only=fields_and_types)
            for what in (
                "pod",
                "pod.spec",
                "pod.spec.schedulingGates",
                "pod.spec.schedulingGates.name",
                "pod.spec.containers.resources",
                "deployment.spec.strategy",
                "job.spec",
                "cronjob.spec.jobTemplate",
                "node.status",
                "service.spec.ports",
                "priorityclass",
                "configmap.data",
                "pod.metadata.ownerReferences",
                "hpa.spec",
            )
        ),
        k("explain pods --recursive", only=fields_and_types),
        k("explain job.spec.template --recursive", only=fields_and_types),
        k("explain hpa --api-version=autoscaling/v1", only=fields_and_types),
    ],
    "describing kinds of the namespace": [
        *(
            k(
                "create -f -",
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    **kind.rich,
                    "metadata": {
                        **kind.rich["metadata"],
                        "name": f"n-{kind.resource}-{kind.api_version.rpartition('/')[2]}",
                    },
                },
            )
            for kind in DESCRIBED
        ),
        *(k(f"get {kind.resource}.{kind.api_version.rpartition('/')[2]}.{kind.group}") for kind in DESCRIBED),
        *(k(f"describe {kind.resource}.{kind.api_version.rpartition('/')[2]}.{kind.group}") for kind in DESCRIBED),
        k("describe namespace {ns}"),
        k("get all"),
    ],
    "events": [
        k("create -f -", pod("p")),
        k(
            "create -f -",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "e1"},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "{ns}", "name": "p"},
                "reason": "Odd",
                "message": "something odd happened",
                "type": "Warning",
                "source": {"component": "test"},
                "firstTimestamp": "2020-01-01T00:00:00Z",
                "lastTimestamp": "2020-01-01T00:00:00Z",
                "count": 2,
            },
        ),
        k(
            "create -f -",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "e2"},
                "eventTime": "2020-01-01T00:00:00.000000Z",
                "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "{ns}", "name": "p"},
                "reason": "Scheduled",
                "note": "placed",
                "type": "Normal",
                "action": "Binding",
                "reportingController": "example.com/s",
                "reportingInstance": "i",
            },
        ),
        k("get events", only=without_years),
        k("get events -o wide", only=without_years),
        k("get events.v1.events.k8s.io", only=without_years),
        k("events", only=without_years),
        k("events --for pod/p --types=Warning", only=without_years),
        k("events --for pod/none"),
        k("describe pod p", only=without_years),
    ],
    "what a beginner gets wrong": [
        k("get odd"),
        k("get pod nope"),
        k("get pods nope nada"),
        k("get pods -n nope"),
        k("get pods -l '((('"),
        k("get pods --field-selector spec.odd=1"),
        k("get pods -o odd"),
        k("get pods -o jsonpath='{.items['"),
        k("get pods --sort-by=.odd"),
        k("get nodes.apps"),
        k("get deployment.v9.apps"),
        k("describe pod nope"),
        k("describe odd nope"),
        k("create -f -", "kind: Pod\n"),
        k("create -f -", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"),
        k("create -f -", "apiVersion: v1\nkind: Odd\nmetadata: {name: x}\n"),
        k("create -f -", "apiVersion: odd.example/v1\nkind: Pod\nmetadata: {name: x}\n"),
        k("create -f -", "not: [yaml"),
        k("create -f -", ""),
        k("create -f -", {**pod("x"), "spec": {**pod("x")["spec"], "schedulinggates": []}}),
        k("create -f - --validate=warn", {**config_map("warned"), "odd": 1}),
        k("create -f - --validate=ignore", {**config_map("ignored"), "odd": 1}),
        k("create -f - --validate=false", {**config_map("unchecked"), "odd": 1}),
        k("create -f -", {**pod("UPPER")}),
        k("create -f -", pod("x", containers=[{"name": "c"}])),
        k("create -f -", pod("x", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "lots"}}}])),
        k("create -f -", pod("x", priorityClassName="none")),
        k("create -f -", {**config_map("x"), "metadata": {"name": "x", "namespace": "nope"}}),
        k("create -f -", config_map("twice")),
        k("create -f -", config_map("twice")),
        k("apply -f - --server-side --field-manager=''", config_map("x")),
        k("patch configmap twice --type=json -p '{'"),
        k("patch configmap twice --type=odd -p '{}'"),
        k("patch configmap nope -p '{}'"),
        k("scale deployment nope --replicas=1"),
        k("set image deployment/nope a=b"),
        k("label configmap nope a=b"),
        k("rollout status deployment nope --timeout=1s"),
        k("edit configmap nope"),
        k("explain odd"),
        k("explain pod.spec.odd"),
        k("logs nope"),
        k("wait odd/x --for=delete"),
        k("get --raw /odd"),
        k("get --raw /api/v1/namespaces/{ns}/pods/nope"),
        k("get pods --odd-flag"),
    ],
}
