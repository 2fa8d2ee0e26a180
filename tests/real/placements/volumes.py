"""Random storage: claims that are bound, wait for a volume, or never get one, with volumes, classes and limits.

Every case has classes of its own, so the volumes of one case are of no use to the pods of another, and all of them can
be there from the beginning. No two volumes of a case are equally large: of equals kube-scheduler takes any.
"""

from __future__ import annotations

from random import Random
from typing import Any

from real.placements.nodes import HOSTNAME, ZONE

Object = dict[str, Any]

DRIVER, COUNTED = "disk.example.com", "counted.example.com"
NOBODY = "kubernetes.io/no-provisioner"
REGION = "topology.kubernetes.io/region"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
MIGRATED = "pd.csi.storage.gke.io"

CLASSES = {
    "local": (NOBODY, "WaitForFirstConsumer"),
    "now": (NOBODY, "Immediate"),
    "made": (DRIVER, "WaitForFirstConsumer"),
    "counted": (COUNTED, "WaitForFirstConsumer"),
}

STANDING: tuple[Object, ...] = (
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": COUNTED},
        "spec": {"storageCapacity": True},
    },
)


class Storage:
    """The objects of a case in the order in which they are created, and the names of claims. A claim that waits for a
    pod is used by one pod only: several pods would all write the selected node, and all but the first would be tried
    again."""

    def __init__(self, draw: Random, prefix: str, nodes: list[str]) -> None:
        self._draw = draw
        self._prefix = prefix
        self._nodes = nodes
        self._sizes = draw.sample(range(1000, 9000, 137), 20)
        self.objects: list[Object] = []
        self.shared: list[str] = [f"{prefix}-never-made"]
        self.waiting: list[str] = []
        self._classes: set[str] = set()
        self._add_limits()
        kinds = (self._has_volume, self._finds_volume, self._is_made, self._is_stuck, self._is_promised)
        weights = (5, 4, 3, 1, 1)
        for number in range(draw.randint(2, 5)):
            (add,) = draw.choices(kinds, weights)
            add(f"{prefix}-{number}")

    def _add_class(self, name: str) -> None:
        draw, (provisioner, mode) = self._draw, CLASSES[name]
        found = self._add("storage.k8s.io/v1", "StorageClass", name)
        found |= {"provisioner": provisioner, "volumeBindingMode": mode}
        if provisioner != NOBODY and draw.random() < 0.4:
            zones = draw.sample(["north", "south", "west"], draw.choice([1, 2]))
            found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
        if provisioner == COUNTED:
            self._add_capacities()

    def _add_capacities(self) -> None:
        draw = self._draw
        for zone in draw.sample(["north", "south", "west"], draw.choice([0, 1, 2])):
            capacity = self._add("storage.k8s.io/v1", "CSIStorageCapacity", zone)
            capacity["metadata"]["namespace"] = "default"
            capacity |= {"storageClassName": f"{self._prefix}-counted", "nodeTopology": {"matchLabels": {ZONE: zone}}}
            capacity["capacity"] = draw.choice(["1Gi", "20Gi"])
            if draw.random() < 0.3:
                capacity["maximumVolumeSize"] = "2Gi"

    def _add_limits(self) -> None:
        for name in self._nodes:
            if self._draw.random() < 0.4:
                drivers = [
                    {"name": driver, "nodeID": name, "allocatable": {"count": self._draw.choice([0, 1, 1, 2, 3])}}
                    for driver in (DRIVER, COUNTED, MIGRATED)
                    if self._draw.random() < 0.7
                ]
                found = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
                self.objects.append({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", **found})

    # -- claims -------------------------------------------------------------------------------------------------------

    def _has_volume(self, name: str) -> None:
        self.shared.append(name)
        claim = self._claim(name, self._draw.choice(["local", "made", ""]))
        claim["spec"]["volumeName"] = name
        claim["metadata"]["annotations"] = BOUND
        if self._draw.random() < 0.9:  # else the volume is gone
            volume = self._volume(name, "made")
            volume["spec"]["claimRef"] = {"namespace": "default", "name": name}

    def _finds_volume(self, name: str) -> None:
        """If it is lucky: there are some volumes, not all within reach or large enough."""
        self.waiting.append(name)
        claim = self._claim(name, "local")
        if self._draw.random() < 0.3:
            claim["spec"]["selector"] = {"matchLabels": {"speed": self._draw.choice(["fast", "slow"])}}
        for number in range(self._draw.randint(0, 3)):
            volume = self._volume(f"{name}-{number}", "local")
            volume["status"] = {"phase": "Available"}

    def _is_made(self, name: str) -> None:
        self.waiting.append(name)
        self._claim(name, self._draw.choice(["made", "counted"]))

    def _is_stuck(self, name: str) -> None:
        self.shared.append(name)
        claim = self._claim(name, self._draw.choice(["now", "no-such-class", ""]))
        if self._draw.random() < 0.3:
            claim["spec"]["volumeName"] = name  # half bound

    def _is_promised(self, name: str) -> None:
        """A volume is kept for the claim, which does not know of it yet."""
        self.waiting.append(name)
        self._claim(name, "local")
        self._volume(name, "local")["spec"]["claimRef"] = {"namespace": "default", "name": name}

    def _claim(self, name: str, storage_class: str) -> Object:
        if storage_class in CLASSES and storage_class not in self._classes:
            self._classes.add(storage_class)
            self._add_class(storage_class)
        claim: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "accessModes": [self._draw.choice([*5 * ["ReadWriteOnce"], "ReadWriteOncePod", "ReadOnlyMany"])],
                "resources": {"requests": {"storage": f"{self._draw.choice([1000, 2500, 5000])}Mi"}},
                "storageClassName": f"{self._prefix}-{storage_class}" if storage_class else "",
            },
        }
        self.objects.append(claim)
        return claim

    # -- volumes ------------------------------------------------------------------------------------------------------

    def _volume(self, name: str, storage_class: str) -> Object:
        draw = self._draw
        labels = {"speed": draw.choice(["fast", "slow"])}
        if draw.random() < 0.25:
            labels[draw.choice([ZONE, f"failure-domain.beta.{ZONE.partition('.')[2]}"])] = draw.choice(
                ["north", "south", "north__west"]
            )
        sources: list[Object] = [
            {"hostPath": {"path": "/data"}},
            {"csi": {"driver": DRIVER, "volumeHandle": name}},
            {"csi": {"driver": COUNTED, "volumeHandle": name}},
            {"gcePersistentDisk": {"pdName": name}},
        ]
        volume: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "accessModes": draw.choice([*3 * [["ReadWriteOnce", "ReadOnlyMany"]], ["ReadWriteOncePod"]]),
                "capacity": {"storage": f"{self._sizes.pop()}Mi"},
                "storageClassName": f"{self._prefix}-{storage_class}",
                **draw.choice(sources),
            },
        }
        if draw.random() < 0.6:
            key, values = draw.choice(
                [
                    (HOSTNAME, draw.sample(self._nodes, min(len(self._nodes), draw.choice([1, 2])))),
                    (ZONE, draw.sample(["north", "south", "west"], draw.choice([1, 2]))),
                ]
            )
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
            volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        self.objects.append(volume)
        return volume

    def _add(self, version: str, kind: str, name: str) -> Object:
        found: Object = {"apiVersion": version, "kind": kind, "metadata": {"name": f"{self._prefix}-{name}"}}
        self.objects.append(found)
        return found


