"""kubectl v1.35.8 against both servers: the same commands, the same exit codes, the same words.

Each chapter is a session in a namespace of its own. Commands that send protobuf bodies (`create namespace`, `auth
can-i` and the like) are not here: the embedded server speaks JSON.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.both import Both, namespace_of
from harness.manifests import KINDS
from harness.objects import binding, config_map, deployment, gated, job, node, pod, service
from harness.served import SERVED_VERSIONS
from harness.session import Scripted, Watching, agree, k

pytestmark = pytest.mark.real


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


def labelled(manifest: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


def gate(*names: str) -> str:
    return "[" + ",".join(f'{{"name":"{name}"}}' for name in names) + "]"


THREE_PODS = [
    labelled(pod("one", nodeName="node-1"), app="a", tier="front"),
    labelled(pod("two"), app="b"),
    labelled(gated("three", "example.com/hold", "second"), app="b"),
]
APPLIED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1", "b": "2"}}
CHANGED = {**APPLIED, "data": {"a": "1", "c": "3"}}
DESCRIBED = [kind for kind in KINDS if kind.kind not in ("ServiceCIDR",)]

CHAPTERS: dict[str, list[Scripted]] = {
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
    "gates in every form": [
        k(
            "create -f -",
            [gated(name, "example.com/hold", "second") for name in ("one", "two", "three", "four", "five", "six")],
        ),
        k("get pods"),
        k('patch pod one --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates/0"}]\''),
        k('patch pod one --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates"}]\''),
        k('patch pod one --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates"}]\''),
        k(f'patch pod two --type=merge -p \'{{"spec":{{"schedulingGates":{gate("second")}}}}}\''),
        k('patch pod two --type=merge -p \'{"spec":{"schedulingGates":null}}\''),
        k('patch pod three -p \'{"spec":{"schedulingGates":[{"$patch":"delete","name":"second"}]}}\''),
        k('patch pod three -p \'{"spec":{"schedulingGates":[{"name":"new"}]}}\''),
        k('patch pod three -p \'{"spec":{"nodeName":"n"}}\''),
        k('patch pod three -p \'{"spec":{"nodeSelector":{"disk":"ssd"}}}\''),
        k('patch pod three -p \'{"spec":{"nodeSelector":{"disk":"hdd"}}}\''),
        k("edit pod four", editor="sed -i '/name: second/d'"),
        k("edit pod four", editor="sed -i 's/schedulerName: default-scheduler/schedulerName: other/'"),
        k("edit pod four", editor="true"),
        k("apply -f -", gated("seven", "example.com/hold")),
        k("apply -f -", pod("seven")),
        k("apply --server-side -f -", gated("eight", "example.com/hold")),
        k("apply --server-side -f -", pod("eight")),
        k("replace -f -", gated("five", "second")),
        k("create -f -", gated("bad", "")),
        k("create -f -", gated("bad", "a/b/c")),
        k("create -f -", gated("bad", "x", "x")),
        k("create -f -", gated("bad", "x", nodeName="n")),
        k("create --raw /api/v1/namespaces/{ns}/pods/six/binding -f -", binding("six")),
        k("create --raw /api/v1/namespaces/{ns}/pods/one/binding -f -", binding("one")),
        k("get pods -o wide"),
        k("get pod six -o jsonpath='{.status.conditions[0].reason}: {.status.conditions[0].message}'"),
        k("describe pod six"),
        k("set image pod/six main=other:2"),
        k("label pod six a=b"),
        k("delete pod six"),
        k("get pods"),
    ],
    "applying": [
        k("apply -f -", APPLIED),
        k("apply -f -", APPLIED),
        k("diff -f -", CHANGED),
        k("apply -f - --dry-run=server", CHANGED),
        k("apply -f - --dry-run=client", CHANGED),
        k("apply -f -", CHANGED),
        k("get configmap applied -o yaml"),
        k("apply view-last-applied configmap applied"),
        k("apply -f - --server-side", {**APPLIED, "metadata": {"name": "server"}}),
        k("apply -f - --server-side", {**APPLIED, "metadata": {"name": "server"}}),
        k(
            "apply -f - --server-side --field-manager=other",
            {**CHANGED, "metadata": {"name": "server"}, "data": {"a": "9"}},
        ),
        k(
            "apply -f - --server-side --field-manager=other --force-conflicts",
            {**CHANGED, "metadata": {"name": "server"}, "data": {"a": "9"}},
        ),
        k("apply -f - --server-side --dry-run=server", {**APPLIED, "metadata": {"name": "server"}}),
        k("diff -f - --server-side", {**APPLIED, "metadata": {"name": "server"}, "data": {"z": "1"}}),
        k("get configmap server -o yaml --show-managed-fields"),
        k("apply -f -", config_map("plain")),
        k("create -f -", config_map("made")),
        k("apply -f -", config_map("made", {"k": "other"})),
        k("apply -f -", [config_map("first"), config_map("second")]),
        k("apply -f - -l app=none", config_map("unselected")),
        k("apply -f - --prune -l app=a", labelled(config_map("kept"), app="a")),
        k("apply -f -", deployment("d", replicas=2)),
        k("apply -f -", deployment("d", replicas=3)),
        k("apply -f -", deployment("d", selector={"matchLabels": {"app": "b"}})),
        k("get deployment d -o json"),
        k("diff -f -", deployment("d", replicas=5)),
        k("apply -f - -o name", config_map("named")),
        k("apply -f - -o yaml", config_map("named", {"k": "2"})),
        k("replace -f -", config_map("named", {"k": "3"})),
        k("replace -f -", config_map("missing")),
        k("replace --force -f -", config_map("named", {"k": "4"})),
        k("create -f - --save-config", config_map("saved")),
        k("apply set-last-applied -f -", config_map("saved", {"x": "y"})),
        k("apply edit-last-applied configmap saved", editor="sed -i 's/x: y/x: z/'"),
    ],
    "changing things": [
        k(
            "apply -f -",
            [deployment("d", replicas=1), config_map("c"), service("s", clusterIP="None"), job("j", suspend=True)],
        ),
        k("label configmap c app=x tier=front"),
        k("label configmap c app=y"),
        k("label configmap c app=y --overwrite"),
        k("label configmap c app- none-"),
        k("label configmap --all all=yes"),
        k("label configmap c --list"),
        k("label configmap c 'bad key=1'"),
        k("annotate configmap c note=hello"),
        k("annotate configmap c note=again"),
        k("annotate configmap c note=again --overwrite"),
        k("annotate configmap c note-"),
        k("set image deployment/d main=new:1"),
        k("set image deployment/d none=new:1"),
        k("set env deployment/d A=1 B=2"),
        k("set env deployment/d B-"),
        k("set env deployment/d --list"),
        k("set resources deployment d --limits=cpu=200m,memory=512Mi --requests=cpu=100m"),
        k("set selector service s app=z"),
        k("set serviceaccount deployment d robot"),
        k("scale deployment d --replicas=4"),
        k("scale deployment d --replicas=5 --current-replicas=2"),
        k("scale --replicas=0 deployment/d"),
        k("scale job j --replicas=2"),
        k("rollout pause deployment d"),
        k("rollout pause deployment d"),
        k("rollout resume deployment d"),
        k("rollout history deployment d"),
        k("rollout restart deployment d", only=lambda text: text),
        k("rollout status deployment d --timeout=1s --watch=false"),
        k('patch deployment d -p \'{"spec":{"replicas":2}}\''),
        k('patch deployment d -p \'{"spec":{"replicas":2}}\''),
        k('patch deployment d --type=merge -p \'{"spec":{"replicas":"x"}}\''),
        k('patch deployment d --type=json -p \'[{"op":"replace","path":"/spec/replicas","value":-1}]\''),
        k('patch deployment d --subresource=scale --type=merge -p \'{"spec":{"replicas":6}}\''),
        k('patch deployment d --subresource=status --type=merge -p \'{"status":{"replicas":6}}\''),
        k('patch job j -p \'{"spec":{"suspend":false}}\''),
        k("edit configmap c", editor="sed -i 's/k: v/k: edited/'"),
        k("edit configmap c", editor="sed -i 's/^kind: ConfigMap/kind: Odd/'"),
        k("edit deployment d", editor="sed -i 's/replicas: 6/replicas: 7/'"),
        k("get deployments,jobs,services,configmaps"),
        k("get deployment d -o wide"),
        k("get deployment d -o yaml"),
        k("describe deployment d"),
        k("describe job j"),
        k("describe service s"),
        k("describe configmap c"),
    ],
    "nodes": [
        k(
            "create -f -",
            labelled(
                node(
                    "{ns}",
                    status={
                        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": "all is well"}],
                        "nodeInfo": {"kubeletVersion": "v1.35.8"},
                    },
                ),
                of="{ns}",
            ),
        ),
        k("get nodes -l of={ns}"),
        k("get nodes -l of={ns} -o wide"),
        k("describe node {ns}"),
        k("taint node {ns} dedicated=a:NoSchedule"),
        k("taint node {ns} dedicated=a:NoSchedule"),
        k("taint node {ns} dedicated=b:NoSchedule --overwrite"),
        k("taint node {ns} bad=a:Odd"),
        k("cordon {ns}"),
        k("cordon {ns}"),
        k("get node {ns}"),
        k("uncordon {ns}"),
        k("taint node {ns} dedicated-"),
        k("taint node {ns} dedicated-"),
        k("label node {ns} zone=a"),
        k("get node {ns} -o jsonpath='{.spec.taints}{.metadata.labels.zone}'"),
        k("delete node {ns} --wait=false"),
        k("get node {ns}"),
    ],
    "waiting and watching": [
        k("create -f -", [labelled(pod("w"), app="w"), config_map("c")]),
        k("wait pod/w --for=jsonpath={.status.phase}=Pending --timeout=5s"),
        k("wait pod/w --for=condition=Ready --timeout=1s"),
        k("wait pod -l app=w --for=jsonpath='{.metadata.name}'=w --timeout=5s"),
        k("wait pod/none --for=condition=Ready --timeout=1s"),
        k("wait configmap/c --for=create --timeout=5s"),
        k(
            'patch pod w --subresource=status --type=merge -p \'{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}\''
        ),
        k("wait pod/w --for=condition=Ready --timeout=5s"),
        k("wait pod/w --for=delete --timeout=1s"),
        Watching("get pods -w", 2, 4, (k("label pod w x=1"), k("delete pod w --wait=false --grace-period=0 --force"))),
        Watching("get configmap c -w -o name", 1, 2, (k("label configmap c x=1"),)),
        Watching(
            "get configmaps --watch --output-watch-events",
            2,
            4,
            (k("create -f -", config_map("d")), k("delete configmap d --wait=false")),
        ),
        Watching("get configmaps -w -o json", 1, 6),
        k("wait pod/w --for=delete --timeout=5s"),
    ],
    "deleting": [
        k(
            "create -f -",
            [
                labelled(config_map(name), app=app)
                for name, app in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "z"), ("f", "z"), ("g", "q"))
            ],
        ),
        k(
            "create -f -",
            [
                deployment("bg"),
                deployment("fg"),
                deployment("orphan"),
                pod("placed", nodeName="n"),
                pod("free"),
                gated("held", "g"),
            ],
        ),
        k("delete configmap a"),
        k("delete configmap a"),
        k("delete configmap a --ignore-not-found"),
        k("delete configmap b --dry-run=server"),
        k("delete configmap b --dry-run=client"),
        k("delete configmap b c -o name"),
        k("delete configmap -l app=y"),
        k("delete configmap -l app=none"),
        k("delete configmap --field-selector metadata.name=e"),
        k("delete configmap/f pod/free"),
        k("delete deployment bg --cascade=background --wait=false"),
        k("delete deployment fg --cascade=foreground --wait=false"),
        k("delete deployment orphan --cascade=orphan --wait=false"),
        k("get deployments"),
        k("delete pod placed --wait=false"),
        k("get pod placed"),
        k("delete pod placed --grace-period=0 --force"),
        k("delete pod held --now"),
        k("delete pods --all"),
        k("delete configmap --all"),
        k("delete -f -", config_map("g")),
        k("delete -f - --ignore-not-found", config_map("g")),
        k("delete configmap"),
        k("delete odd x"),
        k("delete namespace nope"),
        k("get all"),
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
        k("get pods --as=alice"),
        k("create -f - --as=alice", config_map("x")),
        k("explain odd"),
        k("explain pod.spec.odd"),
        k("logs nope"),
        k("wait odd/x --for=delete"),
        k("get --raw /odd"),
        k("get --raw /api/v1/namespaces/{ns}/pods/nope"),
        k("get pods --odd-flag"),
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
            if kind.namespaced and kind.kind not in ("Event",)
        ),
        *(
            k(f"get {kind.resource}.{kind.api_version.rpartition('/')[2]}.{kind.group}")
            for kind in DESCRIBED
            if kind.namespaced and kind.kind not in ("Event",)
        ),
        *(
            k(f"describe {kind.resource}.{kind.api_version.rpartition('/')[2]}.{kind.group}")
            for kind in DESCRIBED
            if kind.namespaced and kind.kind not in ("Event",)
        ),
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
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_kubectl_session_reads_the_same(both: Both, name: str) -> None:
    agree(both, f"kubectl: {name}", namespace_of(f"kubectl {name}"), CHAPTERS[name])
