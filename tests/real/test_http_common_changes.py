"""Common changes that manifests do not show: types of secrets, immutable objects, services that change.

`test_kind_differential.py` tests invalid places of whole manifests; here the order of events matters.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, SECRETS, SERVICES, config_map, service
from harness.request_cases import Case, case, cases_of, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies"
SCALERS = "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers"
OLD_SCALERS = "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers"


def secret(name: str, kind: str = "", data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in (data or {}).items()}
    return {"metadata": {"name": name, **metadata}, "data": encoded, **({"type": kind} if kind else {})}


ACCOUNT = "kubernetes.io/service-account.name"
TYPES = [
    case(
        "secrets of every well-known type, empty",
        *(
            post(SECRETS, secret("s", kind)).in_any_order()
            for kind in (
                "kubernetes.io/basic-auth",
                "kubernetes.io/ssh-auth",
                "kubernetes.io/tls",
                "kubernetes.io/dockercfg",
                "kubernetes.io/dockerconfigjson",
                "kubernetes.io/service-account-token",
                "bootstrap.kubernetes.io/token",
                "example.com/own",
            )
        ),
    ),
    case(
        "secrets of every well-known type, filled",
        post(SECRETS, secret("a", "kubernetes.io/basic-auth", {"username": "u"})),
        post(SECRETS, secret("b", "kubernetes.io/ssh-auth", {"ssh-privatekey": "k"})),
        post(SECRETS, secret("c", "kubernetes.io/tls", {"tls.crt": "", "tls.key": ""})),
        post(SECRETS, secret("d", "kubernetes.io/dockercfg", {".dockercfg": "{}"})),
        post(SECRETS, secret("e", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": '{"auths":{}}'})),
        post(SECRETS, secret("f", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": "not json"})),
        post(SECRETS, secret("g", "kubernetes.io/service-account-token", annotations={ACCOUNT: ""})),
        post(SECRETS, {"metadata": {"name": "h"}, "stringData": {"a": "b", "c": ""}, "data": {"a": "eA=="}}),
        get(f"{SECRETS}/h"),
        post(SECRETS, secret("i", "", {"bad/key": "v", "..": "v"})).in_any_order(),
    ),
    case(
        "a secret keeps its type",
        post(SECRETS, secret("a")),
        patch(f"{SECRETS}/a", {"type": "example.com/other"}),
        put(f"{SECRETS}/a", secret("a", "example.com/other", {"k": "v"})),
        put(f"{SECRETS}/a", secret("a", "", {"k": "w"})),
        patch(f"{SECRETS}/a", {"stringData": {"n": "m"}}),
        patch(f"{SECRETS}/a", {"data": {"n": None, "k": "b2RkIQ=="}}),
    ),
]
IMMUTABLE = [
    case(
        "a config map that was made immutable",
        post(CONFIG_MAPS, config_map("a", {"k": "v"})),
        patch(f"{CONFIG_MAPS}/a", {"immutable": True}),
        patch(f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}),
        patch(f"{CONFIG_MAPS}/a", {"binaryData": {"b": "eA=="}}).in_any_order(),
        patch(f"{CONFIG_MAPS}/a", {"immutable": False}),
        patch(f"{CONFIG_MAPS}/a", {"immutable": None, "data": {"k": "w"}}).in_any_order(),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"still": "free"}}}),
        post(CONFIG_MAPS, {**config_map("b", {"k": "v"}), "binaryData": {"k": "eA=="}}).in_any_order(),
    ),
    case(
        "a secret that was made immutable",
        post(SECRETS, {**secret("a", "", {"k": "v"}), "immutable": True}),
        patch(f"{SECRETS}/a", {"stringData": {"k": "w"}}),
        patch(f"{SECRETS}/a", {"immutable": False}),
        patch(f"{SECRETS}/a", {"metadata": {"annotations": {"still": "free"}}}),
    ),
]
SERVICE_LIVES = [
    case(
        "a service goes through the types",
        post(SERVICES, service("a")),
        patch(f"{SERVICES}/a", {"spec": {"type": "NodePort"}}),
        patch(f"{SERVICES}/a", {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}}),
        patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP", "externalTrafficPolicy": None}}),
        patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
        patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP", "externalName": None}}),
        patch(f"{SERVICES}/a", {"spec": {"clusterIP": "None"}}).in_any_order(),
        patch(f"{SERVICES}/a", {"spec": {"sessionAffinity": "ClientIP"}}),
        patch(f"{SERVICES}/a", {"spec": {"sessionAffinity": "None"}}),
    ),
    case(
        "addresses that are asked for",
        post(SERVICES, service("a", clusterIP="10.96.77.7")),
        post(SERVICES, service("b", clusterIP="10.96.77.7")),
        post(SERVICES, service("c", clusterIP="10.1.2.3")),
        post(f"{SERVICES}?dryRun=All", service("c", clusterIP="10.1.2.3")),
        post(SERVICES, service("c", clusterIP="10.96.0.0")),
        post(f"{SERVICES}?dryRun=All", service("c", clusterIP="10.96.0.0")),
        post(f"{SERVICES}?dryRun=All", service("c", clusterIP="10.96.77.7")),
        post(SERVICES, service("d", clusterIP="None")),
        post(SERVICES, service("e", clusterIP="fd00::1")),
        post(f"{SERVICES}?dryRun=All", service("f", clusterIP="10.96.77.8")),
        post(SERVICES, service("g", clusterIP="10.96.77.8")),
        post(SERVICES, service("h", type="NodePort", ports=[{"port": 1, "nodePort": 32765}])),
        post(SERVICES, service("i", type="NodePort", ports=[{"port": 1, "nodePort": 32765}])),
        post(SERVICES, service("j", type="NodePort", ports=[{"port": 1, "nodePort": 80}])),
        patch(f"{SERVICES}/h", {"spec": {"ports": [{"port": 1, "nodePort": 32764}]}}),
        post(SERVICES, service("i", type="NodePort", ports=[{"port": 1, "nodePort": 32765}])),
    ),
]
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
NETWORK_AND_SCALE = [
    case(
        "ingresses",
        post(INGRESSES, {"metadata": {"name": "a"}, "spec": {}}),
        post(INGRESSES, {"metadata": {"name": "a"}, "spec": {"defaultBackend": BACKEND}}),
        patch(f"{INGRESSES}/a", {"spec": {"rules": [{"host": "*.example.com", "http": {"paths": []}}]}}),
        patch(
            f"{INGRESSES}/a",
            {"spec": {"rules": [{"host": "a.example", "http": {"paths": [{"path": "x", "backend": BACKEND}]}}]}},
        ).in_any_order(),
        patch(
            f"{INGRESSES}/a",
            {
                "spec": {
                    "rules": [
                        {"http": {"paths": [{"path": "/x", "pathType": "Prefix", "backend": BACKEND}]}},
                        {"host": "1.2.3.4", "http": {"paths": [{"pathType": "Exact", "backend": {}}]}},
                    ],
                    "tls": [{"hosts": ["Bad Host"], "secretName": "s"}],
                }
            },
        ).in_any_order(),
        patch(f"{INGRESSES}/a/status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}, {"ip": "odd"}]}}}),
    ),
    case(
        "network policies",
        post(POLICIES, {"metadata": {"name": "a"}, "spec": {"podSelector": {}}}),
        patch(f"{POLICIES}/a", {"spec": {"egress": [{"ports": [{"port": 80, "endPort": 70}]}]}}),
        patch(
            f"{POLICIES}/a",
            {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]}]}},
        ),
        patch(f"{POLICIES}/a", {"spec": {"ingress": [{"from": [{}]}], "policyTypes": ["Odd"]}}).in_any_order(),
    ),
    case(
        "autoscalers in both of their versions",
        post(SCALERS, {"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}}),
        get(f"{OLD_SCALERS}/a"),
        patch(f"{OLD_SCALERS}/a", {"spec": {"targetCPUUtilizationPercentage": 55}}),
        get(f"{SCALERS}/a"),
        patch(f"{SCALERS}/a", {"spec": {"minReplicas": 5}}),
        patch(f"{SCALERS}/a", {"spec": {"minReplicas": 0}}).in_any_order(),
        patch(
            f"{SCALERS}/a",
            {"spec": {"metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value"}}}]}},
        ).in_any_order(),
        patch(
            f"{SCALERS}/a", {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 4000}}}}
        ).in_any_order(),
    ),
]
CASES = cases_of(TYPES, IMMUTABLE, SERVICE_LIVES, NETWORK_AND_SCALE)


@pytest.mark.parametrize("scenario", CASES, ids=lambda scenario: scenario.name)
def test_daily_kinds_live_the_same(servers: ServerPair, scenario: Case) -> None:
    servers.compare(scenario)
