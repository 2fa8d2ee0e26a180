"""Manifests of the networking and discovery groups, leases, and the newer event kind."""

from __future__ import annotations

from harness.manifests.kind import Kind, labelled

NETWORK_KINDS: tuple[Kind, ...] = (
    Kind(
        "networking.k8s.io/v1",
        "Ingress",
        "ingresses",
        {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        {
            **labelled(app="a"),
            "spec": {
                "ingressClassName": "c",
                "tls": [{"hosts": ["a.example"], "secretName": "t"}],
                "rules": [
                    {
                        "host": "a.example",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "s", "port": {"name": "http"}}},
                                }
                            ]
                        },
                    }
                ],
            },
        },
        {"spec": {"ingressClassName": "d"}},
        has_status=True,
        status={"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}},
    ),
    Kind(
        "networking.k8s.io/v1",
        "IngressClass",
        "ingressclasses",
        {"spec": {"controller": "example.com/c"}},
        {
            **labelled(app="a"),
            "spec": {"controller": "example.com/c", "parameters": {"apiGroup": "g.example", "kind": "K", "name": "n"}},
        },
        {"spec": {"parameters": {"name": "m"}}},
        namespaced=False,
    ),
    Kind(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "networkpolicies",
        {"spec": {"podSelector": {}}},
        {
            **labelled(app="a"),
            "spec": {
                "podSelector": {"matchLabels": {"app": "a"}},
                "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}],
                "ingress": [
                    {"from": [{"namespaceSelector": {}}], "ports": [{"port": 80}, {"port": "web", "protocol": "UDP"}]}
                ],
            },
        },
        {"spec": {"policyTypes": ["Ingress"]}},
    ),
    Kind(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "endpointslices",
        {"addressType": "IPv4", "endpoints": []},
        {
            **labelled(app="a"),
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.9"], "conditions": {"ready": True}, "nodeName": "n", "zone": "z"}],
            "ports": [{"port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        },
        {"endpoints": [{"addresses": ["192.0.2.10"]}]},
    ),
    Kind(
        "coordination.k8s.io/v1",
        "Lease",
        "leases",
        {},
        {
            **labelled(app="a"),
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "acquireTime": "2020-01-01T00:00:00.000000Z",
                "renewTime": "2020-01-01T00:00:01.500000Z",
                "leaseTransitions": 2,
            },
        },
        {"spec": {"holderIdentity": "you", "leaseTransitions": 3}},
    ),
    Kind(
        "events.k8s.io/v1",
        "Event",
        "events",
        {
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "reportingController": "example.com/test",
            "reportingInstance": "i",
            "action": "Doing",
            "reason": "Odd",
            "type": "Normal",
        },
        {
            **labelled(app="a"),
            "eventTime": "2020-01-01T00:00:00.123456Z",
            "reportingController": "example.com/test",
            "reportingInstance": "i",
            "action": "Binding",
            "reason": "Scheduled",
            "type": "Normal",
            "note": "a note",
            "regarding": {"kind": "Pod", "namespace": "{ns}", "name": "p", "apiVersion": "v1"},
            "related": {"kind": "Node", "name": "n"},
        },
        {"series": {"count": 2, "lastObservedTime": "2020-01-02T00:00:00.000000Z"}},
    ),
)
