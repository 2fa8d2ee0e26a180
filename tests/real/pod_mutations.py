"""A pod that uses nearly every field, and what is wrong with it when one of them is.

Every place of the pod is removed, emptied, or given values that some rule somewhere objects to; most of the outcomes
are refused, each in its own words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Object = dict[str, Any]
Path = tuple[str | int, ...]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

TEXTS = ("", "Bad_Value!", "a" * 300, "a/b/c", "-x", "é", "../x", "/abs", "<x>&", "1.2.3.4", "a.b")
NUMBERS = (-1, 0, 65536, 2147483647, 101)
LABELS: tuple[Object, ...] = ({"Bad Key": "v"}, {"k": "bad value"}, {"a/b/c": "x"}, {"": "x"})
AMOUNTS: tuple[Object, ...] = (
    {"cpu": "-1"},
    {"memory": "100m"},
    {"bad": "1"},
    {"example.com/x": "1500m"},
    {"hugepages-2Mi": "3Mi"},
    {"requests.cpu": "1"},
    {"a/b/c": "1"},
)
# Admission refuses what it does not find, before any rule is asked.
_LOOKED_UP = ("priorityClassName", "runtimeClassName")
_SERVERS_OWN = ("uid", "resourceVersion", "managedFields", "namespace", "name")


def big_pod(name: str) -> Object:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}},
        {"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "ed", "path": "p", "key": "K"}}},
    ]
    main = {
        "name": "c1",
        "image": "nginx:1.25",
        "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}],
        "env": env,
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"},
            "requests": {"cpu": "500m", "memory": "512Mi"},
        },
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        "volumeMounts": [
            {"name": "ed", "mountPath": "/ed", "subPath": "x"},
            {"name": "cmv", "mountPath": "/cm", "readOnly": True, "recursiveReadOnly": "IfPossible"},
        ],
        "volumeDevices": [{"name": "pvc", "devicePath": "/dev/x"}],
        "livenessProbe": {"httpGet": {"path": "/h", "port": "http", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
        "readinessProbe": {"exec": {"command": ["ls"]}, "periodSeconds": 7, "successThreshold": 2},
        "startupProbe": {"grpc": {"port": 9000}, "terminationGracePeriodSeconds": 5},
        "lifecycle": {"postStart": {"httpGet": {"port": 80}}, "preStop": {"sleep": {"seconds": 5}}},
        "securityContext": {
            "runAsUser": 1000,
            "capabilities": {"add": ["NET_ADMIN"]},
            "allowPrivilegeEscalation": False,
            "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b"},
            "appArmorProfile": {"type": "RuntimeDefault"},
            "procMount": "Default",
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "livenessProbe": {"tcpSocket": {"port": 9}}}
    volumes = [
        {"name": "ed", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "hp", "hostPath": {"path": "/tmp", "type": "Directory"}},
        {"name": "cmv", "configMap": {"name": "cm", "items": [{"key": "k", "path": "p/q", "mode": 256}]}},
        {"name": "sec", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "pvc", "persistentVolumeClaim": {"claimName": "cl"}},
        {"name": "proj", "projected": {"sources": _projections()}},
        {"name": "nfs", "nfs": {"server": "srv", "path": "/x"}},
        {"name": "csi", "csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": "s"}}},
        {"name": "eph", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _claim()}}},
        {"name": "img", "image": {"reference": "quay.io/x/y:v1"}},
        {"name": "none"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "web", "example.com/tier": "a"},
            "annotations": {"note": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u1", "controller": True}],
        },
        "spec": {
            "initContainers": [{"name": "i1", "image": "x:1", "resources": {"limits": {"cpu": "1"}}}, sidecar],
            "containers": [main, {"name": "c2", "image": "y", "restartPolicy": "Never", "restartPolicyRules": [rule]}],
            "volumes": volumes,
            "affinity": _affinity(),
            **_small_fields(),
        },
    }


def _projections() -> list[Object]:
    return [
        {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}},
        {"downwardAPI": {"items": [{"path": "c", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"serviceAccountToken": {"path": "tok", "expirationSeconds": 3600}},
    ]


def _claim() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}


def _affinity() -> Object:
    term = {
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
    }
    weighted = {"weight": 5, "preference": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}}
    near = {
        "labelSelector": {"matchLabels": {"x": "y"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "topologyKey": "zone",
        "namespaces": ["ns"],
        "matchLabelKeys": ["example.com/tier"],
    }
    far = {"weight": 1, "podAffinityTerm": {"topologyKey": "t", "labelSelector": {}, "mismatchLabelKeys": ["app"]}}
    return {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}, PREFERRED: [weighted]},
        "podAffinity": {REQUIRED: [near]},
        "podAntiAffinity": {PREFERRED: [far]},
    }


def _small_fields() -> Object:
    return {
        "activeDeadlineSeconds": 100,
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["a.b"], "options": [{"name": "ndots"}]},
        "nodeSelector": {"disk": "ssd"},
        "serviceAccountName": "sa",
        "hostname": "h",
        "securityContext": {
            "fsGroup": 3,
            "supplementalGroups": [4],
            "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "imagePullSecrets": [{"name": "p"}],
        "schedulerName": "nobody",
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 9}],
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a.b"]}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}},
                "minDomains": 2,
                "matchLabelKeys": ["app"],
            }
        ],
        "readinessGates": [{"conditionType": "example.com/r"}],
        "schedulingGates": [{"name": "example.com/g"}, {"name": "foo"}],
        "os": {"name": "linux"},
    }


def mutations(obj: Object, *roots: str) -> Iterator[tuple[str, Callable[[], Object]]]:
    """Every place under ``roots``, wrong in every way: a name for it, and how to make it."""
    for path, value in _places(obj, roots):
        yield f"{_shown(path)} removed", partial(_with, obj, path, None)
        for other in _wrong(path[-1], value):
            yield f"{_shown(path)} = {json.dumps(other)[:60]}", partial(_with, obj, path, other)


def _places(value: Any, roots: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if len(path) > 1 and path[-1] not in _LOOKED_UP:
        yield path, value
    items: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    for key, inner in items:
        if (not path and key not in roots) or (path == ("metadata",) and key in _SERVERS_OWN):
            continue
        yield from _places(inner, roots, (*path, key))


def _wrong(key: str | int, value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case str():
            yield from TEXTS
        case int():
            yield from NUMBERS
        case list():
            yield []
            if key != "ownerReferences":  # the request handler removes repeated owners before validation
                yield [*value, *value[:1]]
            yield value[::-1] if len(value) > 1 else [*value, {} if isinstance(value[0], dict) else ""]
        case dict():
            yield {}
            if key in ("labels", "annotations", "nodeSelector", "matchLabels"):
                yield from LABELS
            if key in ("limits", "requests"):
                yield from AMOUNTS


def _with(obj: Object, path: Path, value: Any) -> Object:
    copied: Any = json.loads(json.dumps(obj))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    result: Object = copied
    return result


def _shown(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
