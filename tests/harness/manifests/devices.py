"""Manifests of dynamic resource allocation, of admission policies, and of the address kinds behind services."""

from __future__ import annotations

from typing import Any

from harness.manifests.kind import Kind, labelled

REQUEST: dict[str, Any] = {"name": "r", "exactly": {"deviceClassName": "gpu.example"}}
RICH_CLAIM: dict[str, Any] = {
    "devices": {
        "requests": [
            {
                "name": "a",
                "exactly": {
                    "deviceClassName": "gpu.example",
                    "allocationMode": "ExactCount",
                    "count": 2,
                    "selectors": [{"cel": {"expression": 'device.driver == "gpu.example"'}}],
                },
            },
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu.example"}]},
        ],
        "constraints": [{"requests": ["a"], "matchAttribute": "gpu.example/numa"}],
        "config": [{"requests": ["a", "b/x"], "opaque": {"driver": "gpu.example", "parameters": {"speed": 1}}}],
    }
}
POLICY: dict[str, Any] = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["nothing.example"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["nothings"],
            }
        ]
    },
    "validations": [{"expression": "true"}],
}

DEVICE_KINDS: tuple[Kind, ...] = (
    Kind(
        "resource.k8s.io/v1",
        "DeviceClass",
        "deviceclasses",
        {"spec": {}},
        {
            **labelled(app="a"),
            "spec": {
                "selectors": [{"cel": {"expression": 'device.driver == "gpu.example"'}}],
                "config": [{"opaque": {"driver": "gpu.example", "parameters": {"speed": 1}}}],
                "extendedResourceName": "gpu.example/gpu",
            },
        },
        {"spec": {"selectors": None}},
        namespaced=False,
    ),
    Kind(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "resourceclaims",
        {"spec": {"devices": {"requests": [REQUEST]}}},
        {**labelled(app="a"), "spec": RICH_CLAIM},
        {"metadata": {"labels": {"more": "yes"}}},
        has_status=True,
        status={"status": {"reservedFor": []}},
    ),
    Kind(
        "resource.k8s.io/v1",
        "ResourceClaimTemplate",
        "resourceclaimtemplates",
        {"spec": {"spec": {"devices": {"requests": [REQUEST]}}}},
        {**labelled(app="a"), "spec": {"metadata": {"labels": {"a": "b"}}, "spec": RICH_CLAIM}},
        {"metadata": {"labels": {"more": "yes"}}},
    ),
    Kind(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "resourceslices",
        {"spec": {"driver": "gpu.example", "nodeName": "n", "pool": {"name": "p", "resourceSliceCount": 1}}},
        {
            **labelled(app="a"),
            "spec": {
                "driver": "gpu.example",
                "nodeSelector": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                },
                "pool": {"name": "rack/p", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "model": {"string": "x"},
                            "numa": {"int": 1},
                            "fast": {"bool": True},
                            "gpu.example/driver": {"version": "1.2.3-rc.1"},
                        },
                        "capacity": {"memory": {"value": "1024Mi"}, "gpu.example/cores": {"value": "4"}},
                    },
                    {"name": "gpu-1", "taints": [{"key": "broken", "effect": "NoSchedule"}]},
                ],
            },
        },
        {"spec": {"pool": {"generation": 2}}},
        namespaced=False,
    ),
    Kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        {"spec": POLICY},
        {
            **labelled(app="a"),
            "spec": {
                **POLICY,
                "failurePolicy": "Ignore",
                "validations": [{"expression": "object.spec.x > 1", "message": "too small", "reason": "Invalid"}],
                "matchConditions": [{"name": "always", "expression": "true"}],
                "variables": [{"name": "v", "expression": "1"}],
                "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}],
            },
        },
        {"spec": {"failurePolicy": "Fail"}},
        namespaced=False,
        has_status=True,
        status={"status": {"observedGeneration": 1, "conditions": []}},
    ),
    Kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        {"spec": {"policyName": "none.example", "validationActions": ["Deny"]}},
        {
            **labelled(app="a"),
            "spec": {
                "policyName": "none.example",
                "validationActions": ["Warn", "Audit"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
                "paramRef": {"name": "p", "parameterNotFoundAction": "Allow"},
            },
        },
        {"spec": {"validationActions": ["Deny"]}},
        namespaced=False,
    ),
    Kind(
        "networking.k8s.io/v1",
        "ServiceCIDR",
        "servicecidrs",
        {"spec": {"cidrs": ["10.77.0.0/24"]}},
        {**labelled(app="a"), "spec": {"cidrs": ["10.78.0.0/24", "fd00:1234::/112"]}},
        {"metadata": {"labels": {"more": "yes"}}},
        namespaced=False,
        has_status=True,
        status={"status": {"conditions": []}},
    ),
)
