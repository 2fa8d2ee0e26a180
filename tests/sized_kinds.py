"""The lists and maps of single kinds whose size a client chooses; ``sized_requests.py`` says what a row is.

One table, longer than a module should be: a row is found by its kind, and rows do not depend on each other.
"""

from __future__ import annotations

from functools import partial

from sized_requests import (
    ADMISSION,
    CRON_JOBS,
    DEFINITIONS,
    DEPLOYMENTS,
    FOOS,
    IN_T,
    JOBS,
    JSON_PATCH,
    MERGE,
    NETWORKING,
    NODES,
    PODS,
    RBAC,
    SERVICES,
    STORAGE,
    STRATEGIC,
    Object,
    Row,
    Sized,
    a_binding,
    a_cron_job,
    a_definition,
    a_deployment,
    a_job,
    a_list,
    a_pod,
    a_service,
    an_object,
    applied,
    change,
    condition,
    conditions,
    container,
    containers,
    create,
    custom,
    custom_apply,
    custom_change,
    deep,
    deep_schema,
    environment,
    foo,
    granted,
    named,
    ports,
    rules,
    selecting,
    send,
    texts,
    webhook,
)

_ITEM = {**an_object(a={"type": "string"}, b={"type": "string"}), "required": ["a"]}
_ITEMS = an_object(items=a_list("map", _ITEM, "a"))
_SET = an_object(items=a_list("set", {"type": "string"}))
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _formatted(form: str, part: str, n: int) -> Sized:
    return custom({"type": "string", "format": form}, part * n)


