"""Pod specs: the smallest one, and one that touches most fields that the server fills in or canonicalises."""

from __future__ import annotations

from typing import Any

SMALL_POD_SPEC: dict[str, Any] = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}

RICH_POD_SPEC: dict[str, Any] = {
    "schedulingGates": [{"name": "example.com/hold"}, {"name": "second"}],
    "terminationGracePeriodSeconds": 5,
    "activeDeadlineSeconds": 600,
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.1.1.1"], "searches": ["a.example"], "options": [{"name": "ndots", "value": "2"}]},
    "hostAliases": [{"ip": "10.2.2.2", "hostnames": ["one.example", "two.example"]}],
    "nodeSelector": {"disk": "ssd"},
    "priorityClassName": "system-node-critical",
    "serviceAccountName": "robot",
    "automountServiceAccountToken": False,
    "shareProcessNamespace": True,
    "hostname": "host",
    "subdomain": "sub",
    "setHostnameAsFQDN": False,
    "enableServiceLinks": False,
    "preemptionPolicy": "PreemptLowerPriority",
    "imagePullSecrets": [{"name": "pull"}],
    "securityContext": {
        "runAsUser": 1000,
        "fsGroup": 2000,
        "supplementalGroups": [3000],
        "seccompProfile": {"type": "RuntimeDefault"},
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}],
    },
    "tolerations": [
        {"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
        {"key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                }
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        },
    },
    "initContainers": [
        {"name": "prepare", "image": "registry.example/prepare", "command": ["true"]},
        {"name": "sidecar", "image": "registry.example/sidecar:latest", "restartPolicy": "Always"},
    ],
    "containers": [
        {
            "name": "main",
            "image": "registry.example/app:1.2",
            "args": ["--flag"],
            "ports": [{"containerPort": 80}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}],
            "env": [
                {"name": "PLAIN", "value": "1"},
                {"name": "EMPTY"},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            ],
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
            "resources": {
                "limits": {"cpu": 1.5, "memory": "1024Mi", "example.com/gpu": "2"},
                "requests": {"cpu": "500m", "memory": "0.5Gi"},
            },
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "readinessProbe": {"tcpSocket": {"port": "dns"}, "periodSeconds": 3},
            "startupProbe": {"exec": {"command": ["true"]}, "failureThreshold": 30},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "config", "mountPath": "/config", "readOnly": True, "subPath": "a"},
            ],
        }
    ],
    "volumes": [
        {"name": "data", "emptyDir": {"sizeLimit": "1000Mi"}},
        {"name": "config", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "down", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "t"}},
                    {"configMap": {"name": "c"}},
                    {"secret": {"name": "s"}},
                ]
            },
        },
        {
            "name": "own",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
                }
            },
        },
    ],
}


def pod_template(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "a"}}, "spec": {**(spec or SMALL_POD_SPEC), **more}}


def template_of_a_deployment() -> dict[str, Any]:
    """The rich spec without what only a pod by itself may have."""
    left_out = ("activeDeadlineSeconds", "priorityClassName")
    return pod_template({key: value for key, value in RICH_POD_SPEC.items() if key not in left_out})
