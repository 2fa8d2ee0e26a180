"""Stories of claims and volumes. Names of volumes and classes hold the story's namespace: all share one cluster.

Volumes of the driver ``by-hand.example`` are made by the story, as a driver would.
"""

from __future__ import annotations

from typing import Any

from harness.scenarios import Object
from real.workloads.pod_scenarios import bare
from real.workloads.scenario_cluster import Hold, Workplace, story

WAITS, AT_ONCE = "WaitForFirstConsumer", "Immediate"
NO_PROVISIONER, BY_HAND = "kubernetes.io/no-provisioner", "by-hand.example"
SELECTED = "volume.kubernetes.io/selected-node"
GATED = [{"name": "example.com/wait"}]
"""So that a claim is sure to be looked at while its pod has no node."""


def volume(place: Workplace, name: str, size: str = "1Gi", claim: str = "", **spec: Any) -> Object:
    """Of the story's own class unless it says otherwise, so that no other story's claim gets it."""
    made = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": place.ns}
    source = {} if {"csi", "nfs"} & set(spec) else {"hostPath": {"path": "/nowhere"}}
    if claim:
        made["claimRef"] = {"namespace": place.ns, "name": claim}
    labels = spec.pop("labels", {})
    metadata = {"name": f"{name}-{place.ns}", "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**made, **source, **spec}}


def claim(place: Workplace, name: str, size: str = "1Gi", **spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    made = {"storageClassName": place.ns, **asked, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": made}


def storage_class(place: Workplace, provisioner: str, mode: str = AT_ONCE, **more: Any) -> Object:
    wire = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": place.ns}}
    return {**wire, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def user(name: str, claim_name: str, **spec: Any) -> Object:
    return bare(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}], **spec)


def claims_are(place: Workplace, **phases: str) -> Hold:
    def seen() -> dict[str, str]:
        found = place.items(place.at("persistentvolumeclaims"))
        return {each["metadata"]["name"]: each["status"].get("phase", "") for each in found}

    return Hold(f"claims are {phases}", lambda: seen() == phases, seen)


def volumes_are(place: Workplace, **phases: str) -> Hold:
    def phase(name: str) -> str:
        answer = place.get(place.at(f"persistentvolumes/{name}-{place.ns}"))
        return str((answer.json().get("status") or {}).get("phase")) if answer.status == 200 else "gone"

    def seen() -> dict[str, str]:
        return {name: phase(name) for name in phases}

    return Hold(f"volumes are {phases}", lambda: seen() == phases, seen)


def begin_bound(place: Workplace) -> None:
    place.create(volume(place, "v"))
    place.wait(volumes_are(place, v="Available"))
    place.create(claim(place, "c"))
    place.wait(claims_are(place, c="Bound"))


def let_go_when_told(place: Workplace) -> None:
    """The pod ``p`` may be scheduled as soon as its claim says that it waits for that."""
    place.wait(place.event("WaitForPodScheduled"))
    place.change("pods/p", {"spec": {"schedulingGates": None}})


def smallest_is_given(place: Workplace) -> None:
    place.create(*(volume(place, name, size) for name, size in (("s", "1Gi"), ("m", "3Gi"), ("l", "9Gi"))))
    place.stop("volumes are there", volumes_are(place, s="Available", m="Available", l="Available"))
    place.create(claim(place, "c", "2Gi"))
    place.stop("the one that fits is taken", claims_are(place, c="Bound"), volumes_are(place, m="Bound"))


def waits_for_a_volume(place: Workplace) -> None:
    place.create(storage_class(place, NO_PROVISIONER), claim(place, "c"), claim(place, "nothing", storageClassName=""))
    place.stop("there is none", place.event("FailedBinding"), place.event("ProvisioningFailed"), words=True)
    place.create(volume(place, "v"))
    place.stop("there is one", claims_are(place, c="Bound", nothing="Pending"), words=True)


def only_what_suits_is_given(place: Workplace) -> None:
    place.create(
        volume(place, "block", volumeMode="Block"),
        volume(place, "readonly", accessModes=["ReadOnlyMany"]),
        volume(place, "plain"),
        volume(place, "small", "1Mi", labels={"kind": "fast"}),
        volume(place, "many", "1Gi", labels={"kind": "fast"}, accessModes=["ReadWriteOnce", "ReadWriteMany"]),
        volume(place, "fast", "5Gi", labels={"kind": "fast"}),
    )
    place.wait(volumes_are(place, fast="Available", many="Available", plain="Available", small="Available"))
    place.create(claim(place, "c", selector={"matchLabels": {"kind": "fast"}}))
    place.stop("fewer modes go before smaller sizes", claims_are(place, c="Bound"), volumes_are(place, fast="Bound"))


def volume_is_meant_for_a_claim(place: Workplace) -> None:
    place.create(volume(place, "meant", "9Gi", claim="c"), volume(place, "free"))
    place.stop("both are there", volumes_are(place, meant="Available", free="Available"))
    place.create(claim(place, "c"))
    place.stop("it gets what is meant for it", claims_are(place, c="Bound"), volumes_are(place, meant="Bound"))


def claim_names_its_volume(place: Workplace) -> None:
    place.create(claim(place, "c", volumeName=f"v-{place.ns}"))
    place.stop("it waits", claims_are(place, c="Pending"))
    place.create(volume(place, "v"))
    place.stop("it is bound", claims_are(place, c="Bound"), volumes_are(place, v="Bound"))
    place.create(claim(place, "d", volumeName=f"v-{place.ns}"))
    place.stop(
        "the next one is not", place.event("FailedBinding"), claims_are(place, c="Bound", d="Pending"), words=True
    )


def named_volumes_do_not_suit(place: Workplace) -> None:
    place.create(
        volume(place, "small", "1Mi"),
        volume(place, "other", storageClassName=f"{place.ns}-other"),
        volume(place, "block", volumeMode="Block"),
        volume(place, "modes", accessModes=["ReadOnlyMany"]),
    )
    names = ("small", "other", "block", "modes")
    place.wait(volumes_are(place, **dict.fromkeys(names, "Available")))
    place.create(*(claim(place, name, volumeName=f"{name}-{place.ns}") for name in names))

    def told() -> int:
        return len({each["message"] for each in place.items(place.at("events"))})

    place.stop("each is told why", Hold("four texts", lambda: told() == len(names), told), words=True)


def waits_for_a_pod(place: Workplace) -> None:
    place.create(storage_class(place, NO_PROVISIONER, WAITS), volume(place, "v"), claim(place, "c"))
    place.stop("it waits for a pod", place.event("WaitForFirstConsumer"), volumes_are(place, v="Available"), words=True)
    place.create(user("p", "c", schedulingGates=GATED))
    let_go_when_told(place)
    place.stop("the pod runs", place.pods_are(1, "Running"), claims_are(place, c="Bound"))


def waits_for_a_pod_that_waits(place: Workplace) -> None:
    place.create(storage_class(place, NO_PROVISIONER, WAITS), claim(place, "c"))
    place.wait(place.event("WaitForFirstConsumer"))
    place.create(user("p", "c"))
    place.stop("it says so", place.event("WaitForPodScheduled"), words=True)


def driver_makes_it(place: Workplace) -> None:
    place.create(storage_class(place, BY_HAND), claim(place, "c"))
    place.stop("it is handed over", place.event("ExternalProvisioning"), words=True)
    ref = {"uid": place.read("persistentvolumeclaims/c")["metadata"]["uid"], "namespace": place.ns, "name": "c"}
    source = {"driver": BY_HAND, "volumeHandle": "h"}
    made = volume(place, "made", claimRef=ref, csi=source, persistentVolumeReclaimPolicy="Delete")
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": BY_HAND}
    place.create(made)
    place.stop("it is bound", claims_are(place, c="Bound"), volumes_are(place, made="Bound"))
    place.remove("persistentvolumeclaims/c")
    place.stop("it is left to the driver", place.gone("persistentvolumeclaims/c"), volumes_are(place, made="Released"))


def driver_makes_it_for_a_node(place: Workplace) -> None:
    place.create(storage_class(place, BY_HAND, WAITS), claim(place, "c"))
    place.wait(place.event("WaitForFirstConsumer"))
    place.create(user("p", "c", schedulingGates=GATED))
    let_go_when_told(place)

    def selected() -> bool:
        notes = place.read("persistentvolumeclaims/c")["metadata"].get("annotations") or {}
        return SELECTED in notes and "volume.kubernetes.io/storage-provisioner" in notes

    place.wait(Hold("a node is selected", selected, lambda: place.read("persistentvolumeclaims/c")))
    ref = {"uid": place.read("persistentvolumeclaims/c")["metadata"]["uid"], "namespace": place.ns, "name": "c"}
    place.create(volume(place, "made", claimRef=ref, csi={"driver": BY_HAND, "volumeHandle": "h"}))
    place.stop("the pod runs", place.pods_are(1, "Running"), claims_are(place, c="Bound"))


def classes_that_make_nothing(place: Workplace) -> None:
    place.create(claim(place, "c", storageClassName=f"{place.ns}-missing"))
    place.stop("there is no such class", place.event("ProvisioningFailed"), words=True)


def volume_is_retained(place: Workplace) -> None:
    begin_bound(place)
    place.remove("persistentvolumeclaims/c")
    place.stop("it is released", place.gone("persistentvolumeclaims/c"), volumes_are(place, v="Released"))
    place.create(claim(place, "c"))
    place.stop("nobody gets it", claims_are(place, c="Pending"))
    place.change(f"persistentvolumes/v-{place.ns}", {"spec": {"claimRef": None}})
    place.stop("somebody gave it back", claims_are(place, c="Bound"), volumes_are(place, v="Bound"))


def volume_cannot_be_deleted(place: Workplace) -> None:
    place.create(
        volume(place, "path", persistentVolumeReclaimPolicy="Delete"),
        volume(place, "nfs", "2Gi", nfs={"server": "s", "path": "/p"}, persistentVolumeReclaimPolicy="Delete"),
    )
    place.wait(volumes_are(place, path="Available", nfs="Available"))
    place.create(claim(place, "a"), claim(place, "b", "2Gi"))
    place.wait(claims_are(place, a="Bound", b="Bound"))
    place.remove("persistentvolumeclaims/a")
    place.remove("persistentvolumeclaims/b")
    place.stop("it failed", volumes_are(place, path="Failed", nfs="Failed"))


def claim_is_in_use(place: Workplace) -> None:
    begin_bound(place)
    place.create(user("p", "c"))
    place.wait(place.pods_are(1, "Running"))
    place.remove("persistentvolumeclaims/c")
    place.stop("it stays", claims_are(place, c="Bound"))
    place.remove("pods/p")
    place.stop("it goes", place.gone("pods/p", "persistentvolumeclaims/c"), volumes_are(place, v="Released"))


def volume_is_in_use(place: Workplace) -> None:
    begin_bound(place)
    place.remove(f"persistentvolumes/v-{place.ns}")
    place.stop("it stays", volumes_are(place, v="Bound"))
    place.remove("persistentvolumeclaims/c")
    place.stop("it goes", place.gone("persistentvolumeclaims/c", f"persistentvolumes/v-{place.ns}"))


def claim_loses_its_volume(place: Workplace) -> None:
    begin_bound(place)
    place.remove(f"persistentvolumes/v-{place.ns}")
    place.change(f"persistentvolumes/v-{place.ns}", {"metadata": {"finalizers": None}})
    place.stop("it is lost", claims_are(place, c="Lost"), place.event("ClaimLost"), words=True)


def pod_brings_its_claim(place: Workplace) -> None:
    place.looks_at("persistentvolumeclaims")
    place.create(storage_class(place, NO_PROVISIONER, WAITS), volume(place, "v"))
    place.wait(volumes_are(place, v="Available"))
    spec = claim(place, "x")["spec"]
    template = {"metadata": {"labels": {"of": "pod"}}, "spec": spec}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    place.create(bare("p", volumes=volumes, schedulingGates=GATED))
    let_go_when_told(place)
    place.stop("it runs", place.pods_are(1, "Running"), volumes_are(place, v="Bound"))
    place.remove("pods/p")
    place.stop(
        "both are gone", place.gone("pods/p", "persistentvolumeclaims/p-scratch"), volumes_are(place, v="Released")
    )


SCENARIOS = [
    story("the smallest volume is given", smallest_is_given),
    story("a claim waits for a volume", waits_for_a_volume),
    story("only what suits a claim is given", only_what_suits_is_given),
    story("a volume is meant for a claim", volume_is_meant_for_a_claim),
    story("a claim names its volume", claim_names_its_volume),
    story("named volumes do not suit", named_volumes_do_not_suit),
    story("a claim waits for a pod", waits_for_a_pod),
    story("a claim waits for a pod that waits", waits_for_a_pod_that_waits),
    story("a driver makes a volume", driver_makes_it),
    story("a driver makes a volume for a node", driver_makes_it_for_a_node),
    story("a class is missing", classes_that_make_nothing),
    story("a volume is retained", volume_is_retained),
    story("volumes cannot be deleted", volume_cannot_be_deleted),
    story("a claim is in use", claim_is_in_use),
    story("a volume is in use", volume_is_in_use),
    story("a claim loses its volume", claim_loses_its_volume),
    story("a pod brings its claim", pod_brings_its_claim),
]
