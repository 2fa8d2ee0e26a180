"""Requests with two sizes that a client chooses, growing together: a cost of one times the other shows as a square.

``sized_requests.py`` says what a row is. Where the two sizes belong to two objects, one of them is prepared.
"""

from __future__ import annotations

from typing import Any

from sized_requests import (
    ADMISSION,
    DEFINITIONS,
    FOOS,
    IN_T,
    JOBS,
    MERGE,
    NETWORKING,
    PODS,
    RBAC,
    SERVICES,
    Object,
    Row,
    Sized,
    a_definition,
    a_job,
    a_pod,
    a_service,
    accepting,
    an_object,
    container,
    containers,
    create,
    custom,
    foo,
    granted,
    named,
    ports,
    send,
    webhook,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_QUOTAS = f"{IN_T}/resourcequotas"
_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _quota(**spec: Any) -> Sized:
    return create(_QUOTAS, {**named(), "spec": spec})


def _scoped(n: int, scope: str = "BestEffort") -> list[Object]:
    return [{"scopeName": scope, "operator": "Exists"} for _ in range(n)]


def _limits(n: int, field: str, pod: Object) -> Sized:
    limit = {"type": "Container", field: {f"x.io/r{i}": "1" for i in range(n)}}
    return [send("POST", f"{IN_T}/limitranges", {**named(), "spec": {"limits": [limit]}})], send("POST", PODS, pod)


def _versions(n: int, **fields: Any) -> Object:
    definition = a_definition(an_object())
    (first,) = definition["spec"]["versions"]
    definition["spec"]["versions"] = [
        first,
        *({**first, "name": f"v{i}", "storage": False, **fields} for i in range(2, n)),
    ]
    return definition


def _rules_beside_versions(n: int) -> Sized:
    rules = [
        {"apiGroups": ["x.io"], "apiVersions": [f"w{i}"], "operations": ["CREATE"], "resources": ["foos"]}
        for i in range(n)
    ]
    hook = {**named(), "webhooks": [webhook(rules=rules)]}
    setup = [send("POST", DEFINITIONS, _versions(n)), send("POST", f"{ADMISSION}/mutatingwebhookconfigurations", hook)]
    return setup, send("POST", FOOS, foo(None))


def _statuses(n: int, state: Object, field: str = "containerStatuses", name: str = "c{}") -> Object:
    each = [{"name": name.format(i), "image": "i", "imageID": "", "state": state} for i in range(n)]
    return {"status": {field: each}}


def _restarted(n: int, field: str, name: str) -> Sized:
    ended = {"terminated": {"exitCode": 1, "startedAt": None, "finishedAt": None}}
    setup = [
        send("POST", PODS, a_pod(containers=containers(n), restartPolicy="Never")),
        send("PATCH", f"{PODS}/a/status", _statuses(n, ended, field, name), MERGE),
    ]
    return setup, send("PATCH", f"{PODS}/a/status", _statuses(n, {"running": {}}, field, name), MERGE)


def _columns(n: int, path: str, spec: Any) -> Sized:
    columns = [{"name": f"c{i}", "type": "string", "jsonPath": path} for i in range(n)]
    setup = [
        send("POST", DEFINITIONS, a_definition(an_object(spec=_OPEN), additionalPrinterColumns=columns)),
        send("POST", FOOS, foo(spec)),
    ]
    return setup, accepting(send("GET", FOOS), TABLE)


PRODUCTS: dict[str, Row] = {
    "limits of a ResourceQuota by its scopes": (
        200,
        lambda n: _quota(hard={f"count/x{i}.y": "1" for i in range(n)}, scopes=["BestEffort"] * n),
    ),
    "limits of a ResourceQuota that its scopes do not cover": (
        150,
        lambda n: _quota(hard={f"hugepages-{i}": "1" for i in range(n)}, scopes=["BestEffort"] * n),
    ),
    "limits of a ResourceQuota by its scope selector": (
        150,
        lambda n: _quota(hard={f"count/x{i}.y": "1" for i in range(n)}, scopeSelector={"matchExpressions": _scoped(n)}),
    ),
    "limits of a ResourceQuota that its scope selector does not cover": (
        100,
        lambda n: _quota(
            hard={f"hugepages-{i}": "1" for i in range(n)}, scopeSelector={"matchExpressions": _scoped(n)}
        ),
    ),
    "scopes of a ResourceQuota that are unknown": (
        300,
        lambda n: _quota(hard={"pods": "1"}, scopes=[f"s{i}" for i in range(n)]),
    ),
    "containers by what a ResourceQuota limits": (
        60,
        lambda n: (
            [send("POST", _QUOTAS, {**named(), "spec": {"hard": {f"requests.x.io/r{i}": "9" for i in range(n)}}})],
            send("POST", PODS, a_pod(containers=containers(n))),
        ),
    ),
    "containers by maxima of a LimitRange": (50, lambda n: _limits(n, "max", a_pod(containers=containers(n)))),
    "containers by minima of a LimitRange": (50, lambda n: _limits(n, "min", a_pod(containers=containers(n)))),
    "containers by ratios of a LimitRange": (
        50,
        lambda n: _limits(n, "maxLimitRequestRatio", a_pod(containers=containers(n))),
    ),
    "containers by defaults of a LimitRange": (50, lambda n: _limits(n, "default", a_pod(containers=containers(n)))),
    "volume mounts by volume devices": (
        150,
        lambda n: create(
            PODS,
            container(
                volumeMounts=[{"name": f"m{i}", "mountPath": f"/m{i}"} for i in range(n)],
                volumeDevices=[{"name": f"d{i}", "devicePath": f"/d{i}"} for i in range(n)],
            ),
        ),
    ),
    "annotations by containers": (
        100,
        lambda n: create(
            PODS,
            {
                **a_pod(containers=containers(n)),
                **named(annotations={f"{_ARMOR}c{i}": "runtime/default" for i in range(n)}),
            },
        ),
    ),
    "container ports by host ports": (
        150,
        lambda n: create(PODS, container(ports=[{"containerPort": 1, "hostPort": i + 1} for i in range(n)])),
    ),
    "container ports by addresses of the host": (
        150,
        lambda n: create(
            PODS,
            container(
                ports=[{"containerPort": 1, "hostPort": 1, "hostIP": f"1.2.{i // 250}.{i % 250}"} for i in range(n)]
            ),
        ),
    ),
    "container ports that clash in pairs": (150, lambda n: create(PODS, container(ports=[{"containerPort": 1}] * n))),
    "old by new container statuses": (250, lambda n: _restarted(n, "containerStatuses", "c{}")),
    "old by new statuses of ephemeral containers of one name": (
        250,
        lambda n: _restarted(n, "ephemeralContainerStatuses", "e"),
    ),
    "expressions by values of a node affinity": (
        12,
        lambda n: create(
            PODS,
            a_pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": f"k{i}", "operator": "In", "values": [f"v{j}" for j in range(20)]}
                                        for i in range(n)
                                    ]
                                }
                            ]
                        }
                    }
                }
            ),
        ),
    ),
    "label keys that a term matches by those that it does not": (
        1_000,
        lambda n: create(
            PODS,
            a_pod(
                affinity={
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "zone",
                                "labelSelector": {"matchLabels": {"a": "b"}},
                                "matchLabelKeys": ["k"] * n,
                                "mismatchLabelKeys": ["l"] * n,
                            }
                        ]
                    }
                }
            ),
        ),
    ),
    "rules of a failure policy by containers": (
        60,
        lambda n: create(
            JOBS,
            {
                **a_job(
                    podFailurePolicy={
                        "rules": [
                            {
                                "action": "FailJob",
                                "onExitCodes": {"containerName": f"c{i}", "operator": "In", "values": [1]},
                            }
                            for i in range(n)
                        ]
                    },
                    template={"spec": {"restartPolicy": "Never", "containers": containers(n)}},
                )
            },
        ),
    ),
    "node ports given up with the type of a Service": (
        340,
        lambda n: (
            [send("POST", SERVICES, a_service(type="NodePort", ports=ports(n)))],
            send("PATCH", f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, MERGE),
        ),
    ),
    "peers by ports of a NetworkPolicy": (
        60,
        lambda n: create(
            f"{NETWORKING}/networkpolicies",
            {
                **named(),
                "spec": {
                    "podSelector": {},
                    "ingress": [
                        {
                            "ports": [{"port": i + 1} for i in range(n)],
                            "from": [
                                {"ipBlock": {"cidr": "10.0.0.0/8", "except": [f"10.1.{i % 250}.0/24"]}}
                                for i in range(n)
                            ],
                        }
                    ],
                },
            },
        ),
    ),
    "rules by paths of an Ingress": (
        40,
        lambda n: create(
            f"{NETWORKING}/ingresses",
            {
                **named(),
                "spec": {
                    "tls": [{"hosts": [f"h{i}.x"], "secretName": "s"} for i in range(n)],
                    "rules": [
                        {
                            "host": f"h{i}.x",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Prefix",
                                        "backend": {"service": {"name": "s", "port": {"number": 1}}},
                                    }
                                ]
                            },
                        }
                        for i in range(n)
                    ],
                },
            },
        ),
    ),
    "metrics by policies of an autoscaler": (
        60,
        lambda n: create(
            "/apis/autoscaling/v2/namespaces/t/horizontalpodautoscalers",
            {
                **named(),
                "spec": {
                    "maxReplicas": 2,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                    "metrics": [
                        {
                            "type": "Pods",
                            "pods": {
                                "metric": {"name": f"m{i}"},
                                "target": {"type": "AverageValue", "averageValue": "1"},
                            },
                        }
                        for i in range(n)
                    ],
                    "behavior": {
                        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1} for _ in range(n)]}
                    },
                },
            },
        ),
    ),
    "resources by operations of a webhook's rule": (
        150,
        lambda n: create(
            f"{ADMISSION}/mutatingwebhookconfigurations",
            {
                **named(),
                "webhooks": [
                    webhook(
                        rules=[
                            {
                                "apiGroups": [f"g{i}" for i in range(n)],
                                "apiVersions": [f"v{i}" for i in range(n)],
                                "operations": ["CREATE"] * n,
                                "resources": [f"r{i}/s{i}" for i in range(n)],
                            }
                        ]
                    )
                ],
            },
        ),
    ),
    "verbs by resources of a role": (
        200,
        lambda n: create(
            f"{RBAC}/clusterroles",
            {
                **named(),
                "rules": [
                    {
                        "apiGroups": [f"g{i}" for i in range(n)],
                        "resources": [f"r{i}" for i in range(n)],
                        "verbs": [f"v{i}" for i in range(n)],
                        "resourceNames": [f"n{i}" for i in range(n)],
                    }
                ],
            },
        ),
    ),
    "rules that a user holds by resources of one rule": (
        100,
        lambda n: granted(n, [{"apiGroups": [""], "resources": [f"r{i}" for i in range(n)], "verbs": ["get"]}]),
    ),
    "versions of a definition": (20, lambda n: create(DEFINITIONS, _versions(n))),
    "versions of a definition that are deprecated": (
        400,
        lambda n: create(DEFINITIONS, _versions(n, deprecated=True)),
    ),
    "versions of a definition by its names": (
        20,
        lambda n: (
            [],
            send(
                "POST",
                DEFINITIONS,
                {
                    **(definition := _versions(n)),
                    "spec": {
                        **definition["spec"],
                        "names": {**definition["spec"]["names"], "shortNames": [f"s{i}" for i in range(n)]},
                    },
                },
            ),
        ),
    ),
    "rules of a webhook by versions of a definition": (20, _rules_beside_versions),
    "items by values of an enum that has none of them": (
        600,
        lambda n: custom(
            an_object(items={"type": "array", "items": {"type": "string", "enum": [f"e{i}" for i in range(n)]}}),
            {"items": ["x"] * n},
        ),
    ),
    "columns of a Table by a long text": (60, lambda n: _columns(n, ".spec.a", {"a": "x" * 400 * n})),
    "columns of a Table by a long list": (
        60,
        lambda n: _columns(n, '.spec.a[?(@.b=="x")].b', {"a": [{"b": "y"} for _ in range(4 * n)]}),
    ),
    "columns of a Table by a large object": (
        60,
        lambda n: _columns(n, ".spec..a", {f"k{i}": {"b": 1} for i in range(4 * n)}),
    ),
    "choices of a column by their results": (
        100,
        lambda n: _columns(3, f".spec.a[{','.join(['*'] * n)}]", {"a": [1] * 4 * n}),
    ),
}