def add_volumes(draw: Random, spec: Object, storage: Storage) -> None:
    """Claims, disks that the pod names itself, and some that are of no interest."""
    volumes: list[Object] = []
    if draw.random() < 0.7:
        chosen = {draw.choice(storage.shared)} if draw.random() < 0.5 else set()
        for _ in range(min(len(storage.waiting), draw.choice([0, 1, 1, 2]))):
            chosen.add(storage.waiting.pop())
        volumes += ({"persistentVolumeClaim": {"claimName": each}} for each in sorted(chosen))
    if draw.random() < 0.2:
        name, reads = f"disk-{draw.choice('12')}", draw.random() < 0.5
        volumes.append(
            draw.choice(
                [
                    {"gcePersistentDisk": {"pdName": name, "readOnly": reads}},
                    {"awsElasticBlockStore": {"volumeID": name, "readOnly": reads}},
                    {"iscsi": {"targetPortal": "10.0.0.1", "iqn": f"iqn.2001-04.com.example:{name}", "lun": 0}},
                    {"rbd": {"monitors": ["10.0.0.1", "10.0.0.2"], "image": name, "readOnly": reads}},
                ]
            )
        )
    if draw.random() < 0.05:
        template = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volumes.append({"ephemeral": {"volumeClaimTemplate": {"spec": template}}})
    if draw.random() < 0.2:
        volumes.append({"emptyDir": {}})
    if volumes:
        spec["volumes"] = [{"name": f"v{i}", **each} for i, each in enumerate(volumes)]
