"""Bodies in protobuf, whole and damaged, and objects to send as such. Used by ``test_http_protobuf.py``."""

from __future__ import annotations

from harness.objects import config_map, pod
from harness.protobuf import MAGIC, envelope, message, number, octets, varint

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
POD = "io.k8s.api.core.v1.Pod"


def body(*fields: bytes) -> bytes:
    """A ConfigMap named x, with more bytes at the end."""
    return envelope("v1", "ConfigMap", message(CONFIG_MAP, config_map("x")) + b"".join(fields))


def named(api_version: str, kind: str) -> bytes:
    return envelope(api_version, kind, message(CONFIG_MAP, config_map("x")))


GOOD = body()
META = octets(1, octets(1, "x"))
BODIES = {
    "empty": b"",
    "the magic alone": MAGIC,
    "half of the magic": b"k8",
    "another magic": b"k9s\x00" + GOOD[4:],
    "no magic": GOOD[4:],
    "json": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}',
    "cut in the envelope": GOOD[: len(GOOD) // 2],
    "cut in the first tag": MAGIC + b"\x8a",
    "cut by a byte": GOOD[:-1],
    "garbage behind it": GOOD + b"\xff\xff\xff\xff",
    "an unknown field behind it": GOOD + octets(9, "odd"),
    "zeros behind it": GOOD + b"\x00\x00",
    "no kind": envelope("v1", "", message(CONFIG_MAP, config_map("x"))),
    "no version": envelope("", "ConfigMap", message(CONFIG_MAP, config_map("x"))),
    "no type at all": MAGIC + octets(2, message(CONFIG_MAP, config_map("x"))),
    "no object": envelope("v1", "ConfigMap", b""),
    "neither type nor object": MAGIC + octets(3, "x"),
    "another kind": envelope("v1", "Secret", message(CONFIG_MAP, config_map("x"))),
    "a list": envelope("v1", "ConfigMapList", octets(2, META)),
    "a kind of another group": named("apps/v1", "Deployment"),
    "an unknown kind": named("v1", "Odd"),
    "an unknown version": named("v9", "ConfigMap"),
    "an unknown group": named("odd.example/v1", "ConfigMap"),
    "a version of three parts": named("a/b/c", "ConfigMap"),
    "a kind without protobuf": named("meta.k8s.io/v1", "Table"),
    "an unknown content encoding": GOOD + octets(3, "odd"),
    "an unknown content type": GOOD + octets(4, "application/odd"),
    "the type twice": GOOD + octets(1, octets(2, "Secret")),
    "the object twice": GOOD + octets(2, octets(1, octets(1, "y"))),
    "a number for the type": MAGIC + number(1, 1) + octets(2, META),
    "a number for the object": MAGIC + octets(1, octets(1, "v1") + octets(2, "ConfigMap")) + number(2, 1),
    "a number for the kind": MAGIC + octets(1, number(2, 1)) + octets(2, META),
    "a number for the metadata": envelope("v1", "ConfigMap", number(1, 1)),
    "a number for the name": envelope("v1", "ConfigMap", octets(1, number(1, 1))),
    "text for a number": envelope("v1", "ConfigMap", octets(1, octets(1, "x") + octets(7, "1"))),
    "text for a flag": body(octets(4, "true")),
    "a fixed number for a flag": body(varint(4 << 3 | 5) + b"\x01\x00\x00\x00"),
    "an unknown field": body(octets(99, "odd"), number(98, 7), varint(97 << 3 | 1) + b"12345678"),
    "an unknown group of fields": body(varint(99 << 3 | 3) + number(1, 1) + varint(99 << 3 | 4)),
    "an open group": body(varint(99 << 3 | 3) + number(1, 1)),
    "a group that was never opened": body(varint(99 << 3 | 4)),
    "a field with the number zero": body(number(0, 1)),
    "a field with a huge number": body(number(1 << 40, 1)),
    "a wire type that does not exist": body(varint(99 << 3 | 7)),
    "a length beyond the end": body(varint(99 << 3 | 2) + varint(1000)),
    "a length of more than all memory": body(varint(99 << 3 | 2) + varint((1 << 62) + 1)),
    "a negative length": body(varint(1 << 3 | 2) + varint(-1)),
    "a negative length of an unknown field": body(varint(99 << 3 | 2) + varint(-1)),
    "a number that never ends": body(varint(4 << 3) + b"\xff" * 20),
    "a tag that never ends": body(b"\xff" * 20),
    "a fixed number that is cut": body(varint(99 << 3 | 1) + b"123"),
    "metadata in two parts": body(octets(1, octets(11, octets(1, "a") + octets(2, "b")))),
    "an entry without a value": body(octets(2, octets(1, "a"))),
    "an entry without a key": body(octets(2, octets(2, "a"))),
    "an empty entry": body(octets(2, b"")),
    "an entry with an unknown field": body(octets(2, octets(1, "a") + octets(2, "b") + number(3, 1))),
    "an entry that is cut": body(octets(2, octets(1, "a") + varint(2 << 3 | 2) + varint(9))),
    "a key twice": body(octets(2, octets(1, "a") + octets(2, "1")), octets(2, octets(1, "a") + octets(2, "2"))),
    "bytes that are no text": body(octets(2, octets(1, "a") + octets(2, b"\xff\xfe"))),
    "bytes where bytes belong": body(octets(3, octets(1, "a") + octets(2, b"\xff\xfe\x00"))),
    "the same key in both maps": body(octets(2, octets(1, "a")), octets(3, octets(1, "a"))),
    "a flag of two": body(number(4, 2)),
    "a number of more than 64 bits": envelope(
        "v1", "ConfigMap", octets(1, octets(1, "x") + varint(7 << 3) + b"\xff" * 9 + b"\x7f")
    ),
}


