"""Pods with volumes and their storage: the same for each scheduler, in its own namespace and storage classes.

Every pod fits on at most one node, because kube-scheduler chooses among equal nodes at random. Names of cluster-scoped
objects end with the side that they belong to.
"""

from __future__ import annotations

from typing import Any

from clusters import a_node, a_pod
from storage import HOST, WAITS, ZONE, claims

Object = dict[str, Any]
Made = tuple[str, Object]
"""The path of a collection, and what is made there."""

NODES = [a_node(f"n{i}", labels={HOST: f"n{i}", ZONE: zone}, pods="110") for i, zone in ((1, "a"), (2, "b"), (3, "c"))]
ZONE_B = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
NO_PROVISIONER = "kubernetes.io/no-provisioner"
STORAGE = "/apis/storage.k8s.io/v1"


def csi_nodes(sides: list[str]) -> list[Made]:
    """One volume of the driver ``limited`` of each side on each node."""
    drivers = [{"name": f"limited-{side}", "nodeID": "x", "allocatable": {"count": 1}} for side in sides]
    found = ({"metadata": {"name": each["metadata"]["name"]}, "spec": {"drivers": drivers}} for each in NODES)
    return [(f"{STORAGE}/csinodes", each) for each in found]


def storage(side: str) -> list[Made]:
    """In the order in which it is to be made: claims last, so that volumes are there when they are looked for."""
    return [
        *_classes(side),
        (f"{STORAGE}/csidrivers", {"metadata": {"name": f"tight-{side}"}, "spec": {"storageCapacity": True}}),
        _capacity(side, "a", "1Gi"),
        _capacity(side, "b", "10Gi"),
        *(_volume(side, *each[:-1], **each[-1]) for each in _VOLUMES),
        *(_claim(side, *each[:-1], **each[-1]) for each in _CLAIMS),
    ]


def _classes(side: str) -> list[Made]:
    made = [_class(f"{name}-{side}", NO_PROVISIONER, WAITS) for name in ("local", "small", "pair", "none", "given")]
    made.append(_class(f"now-{side}", NO_PROVISIONER, "Immediate"))
    made.append(_class(f"zonal-{side}", f"made-{side}", WAITS, allowedTopologies=ZONE_B))
    return [*made, _class(f"tight-{side}", f"tight-{side}", WAITS)]


def _class(name: str, provisioner: str, mode: str, **more: Any) -> Made:
    wire = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return f"{STORAGE}/storageclasses", wire


def _capacity(side: str, zone: str, size: str) -> Made:
    topology = {"matchLabels": {ZONE: zone}}
    wire = {"metadata": {"name": zone}, "storageClassName": f"tight-{side}", "nodeTopology": topology, "capacity": size}
    return f"{STORAGE}/namespaces/{side}/csistoragecapacities", wire


# Name, class, size, host or nothing; then what is special.
_VOLUMES: list[Any] = [
    ("here", "", "1Gi", "n2", {"claim": "here"}),
    ("away", "", "1Gi", "n9", {"claim": "away"}),
    ("tight", "local", "1Gi", "n1", {}),
    ("wide", "local", "3Gi", "n2", {}),
    ("five", "small", "5Gi", "n1", {}),
    ("three", "small", "3Gi", "n1", {}),
    ("four", "small", "4Gi", "n1", {}),
    ("block", "small", "2Gi", "n1", {"volumeMode": "Block"}),
    ("shared", "small", "2Gi", "n1", {"accessModes": ["ReadWriteMany"]}),
    ("one", "pair", "1Gi", "n1", {}),
    ("two", "pair", "1Gi", "n3", {}),
    ("more", "pair", "9Gi", "n3", {}),
    ("free", "given", "1Gi", "n1", {}),
    ("given", "given", "4Gi", "n3", {"claim": "given"}),
    ("zoned", "", "1Gi", "", {"claim": "zoned", "labels": {ZONE: "x__b"}}),
    ("solo", "", "1Gi", "n1", {"claim": "solo", "accessModes": ["ReadWriteOncePod"]}),
    ("first", "", "1Gi", "n1", {"claim": "first", "csi": "limited"}),
    ("second", "", "1Gi", "n1", {"claim": "second", "csi": "limited"}),
]


