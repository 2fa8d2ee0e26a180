"""Manifests of claims, volumes, storage classes and what drivers register."""

from __future__ import annotations

from harness.manifests.kind import Kind, labelled

STORAGE_KINDS: tuple[Kind, ...] = (
    Kind(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
        {
            **labelled(app="a"),
            "spec": {
                "accessModes": ["ReadWriteMany", "ReadOnlyMany"],
                "resources": {"requests": {"storage": "2048Mi"}, "limits": {"storage": "4Gi"}},
                "storageClassName": "",
                "volumeMode": "Block",
                "selector": {"matchLabels": {"disk": "fast"}},
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "other"},
            },
        },
        {"metadata": {"labels": {"more": "yes"}}},
        has_status=True,
        status={"status": {"phase": "Bound", "capacity": {"storage": "2048Mi"}, "accessModes": ["ReadWriteMany"]}},
    ),
    Kind(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}},
        {
            **labelled(app="a"),
            "spec": {
                "capacity": {"storage": "1024Mi"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "fast",
                "mountOptions": ["hard"],
                "csi": {"driver": "d.example", "volumeHandle": "h", "fsType": "ext4"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}]
                    }
                },
                "claimRef": {"namespace": "{ns}", "name": "c"},
            },
        },
        {"spec": {"persistentVolumeReclaimPolicy": "Retain"}},
        namespaced=False,
        has_status=True,
        status={
            "status": {
                "phase": "Released",
                "reason": "r",
                "message": "m",
                "lastPhaseTransitionTime": "2020-01-01T00:00:00Z",
            }
        },
    ),
    Kind(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        {"provisioner": "d.example"},
        {
            **labelled(app="a"),
            "provisioner": "d.example",
            "parameters": {"type": "fast"},
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
            "mountOptions": ["hard"],
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
        },
        {"allowVolumeExpansion": True},
        namespaced=False,
    ),
    Kind(
        "storage.k8s.io/v1",
        "CSIDriver",
        "csidrivers",
        {"spec": {}},
        {
            **labelled(app="a"),
            "spec": {"attachRequired": False, "podInfoOnMount": True, "fsGroupPolicy": "File", "storageCapacity": True},
        },
        {"spec": {"storageCapacity": False}},
        namespaced=False,
    ),
    Kind(
        "storage.k8s.io/v1",
        "CSINode",
        "csinodes",
        {"spec": {"drivers": []}},
        {
            **labelled(app="a"),
            "spec": {
                "drivers": [{"name": "d.example", "nodeID": "i", "topologyKeys": ["z"], "allocatable": {"count": 3}}]
            },
        },
        {"metadata": {"labels": {"more": "yes"}}},
        namespaced=False,
    ),
    Kind(
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        {"storageClassName": "fast"},
        {
            **labelled(app="a"),
            "storageClassName": "fast",
            "capacity": "2048Mi",
            "maximumVolumeSize": "1Gi",
            "nodeTopology": {"matchLabels": {"zone": "a"}},
        },
        {"capacity": "1Gi"},
    ),
    Kind(
        "storage.k8s.io/v1",
        "VolumeAttachment",
        "volumeattachments",
        {"spec": {"attacher": "d.example", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
        {
            **labelled(app="a"),
            "spec": {"attacher": "d.example", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
        },
        {"metadata": {"labels": {"more": "yes"}}},
        namespaced=False,
        has_status=True,
        status={"status": {"attached": True, "attachmentMetadata": {"a": "b"}}},
    ),
    Kind(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        {"driverName": "d.example", "parameters": {"iops": "1"}},
        {**labelled(app="a"), "driverName": "d.example", "parameters": {"iops": "1", "other": "2"}},
        {"metadata": {"labels": {"more": "yes"}}},
        namespaced=False,
    ),
)