def pod_with(spec: bytes) -> bytes:
    return envelope("v1", "Pod", message(POD, pod("p")) + octets(2, spec))


PODS_IN_BYTES = {
    "a packed list": pod_with(octets(14, octets(4, varint(1) + varint(2) + varint(300)))),
    "a list that is packed in part": pod_with(octets(14, octets(4, varint(1)) + number(4, 2))),
    "a packed list that is cut": pod_with(octets(14, octets(4, varint(1) + b"\x80"))),
    "a quantity that is none": pod_with(octets(32, octets(1, "cpu") + octets(2, octets(1, "odd")))),
    "a quantity that is empty": pod_with(octets(32, octets(1, "cpu") + octets(2, octets(1, "")))),
    "a quantity without a value": pod_with(octets(32, octets(1, "cpu") + octets(2, b""))),
    "a number too large for its field": pod_with(octets(13, number(2, (1 << 40) + 7))),
    "a negative number": pod_with(number(4, -5)),
    "an explicit zero behind a pointer": pod_with(number(4, 0)),
    "an explicit false behind a pointer": pod_with(number(21, 0)),
    "an empty struct behind a pointer": pod_with(octets(14, b"")),
    "gates": pod_with(octets(38, octets(1, "a.example/b")) + octets(38, octets(1, ""))),
}
TIMES = {
    "a time before 1970": octets(9, number(1, -1)),
    "a time with a fraction": octets(9, number(1, 1_700_000_000) + number(2, 999_999_999)),
    "an empty time": octets(9, b""),
    "the zero time": octets(9, number(1, -62135596800)),
}


def a_pod_deleted_at(time: bytes) -> bytes:
    return envelope("v1", "Pod", octets(1, octets(1, "p") + time) + message(POD, {**pod("p"), "metadata": {}}))


EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "{ns}"},
    "eventTime": "2026-11-15T10:00:00.123456Z",
    "action": "Act",
    "reason": "Why",
    "type": "Normal",
    "reportingController": "c.example/x",
    "reportingInstance": "i",
    "regarding": {"kind": "Pod", "namespace": "{ns}", "name": "p"},
    "series": {"count": 2, "lastObservedTime": "2026-11-15T10:00:01.000001Z"},
}
POLICY = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"maxUnavailable": "30%", "selector": {"matchLabels": {"a": "b"}}},
}
REVISION = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": {"name": "r"},
    "revision": 1,
    "data": {"a": [1, {"b": None}], "c": 1.5},
}
REVISIONS = "/apis/apps/v1/namespaces/{ns}/controllerrevisions"
REVISION_TYPE = "io.k8s.api.apps.v1.ControllerRevision"
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}},
}
REVIEW_OF_ANOTHER = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
        "user": "jane",
        "groups": ["a", "b"],
        "extra": {"scopes": ["x", "y"], "none": []},
    },
}
LOCAL_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "LocalSubjectAccessReview",
    "metadata": {"namespace": "{ns}"},
    "spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}, "user": "jane"},
}
TOKEN_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "odd"}}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}-more"}}
DEBUGGER = {"name": "d", "image": "i", "targetContainerName": "main", "tty": True}
RESIZED = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "100m"}}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "{ns}"}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "{ns}"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": "25%"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10.5, "default": 3},
                "words": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "open": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.protobuf.example"},
    "spec": {
        "group": "protobuf.example",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
THINGS = "/apis/protobuf.example/v1/namespaces/{ns}/things"
THING = {"apiVersion": "protobuf.example/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"words": ["a"]}}
IN_BYTES = envelope("protobuf.example/v1", "Thing", octets(1, octets(1, "t")))