def _volume(side: str, name: str, on_class: str, size: str, host: str, **more: Any) -> Made:
    spec: Object = {"capacity": {"storage": size}, "accessModes": more.pop("accessModes", ["ReadWriteOnce"])}
    spec |= {"storageClassName": f"{on_class}-{side}" if on_class else ""}
    if host:
        wanted = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [host]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [wanted]}}
    if "claim" in more:
        spec["claimRef"] = {"namespace": side, "name": more.pop("claim")}
    metadata = {"name": f"{name}-{side}", "labels": more.pop("labels", {})}
    if "csi" in more:
        spec["csi"] = {"driver": f"{more.pop('csi')}-{side}", "volumeHandle": name}
    else:
        spec["hostPath"] = {"path": "/x"}
    return "/api/v1/persistentvolumes", {"metadata": metadata, "spec": {**spec, **more}}


# Name, class (of the side), size; then what is special.
_CLAIMS: list[Any] = [
    ("here", "", "1Gi", {}),
    ("away", "", "1Gi", {}),
    ("nobody", "", "1Gi", {}),
    ("now", "now", "1Gi", {}),
    ("wide", "local", "2Gi", {}),
    ("small", "small", "2Gi", {}),
    ("pair-a", "pair", "1Gi", {}),
    ("pair-b", "pair", "1Gi", {}),
    ("none", "none", "1Gi", {}),
    ("given", "given", "1Gi", {}),
    ("zonal", "zonal", "1Gi", {}),
    ("fits", "tight", "5Gi", {}),
    ("huge", "tight", "50Gi", {}),
    ("zoned", "", "1Gi", {}),
    ("solo", "", "1Gi", {"accessModes": ["ReadWriteOncePod"]}),
    ("first", "", "1Gi", {}),
    ("second", "", "1Gi", {}),
    ("foreign-scratch", "", "1Gi", {}),
    ("leaving", "none", "1Gi", {"finalizers": ["example.com/stays"]}),
    ("lost", "", "1Gi", {"volumeName": "never-there", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}),
]


def _claim(side: str, name: str, on_class: str, size: str, **more: Any) -> Made:
    metadata: Object = {"name": name, **{key: more.pop(key) for key in ("finalizers", "annotations") if key in more}}
    spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
    spec["storageClassName"] = f"{on_class}-{side}" if on_class else ""
    return f"/api/v1/namespaces/{side}/persistentvolumeclaims", {"metadata": metadata, "spec": spec}


def pods(side: str, scheduler: str) -> list[list[Object]]:
    """Those of a round come when those of the round before are decided."""
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": _template()}}}]
    disk = [
        {"name": "disk", "iscsi": {"targetPortal": "127.0.0.1", "iqn": f"iqn.2026-01.com.example:{side}", "lun": 0}}
    ]
    of_claim = (
        *("here", "away", "nobody", "now", "wide", "small", "none", "given", "zonal", "fits", "huge", "zoned"),
        *("solo", "first", "leaving", "lost", "unknown"),
    )
    rounds = [
        [
            *(a_pod(each, volumes=claims(each)) for each in of_claim),
            a_pod("pair", volumes=claims("pair-b", "pair-a")),
            a_pod("mixed", volumes=claims("away", "wide", "none")),
            a_pod("ephemeral", volumes=scratch),
            a_pod("foreign", volumes=scratch),
            a_pod("disk", volumes=disk, nodeSelector={HOST: "n1"}),
        ],
        [
            a_pod("solo-too", volumes=claims("solo")),
            a_pod("second", volumes=claims("second")),
            a_pod("first-too", volumes=claims("first")),
            a_pod("disk-too", volumes=disk, nodeSelector={HOST: "n1"}),
        ],
    ]
    return [[_for(side, scheduler, each) for each in one] for one in rounds]


def _template() -> Object:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def _for(side: str, scheduler: str, pod: Object) -> Object:
    metadata = {"name": pod["metadata"]["name"], "namespace": side}
    return {"metadata": metadata, "spec": {**pod["spec"], "schedulerName": scheduler}}
