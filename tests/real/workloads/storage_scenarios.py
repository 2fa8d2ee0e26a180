"""Scenarios of claims and volumes. Names of volumes and classes hold the scenario's namespace: all share one cluster.

Volumes of the driver ``by-hand.example`` are made by the scenario, as a driver would.
"""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from real.workloads.pod_scenarios import bare
from real.workloads.scenario_cluster import WaitCondition, WorkloadCluster, scenario

WAITS, AT_ONCE = "WaitForFirstConsumer", "Immediate"
NO_PROVISIONER, BY_HAND = "kubernetes.io/no-provisioner", "by-hand.example"
SELECTED = "volume.kubernetes.io/selected-node"
GATED = [{"name": "example.com/wait"}]
"""So that a claim is sure to be looked at while its pod has no node."""


def volume(cluster: WorkloadCluster, name: str, size: str = "1Gi", claim: str = "", **spec: Any) -> Object:
    """Of the scenario's own class unless it says otherwise, so that no other scenario's claim gets it."""
    made = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": cluster.ns}
    source = {} if {"csi", "nfs"} & set(spec) else {"hostPath": {"path": "/nowhere"}}
    if claim:
        made["claimRef"] = {"namespace": cluster.ns, "name": claim}
    labels = spec.pop("labels", {})
    metadata = {"name": f"{name}-{cluster.ns}", "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**made, **source, **spec}}


def claim(cluster: WorkloadCluster, name: str, size: str = "1Gi", **spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    made = {"storageClassName": cluster.ns, **asked, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": made}


def storage_class(cluster: WorkloadCluster, provisioner: str, mode: str = AT_ONCE, **more: Any) -> Object:
    wire = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": cluster.ns}}
    return {**wire, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def user(name: str, claim_name: str, **spec: Any) -> Object:
    return bare(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}], **spec)


def claims_are(cluster: WorkloadCluster, **phases: str) -> WaitCondition:
    def seen() -> dict[str, str]:
        found = cluster.items(cluster.at("persistentvolumeclaims"))
        return {each["metadata"]["name"]: each["status"].get("phase", "") for each in found}

    return WaitCondition(f"claims are {phases}", lambda: seen() == phases, seen)


def volumes_are(cluster: WorkloadCluster, **phases: str) -> WaitCondition:
    def phase(name: str) -> str:
        answer = cluster.get(cluster.at(f"persistentvolumes/{name}-{cluster.ns}"))
        return str((answer.json().get("status") or {}).get("phase")) if answer.status == 200 else "gone"

    def seen() -> dict[str, str]:
        return {name: phase(name) for name in phases}

    return WaitCondition(f"volumes are {phases}", lambda: seen() == phases, seen)


def begin_bound(cluster: WorkloadCluster) -> None:
    cluster.create(volume(cluster, "v"))
    cluster.wait(volumes_are(cluster, v="Available"))
    cluster.create(claim(cluster, "c"))
    cluster.wait(claims_are(cluster, c="Bound"))


def let_go_when_told(cluster: WorkloadCluster) -> None:
    """The pod ``p`` may be scheduled as soon as its claim says that it waits for that."""
    cluster.wait(cluster.event("WaitForPodScheduled"))
    cluster.change("pods/p", {"spec": {"schedulingGates": None}})


def smallest_is_given(cluster: WorkloadCluster) -> None:
    cluster.create(*(volume(cluster, name, size) for name, size in (("s", "1Gi"), ("m", "3Gi"), ("l", "9Gi"))))
    cluster.checkpoint("volumes are there", volumes_are(cluster, s="Available", m="Available", l="Available"))
    cluster.create(claim(cluster, "c", "2Gi"))
    cluster.checkpoint("the one that fits is taken", claims_are(cluster, c="Bound"), volumes_are(cluster, m="Bound"))


def waits_for_a_volume(cluster: WorkloadCluster) -> None:
    cluster.create(
        storage_class(cluster, NO_PROVISIONER), claim(cluster, "c"), claim(cluster, "nothing", storageClassName="")
    )
    cluster.checkpoint("there is none", cluster.event("FailedBinding"), cluster.event("ProvisioningFailed"), words=True)
    cluster.create(volume(cluster, "v"))
    cluster.checkpoint("there is one", claims_are(cluster, c="Bound", nothing="Pending"), words=True)


def only_what_suits_is_given(cluster: WorkloadCluster) -> None:
    cluster.create(
        volume(cluster, "block", volumeMode="Block"),
        volume(cluster, "readonly", accessModes=["ReadOnlyMany"]),
        volume(cluster, "plain"),
        volume(cluster, "small", "1Mi", labels={"kind": "fast"}),
        volume(cluster, "many", "1Gi", labels={"kind": "fast"}, accessModes=["ReadWriteOnce", "ReadWriteMany"]),
        volume(cluster, "fast", "5Gi", labels={"kind": "fast"}),
    )
    cluster.wait(volumes_are(cluster, fast="Available", many="Available", plain="Available", small="Available"))
    cluster.create(claim(cluster, "c", selector={"matchLabels": {"kind": "fast"}}))
    cluster.checkpoint(
        "fewer modes go before smaller sizes", claims_are(cluster, c="Bound"), volumes_are(cluster, fast="Bound")
    )


def volume_is_meant_for_a_claim(cluster: WorkloadCluster) -> None:
    cluster.create(volume(cluster, "meant", "9Gi", claim="c"), volume(cluster, "free"))
    cluster.checkpoint("both are there", volumes_are(cluster, meant="Available", free="Available"))
    cluster.create(claim(cluster, "c"))
    cluster.checkpoint(
        "it gets what is meant for it", claims_are(cluster, c="Bound"), volumes_are(cluster, meant="Bound")
    )


def claim_names_its_volume(cluster: WorkloadCluster) -> None:
    cluster.create(claim(cluster, "c", volumeName=f"v-{cluster.ns}"))
    cluster.checkpoint("it waits", claims_are(cluster, c="Pending"))
    cluster.create(volume(cluster, "v"))
    cluster.checkpoint("it is bound", claims_are(cluster, c="Bound"), volumes_are(cluster, v="Bound"))
    cluster.create(claim(cluster, "d", volumeName=f"v-{cluster.ns}"))
    cluster.checkpoint(
        "the next one is not", cluster.event("FailedBinding"), claims_are(cluster, c="Bound", d="Pending"), words=True
    )


def named_volumes_do_not_suit(cluster: WorkloadCluster) -> None:
    cluster.create(
        volume(cluster, "small", "1Mi"),
        volume(cluster, "other", storageClassName=f"{cluster.ns}-other"),
        volume(cluster, "block", volumeMode="Block"),
        volume(cluster, "modes", accessModes=["ReadOnlyMany"]),
    )
    names = ("small", "other", "block", "modes")
    cluster.wait(volumes_are(cluster, **dict.fromkeys(names, "Available")))
    cluster.create(*(claim(cluster, name, volumeName=f"{name}-{cluster.ns}") for name in names))

    def message_count() -> int:
        return len({each["message"] for each in cluster.items(cluster.at("events"))})

    cluster.checkpoint(
        "each is told why",
        WaitCondition("four texts", lambda: message_count() == len(names), message_count),
        words=True,
    )


def waits_for_a_pod(cluster: WorkloadCluster) -> None:
    cluster.create(storage_class(cluster, NO_PROVISIONER, WAITS), volume(cluster, "v"), claim(cluster, "c"))
    cluster.checkpoint(
        "it waits for a pod", cluster.event("WaitForFirstConsumer"), volumes_are(cluster, v="Available"), words=True
    )
    cluster.create(user("p", "c", schedulingGates=GATED))
    let_go_when_told(cluster)
    cluster.checkpoint("the pod runs", cluster.pods_are(1, "Running"), claims_are(cluster, c="Bound"))


def waits_for_a_pod_that_waits(cluster: WorkloadCluster) -> None:
    cluster.create(storage_class(cluster, NO_PROVISIONER, WAITS), claim(cluster, "c"))
    cluster.wait(cluster.event("WaitForFirstConsumer"))
    cluster.create(user("p", "c"))
    cluster.checkpoint("it says so", cluster.event("WaitForPodScheduled"), words=True)


def driver_makes_it(cluster: WorkloadCluster) -> None:
    cluster.create(storage_class(cluster, BY_HAND), claim(cluster, "c"))
    cluster.checkpoint("it is handed over", cluster.event("ExternalProvisioning"), words=True)
    ref = {"uid": cluster.read("persistentvolumeclaims/c")["metadata"]["uid"], "namespace": cluster.ns, "name": "c"}
    source = {"driver": BY_HAND, "volumeHandle": "h"}
    made = volume(cluster, "made", claimRef=ref, csi=source, persistentVolumeReclaimPolicy="Delete")
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": BY_HAND}
    cluster.create(made)
    cluster.checkpoint("it is bound", claims_are(cluster, c="Bound"), volumes_are(cluster, made="Bound"))
    cluster.remove("persistentvolumeclaims/c")
    cluster.checkpoint(
        "it is left to the driver", cluster.gone("persistentvolumeclaims/c"), volumes_are(cluster, made="Released")
    )


def driver_makes_it_for_a_node(cluster: WorkloadCluster) -> None:
    cluster.create(storage_class(cluster, BY_HAND, WAITS), claim(cluster, "c"))
    cluster.wait(cluster.event("WaitForFirstConsumer"))
    cluster.create(user("p", "c", schedulingGates=GATED))
    let_go_when_told(cluster)

    def selected() -> bool:
        notes = cluster.read("persistentvolumeclaims/c")["metadata"].get("annotations") or {}
        return SELECTED in notes and "volume.kubernetes.io/storage-provisioner" in notes

    cluster.wait(WaitCondition("a node is selected", selected, lambda: cluster.read("persistentvolumeclaims/c")))
    ref = {"uid": cluster.read("persistentvolumeclaims/c")["metadata"]["uid"], "namespace": cluster.ns, "name": "c"}
    cluster.create(volume(cluster, "made", claimRef=ref, csi={"driver": BY_HAND, "volumeHandle": "h"}))
    cluster.checkpoint("the pod runs", cluster.pods_are(1, "Running"), claims_are(cluster, c="Bound"))


def classes_that_make_nothing(cluster: WorkloadCluster) -> None:
    cluster.create(claim(cluster, "c", storageClassName=f"{cluster.ns}-missing"))
    cluster.checkpoint("there is no such class", cluster.event("ProvisioningFailed"), words=True)


def volume_is_retained(cluster: WorkloadCluster) -> None:
    begin_bound(cluster)
    cluster.remove("persistentvolumeclaims/c")
    cluster.checkpoint("it is released", cluster.gone("persistentvolumeclaims/c"), volumes_are(cluster, v="Released"))
    cluster.create(claim(cluster, "c"))
    cluster.checkpoint("nobody gets it", claims_are(cluster, c="Pending"))
    cluster.change(f"persistentvolumes/v-{cluster.ns}", {"spec": {"claimRef": None}})
    cluster.checkpoint("somebody gave it back", claims_are(cluster, c="Bound"), volumes_are(cluster, v="Bound"))


def volume_cannot_be_deleted(cluster: WorkloadCluster) -> None:
    cluster.create(
        volume(cluster, "path", persistentVolumeReclaimPolicy="Delete"),
        volume(cluster, "nfs", "2Gi", nfs={"server": "s", "path": "/p"}, persistentVolumeReclaimPolicy="Delete"),
    )
    cluster.wait(volumes_are(cluster, path="Available", nfs="Available"))
    cluster.create(claim(cluster, "a"), claim(cluster, "b", "2Gi"))
    cluster.wait(claims_are(cluster, a="Bound", b="Bound"))
    cluster.remove("persistentvolumeclaims/a")
    cluster.remove("persistentvolumeclaims/b")
    cluster.checkpoint("it failed", volumes_are(cluster, path="Failed", nfs="Failed"))


def claim_is_in_use(cluster: WorkloadCluster) -> None:
    begin_bound(cluster)
    cluster.create(user("p", "c"))
    cluster.wait(cluster.pods_are(1, "Running"))
    cluster.remove("persistentvolumeclaims/c")
    cluster.checkpoint("it stays", claims_are(cluster, c="Bound"))
    cluster.remove("pods/p")
    cluster.checkpoint(
        "it goes", cluster.gone("pods/p", "persistentvolumeclaims/c"), volumes_are(cluster, v="Released")
    )


def volume_is_in_use(cluster: WorkloadCluster) -> None:
    begin_bound(cluster)
    cluster.remove(f"persistentvolumes/v-{cluster.ns}")
    cluster.checkpoint("it stays", volumes_are(cluster, v="Bound"))
    cluster.remove("persistentvolumeclaims/c")
    cluster.checkpoint("it goes", cluster.gone("persistentvolumeclaims/c", f"persistentvolumes/v-{cluster.ns}"))


def claim_loses_its_volume(cluster: WorkloadCluster) -> None:
    begin_bound(cluster)
    cluster.remove(f"persistentvolumes/v-{cluster.ns}")
    cluster.change(f"persistentvolumes/v-{cluster.ns}", {"metadata": {"finalizers": None}})
    cluster.checkpoint("it is lost", claims_are(cluster, c="Lost"), cluster.event("ClaimLost"), words=True)


def pod_brings_its_claim(cluster: WorkloadCluster) -> None:
    cluster.looks_at("persistentvolumeclaims")
    cluster.create(storage_class(cluster, NO_PROVISIONER, WAITS), volume(cluster, "v"))
    cluster.wait(volumes_are(cluster, v="Available"))
    spec = claim(cluster, "x")["spec"]
    template = {"metadata": {"labels": {"of": "pod"}}, "spec": spec}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    cluster.create(bare("p", volumes=volumes, schedulingGates=GATED))
    let_go_when_told(cluster)
    cluster.checkpoint("it runs", cluster.pods_are(1, "Running"), volumes_are(cluster, v="Bound"))
    cluster.remove("pods/p")
    cluster.checkpoint(
        "both are gone", cluster.gone("pods/p", "persistentvolumeclaims/p-scratch"), volumes_are(cluster, v="Released")
    )


SCENARIOS = [
    scenario("the smallest volume is given", smallest_is_given),
    scenario("a claim waits for a volume", waits_for_a_volume),
    scenario("only what suits a claim is given", only_what_suits_is_given),
    scenario("a volume is meant for a claim", volume_is_meant_for_a_claim),
    scenario("a claim names its volume", claim_names_its_volume),
    scenario("named volumes do not suit", named_volumes_do_not_suit),
    scenario("a claim waits for a pod", waits_for_a_pod),
    scenario("a claim waits for a pod that waits", waits_for_a_pod_that_waits),
    scenario("a driver makes a volume", driver_makes_it),
    scenario("a driver makes a volume for a node", driver_makes_it_for_a_node),
    scenario("a class is missing", classes_that_make_nothing),
    scenario("a volume is retained", volume_is_retained),
    scenario("volumes cannot be deleted", volume_cannot_be_deleted),
    scenario("a claim is in use", claim_is_in_use),
    scenario("a volume is in use", volume_is_in_use),
    scenario("a claim loses its volume", claim_loses_its_volume),
    scenario("a pod brings its claim", pod_brings_its_claim),
]