def _with_runtime_class(tolerations: list[Object]) -> Sized:
    scheduling = {"tolerations": [{"key": "x", "operator": "Exists"}]}
    runtime_class = {**named(), "handler": "h", "scheduling": scheduling}
    return [send("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class)], send(
        "POST", PODS, a_pod(runtimeClassName="a", tolerations=tolerations)
    )


PODS_AND_WORKLOADS: dict[str, Row] = {
    "containers": (100, lambda n: create(PODS, a_pod(containers=containers(n)))),
    "containers of one name": (100, lambda n: create(PODS, a_pod(containers=[{"name": "c", "image": "i"}] * n))),
    "init containers that are sidecars": (
        80,
        lambda n: create(PODS, a_pod(initContainers=containers(n, restartPolicy="Always"))),
    ),
    "containers changed by a strategic patch": (
        60,
        lambda n: change(
            PODS, a_pod(containers=containers(n)), {"spec": {"containers": containers(n, "j")}}, STRATEGIC
        ),
    ),
    "containers changed by apply": (
        60,
        lambda n: applied(PODS, a_pod(containers=containers(n)), a_pod(containers=containers(n, "j"))),
    ),
    "containers under Pod Security": (
        50,
        lambda n: (
            [
                send(
                    "PATCH",
                    "/api/v1/namespaces/t",
                    {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}},
                    MERGE,
                )
            ],
            send("POST", PODS, a_pod(containers=containers(n))),
        ),
    ),
    "containers under a LimitRange": (
        60,
        lambda n: (
            [
                send(
                    "POST",
                    f"{IN_T}/limitranges",
                    {
                        **named(),
                        "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]},
                    },
                )
            ],
            send("POST", PODS, a_pod(containers=containers(n))),
        ),
    ),
    "container statuses": (
        60,
        lambda n: change(
            PODS,
            a_pod(containers=containers(n)),
            {"status": {"containerStatuses": [{"name": f"c{i}", "state": {"running": {}}} for i in range(n)]}},
            MERGE,
            at="/a/status",
        ),
    ),
    "conditions": (150, lambda n: change(PODS, a_pod(), conditions(n), MERGE, at="/a/status")),
    "conditions merged": (
        100,
        lambda n: (
            [send("POST", PODS, a_pod()), send("PATCH", f"{PODS}/a/status", conditions(n), MERGE)],
            send("PATCH", f"{PODS}/a/status", conditions(n, n // 2), STRATEGIC),
        ),
    ),
    "environment": (200, lambda n: create(PODS, container(env=environment(n)))),
    "environment of one name": (200, lambda n: create(PODS, container(env=environment(1) * n))),
    "environment merged into a Deployment": (
        150,
        lambda n: change(
            DEPLOYMENTS,
            a_deployment({"containers": [{"name": "c", "image": "i", "env": environment(n)}]}),
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": environment(n, "w")}]}}}},
            STRATEGIC,
        ),
    ),
    "environment that an update of a pod may not change": (
        200,
        lambda n: change(
            PODS,
            container(env=environment(n)),
            {"spec": {"containers": [{"name": "c", "env": environment(n, "w")}]}},
            STRATEGIC,
        ),
    ),
    "ports of a container": (
        150,
        lambda n: create(PODS, container(ports=[{"name": f"p{i}", "containerPort": i + 1} for i in range(n)])),
    ),
    "host ports given twice": (
        150,
        lambda n: create(PODS, container(ports=[{"containerPort": 1, "hostPort": 1}] * n)),
    ),
    "volumes": (150, lambda n: create(PODS, a_pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(n)]))),
    "volume mounts": (
        400,
        lambda n: create(
            PODS,
            a_pod(
                volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(n)],
                containers=[
                    {
                        "name": "c",
                        "image": "i",
                        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/v{i}"} for i in range(n)],
                    }
                ],
            ),
        ),
    ),
    "items of a ConfigMap volume": (
        150,
        lambda n: create(
            PODS,
            a_pod(
                volumes=[
                    {
                        "name": "v",
                        "configMap": {"name": "c", "items": [{"key": "k", "path": f"p{i}"} for i in range(n)]},
                    }
                ]
            ),
        ),
    ),
    "items of a ConfigMap volume with one path": (
        400,
        lambda n: create(
            PODS,
            a_pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}] * n}}]),
        ),
    ),
    "the depth of a path in a volume": (
        2_000,
        lambda n: create(
            PODS,
            a_pod(volumes=[{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "a/" * n + "b"}]}}]),
        ),
    ),
    "sources of a projected volume": (
        100,
        lambda n: create(
            PODS,
            a_pod(
                volumes=[
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {"configMap": {"name": f"c{i}", "items": [{"key": "k", "path": f"p{i}"}]}}
                                for i in range(n)
                            ]
                        },
                    }
                ]
            ),
        ),
    ),
    "tolerations": (
        200,
        lambda n: create(PODS, a_pod(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(n)])),
    ),
    "tolerations beside those of a RuntimeClass": (
        1_000,
        lambda n: _with_runtime_class([{"key": f"k{i}", "operator": "Exists"} for i in range(n)]),
    ),
    "tolerations of one taint beside those of a RuntimeClass": (
        600,
        lambda n: _with_runtime_class(
            [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i} for i in range(n)]
        ),
    ),
    "spread constraints": (
        400,
        lambda n: create(
            PODS,
            a_pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": f"t{i}", "whenUnsatisfiable": "DoNotSchedule"} for i in range(n)
                ]
            ),
        ),
    ),
    "terms of node affinity": (
        100,
        lambda n: create(
            PODS,
            a_pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(n)
                            ]
                        }
                    }
                }
            ),
        ),
    ),
    "scheduling gates": (1_000, lambda n: create(PODS, a_pod(schedulingGates=[{"name": f"g{i}"} for i in range(n)]))),
    "scheduling gates removed": (
        200,
        lambda n: change(
            PODS,
            a_pod(schedulingGates=[{"name": f"g{i}"} for i in range(n)]),
            {"spec": {"schedulingGates": [{"name": f"g{i}"} for i in range(n // 2)]}},
            MERGE,
        ),
    ),
    "host aliases": (
        150,
        lambda n: create(PODS, a_pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": [f"h{i}"]} for i in range(n)])),
    ),
    "names of resources": (
        150,
        lambda n: create(
            PODS,
            container(
                resources={
                    "requests": {f"x.io/r{i}": "1" for i in range(n)},
                    "limits": {f"x.io/r{i}": "1" for i in range(n)},
                }
            ),
        ),
    ),
    "digits of a quantity": (
        20_000,
        lambda n: create(PODS, container(resources={"requests": {"cpu": "1" * n + "x"}})),
    ),
    "resource claims": (
        1_000,
        lambda n: create(
            PODS,
            a_pod(
                resourceClaims=[{"name": f"r{i}", "resourceClaimName": "c"} for i in range(n)],
                containers=[
                    {"name": "c", "image": "i", "resources": {"claims": [{"name": f"r{i}"} for i in range(n)]}}
                ],
            ),
        ),
    ),
    "resource claims that the pod does not have": (
        150,
        lambda n: create(
            PODS,
            a_pod(
                resourceClaims=[{"name": f"r{i}", "resourceClaimName": "c"} for i in range(n)],
                containers=[
                    {"name": "c", "image": "i", "resources": {"claims": [{"name": f"x{i}"} for i in range(n)]}}
                ],
            ),
        ),
    ),
    "values of a selector": (
        1_000,
        lambda n: create(
            DEPLOYMENTS,
            selecting(matchExpressions=[{"key": "k", "operator": "NotIn", "values": [f"v{i}" for i in range(n)]}]),
        ),
    ),
    "expressions of a selector": (
        1_000,
        lambda n: create(
            DEPLOYMENTS,
            selecting(matchExpressions=[{"key": f"k{i}", "operator": "NotIn", "values": ["x"]} for i in range(n)]),
        ),
    ),
    "expressions of a schedule": (1_000, lambda n: create(CRON_JOBS, a_cron_job(",".join(["1"] * n) + " * * * *"))),
    "digits of a schedule": (20_000, lambda n: create(CRON_JOBS, a_cron_job("1" * n + " * * * *"))),
    "parts of a schedule's interval": (1_000, lambda n: create(CRON_JOBS, a_cron_job("@every " + "1s" * n))),
    "indexes of a Job": (
        1_000,
        lambda n: (
            [send("POST", JOBS, a_job(completionMode="Indexed", completions=100_000, parallelism=1))],
            send(
                "PATCH",
                f"{JOBS}/a/status",
                {"status": {"completedIndexes": ",".join(str(2 * i) for i in range(n)), "succeeded": n}},
                MERGE,
            ),
        ),
    ),
    "uncounted pods of a Job": (
        300,
        lambda n: change(
            JOBS,
            a_job(),
            {"status": {"uncountedTerminatedPods": {"succeeded": [f"u{i}" for i in range(n)]}}},
            MERGE,
            at="/a/status",
        ),
    ),
}

DEFINITIONS_AND_OBJECTS: dict[str, Row] = {
    "properties of a schema": (150, lambda n: create(DEFINITIONS, a_definition(an_object(spec=texts(n))))),
    "defaults of a schema": (100, lambda n: create(DEFINITIONS, a_definition(an_object(spec=texts(n, default="x"))))),
    "required properties of a schema": (
        120,
        lambda n: create(DEFINITIONS, a_definition({**texts(n), "required": [f"p{i}" for i in range(n)]})),
    ),
    "keys of a list in a schema": (
        1_000,
        lambda n: create(
            DEFINITIONS,
            a_definition(
                an_object(
                    a=a_list("map", {**texts(n), "required": [f"p{i}" for i in range(n)]}, *(f"p{i}" for i in range(n)))
                )
            ),
        ),
    ),
    "the depth of a schema": (
        40,
        lambda n: create(DEFINITIONS, a_definition(deep_schema(n, lambda below: an_object(**{"k" * 50: below})))),
    ),
    "the depth of lists in a schema": (
        40,
        lambda n: create(DEFINITIONS, a_definition(deep_schema(n, lambda below: {"type": "array", "items": below}))),
    ),
    "values of an enum": (
        600,
        lambda n: create(
            DEFINITIONS, a_definition(an_object(a={"type": "string", "enum": [f"e{i}" for i in range(n)]}))
        ),
    ),
    "schemas of allOf": (
        150,
        lambda n: create(
            DEFINITIONS,
            a_definition(an_object(a={"type": "string", "allOf": [{"minLength": i} for i in range(n)]})),
        ),
    ),
    "properties that are invalid": (
        120,
        lambda n: create(DEFINITIONS, a_definition(an_object(**{f"p{i}": {"type": "strang"} for i in range(n)}))),
    ),
    "printer columns": (
        100,
        lambda n: create(
            DEFINITIONS,
            a_definition(
                an_object(a={"type": "string"}),
                additionalPrinterColumns=[{"name": f"c{i}", "type": "string", "jsonPath": ".a"} for i in range(n)],
            ),
        ),
    ),
    "the length of a pattern": (
        300,
        lambda n: create(DEFINITIONS, a_definition(an_object(a={"type": "string", "pattern": "(a|b)" * n}))),
    ),
    "keys of an open object": (500, lambda n: custom(_OPEN, {f"k{i}": i for i in range(n)})),
    "the depth of an open object": (
        300,
        lambda n: custom(
            _OPEN, b'{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"a"},"spec":%s}' % deep(n, b"1")
        ),
    ),
    "keys of the wrong type": (
        200,
        lambda n: custom(
            {"type": "object", "additionalProperties": {"type": "string"}}, {f"k{i}": 1 for i in range(n)}
        ),
    ),
    "items that are not in a long enum": (
        100,
        lambda n: custom(
            an_object(items={"type": "array", "items": {"type": "string", "enum": [f"e{i}" for i in range(2_000)]}}),
            {"items": ["x"] * n},
        ),
    ),
    "items of a set": (300, lambda n: custom(_SET, {"items": [f"a{i}" for i in range(n)]})),
    "items of a set given twice": (300, lambda n: custom(_SET, {"items": ["a"] * n})),
    "items of a map list": (
        200,
        lambda n: custom_change(
            _ITEMS, {"items": [{"a": str(i)} for i in range(n)]}, {"items": [{"a": str(i), "b": "x"} for i in range(n)]}
        ),
    ),
    "items of a map list in another order by apply": (
        100,
        lambda n: custom_apply(
            _ITEMS,
            {"items": [{"a": str(i)} for i in range(n)]},
            {"items": [{"a": str(i), "b": "x"} for i in reversed(range(n))]},
        ),
    ),
    "items of a set in another order by apply": (
        200,
        lambda n: custom_apply(
            _SET, {"items": [str(i) for i in range(n)]}, {"items": [str(i) for i in reversed(range(n))]}
        ),
    ),
    "characters that a pattern is tried on": (
        1_000,
        lambda n: custom({"type": "string", "pattern": "^(a+)+$"}, "a" * n + "b"),
    ),
    "copies of a JSON patch": (
        60,
        lambda n: (
            [
                *custom(_OPEN, {})[0],
                send("POST", FOOS, foo({"a": {f"k{i}": "v" for i in range(100)}})),
            ],
            send(
                "PATCH",
                f"{FOOS}/a",
                [{"op": "copy", "from": "/spec/a", "path": f"/spec/b{i}"} for i in range(n)],
                JSON_PATCH,
            ),
        ),
    ),
    **{
        f"the length of a text with the format {form}": (2_000, partial(_formatted, form, part))
        for form, part in (
            ("date-time", "2"),
            ("ipv4", "1."),
            ("ipv6", "1:"),
            ("uri", "a%20"),
            ("email", "a@b."),
            ("hostname", "a-"),
            ("mac", "00:"),
            ("duration", "1s"),
            ("byte", "AA"),
        )
    },
}

CLUSTER: dict[str, Row] = {
    "rules of a role": (200, lambda n: create(f"{RBAC}/clusterroles", {**named(), "rules": rules(n)})),
    "rules of a role that its author holds": (100, lambda n: granted(n, rules(n))),
    "rules of a role that its author does not hold": (
        100,
        lambda n: granted(n, [{**each, "verbs": ["delete"]} for each in rules(n)]),
    ),
    "subjects of a binding": (
        300,
        lambda n: create(f"{RBAC}/clusterrolebindings", a_binding("view", *({"name": f"u{i}"} for i in range(n)))),
    ),
    "groups of an access review": (
        500,
        lambda n: create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "spec": {
                    "user": "u",
                    "groups": [f"g{i}" for i in range(n)],
                    "extra": {f"e{i}": ["a"] for i in range(n)},
                    "resourceAttributes": {"verb": "get", "resource": "pods"},
                }
            },
        ),
    ),
    "webhooks": (
        60,
        lambda n: create(
            f"{ADMISSION}/mutatingwebhookconfigurations", {**named(), "webhooks": [webhook(i) for i in range(n)]}
        ),
    ),
    "review versions of a webhook": (
        300,
        lambda n: create(
            f"{ADMISSION}/mutatingwebhookconfigurations",
            {**named(), "webhooks": [webhook(admissionReviewVersions=["v1", *(f"v{i}" for i in range(2, n))])]},
        ),
    ),
    "actions of a policy binding": (
        4_000,
        lambda n: create(
            f"{ADMISSION}/validatingadmissionpolicybindings",
            {**named(), "spec": {"policyName": "p", "validationActions": ["Deny"] * n}},
        ),
    ),
    "ports of a Service": (80, lambda n: create(SERVICES, a_service(ports=ports(n)))),
    "node ports": (80, lambda n: create(SERVICES, a_service(type="NodePort", ports=ports(n)))),
    "address families": (2_000, lambda n: create(SERVICES, a_service(ipFamilies=["IPv4", "IPv6"] * n))),
    "addresses of Endpoints": (
        100,
        lambda n: create(
            f"{IN_T}/endpoints",
            {**named(), "subsets": [{"addresses": [{"ip": f"1.2.{i // 256}.{i % 256}"} for i in range(n)]}]},
        ),
    ),
    "rules of an Ingress": (
        100,
        lambda n: create(
            f"{NETWORKING}/ingresses",
            {
                **named(),
                "spec": {
                    "defaultBackend": {"service": {"name": "s", "port": {"number": 1}}},
                    "rules": [{"host": f"h{i}.x"} for i in range(n)],
                },
            },
        ),
    ),
    "rules of a NetworkPolicy": (
        60,
        lambda n: create(
            f"{NETWORKING}/networkpolicies",
            {**named(), "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 1}]} for _ in range(n)]}},
        ),
    ),
    "addresses of a node": (
        200,
        lambda n: change(
            NODES,
            named(),
            {
                "status": {
                    "addresses": [{"type": "Hostname", "address": f"a{i}"} for i in range(n)],
                    "conditions": [condition(i) for i in range(n)],
                }
            },
            MERGE,
            at="/a/status",
        ),
    ),
    "taints of a node": (
        200,
        lambda n: create(
            NODES, {**named(), "spec": {"taints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(n)]}}
        ),
    ),
    "topologies of a storage class": (
        200,
        lambda n: create(
            f"{STORAGE}/storageclasses",
            {
                **named(),
                "provisioner": "x.io/y",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": [f"v{i}"]}]} for i in range(n)],
            },
        ),
    ),
    "values of a storage class's topology": (
        400,
        lambda n: create(
            f"{STORAGE}/storageclasses",
            {
                **named(),
                "provisioner": "x.io/y",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": [f"v{i}" for i in range(n)]}]}],
            },
        ),
    ),
    "topology keys of a CSI driver": (
        300,
        lambda n: create(
            f"{STORAGE}/csinodes",
            {
                **named(),
                "spec": {"drivers": [{"name": "d.x", "nodeID": "n", "topologyKeys": [f"k{i}" for i in range(n)]}]},
            },
        ),
    ),
    "limits of a ResourceQuota": (
        150,
        lambda n: create(
            f"{IN_T}/resourcequotas", {**named(), "spec": {"hard": {f"count/x{i}.y": "1" for i in range(n)}}}
        ),
    ),
    "options of a delete": (
        300,
        lambda n: (
            [send("POST", f"{IN_T}/configmaps", named())],
            send("DELETE", f"{IN_T}/configmaps/a", {"dryRun": [f"x{i}" for i in range(n)]}),
        ),
    ),
    "annotations of a binding": (
        500,
        lambda n: (
            [send("POST", PODS, a_pod()), send("POST", NODES, {"metadata": {"name": "n"}})],
            send(
                "POST",
                f"{PODS}/a/binding",
                {**named(annotations={f"k{i}": "v" for i in range(n)}), "target": {"kind": "Node", "name": "n"}},
            ),
        ),
    ),
}
