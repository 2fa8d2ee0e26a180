"""Claims, volumes and their classes; results as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded

CLAIMS = "/api/v1/namespaces/t/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MARK = "storageclass.kubernetes.io/is-default-class"
OLD_MARK = "storageclass.beta.kubernetes.io/is-default-class"
OLD_NAME = "volume.beta.kubernetes.io/storage-class"


def claim(name: str = "v", *, annotations: Any = None, finalizers: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations or {}, "finalizers": finalizers or []}
    own = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": metadata, "spec": {**own, **spec}}


def add_class(server: Embedded, name: str, mark: str = "", value: str = "true", **fields: Any) -> None:
    metadata = {"name": name, "annotations": {mark: value} if mark else {}}
    assert server.post(CLASSES, {"metadata": metadata, "provisioner": "p.q", **fields}).status == 201


@pytest.mark.parametrize(
    ("own", "finalizers"),
    [
        ([], ["kubernetes.io/pvc-protection"]),
        (["x.y/z"], ["x.y/z", "kubernetes.io/pvc-protection"]),
        (["kubernetes.io/pvc-protection", "x.y/z"], ["kubernetes.io/pvc-protection", "x.y/z"]),
    ],
)
def test_a_claim_is_born_protected(own: list[str], finalizers: list[str]) -> None:
    assert Embedded().post(CLAIMS, claim(finalizers=own)).body["metadata"]["finalizers"] == finalizers


def test_volumes_and_attribute_classes_are_born_protected() -> None:
    server = Embedded()
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    volume = server.post("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": spec}).body
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    attributes = {"metadata": {"name": "vac"}, "driverName": "d.e", "parameters": {"a": "b"}}
    made = server.post("/apis/storage.k8s.io/v1/volumeattributesclasses", attributes).body
    assert made["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]


def test_protection_is_not_added_again_once_it_was_taken_off() -> None:
    server = Embedded()
    server.post(CLAIMS, claim())
    assert "finalizers" not in server.patch(f"{CLAIMS}/v", {"metadata": {"finalizers": None}}).body["metadata"]


def test_without_a_default_a_claim_keeps_no_class() -> None:
    server = Embedded()
    add_class(server, "other", MARK, "false")
    assert "storageClassName" not in server.post(CLAIMS, claim()).body["spec"]


@pytest.mark.parametrize("mark", [MARK, OLD_MARK])
def test_a_claim_without_class_gets_the_default_one(mark: str) -> None:
    server = Embedded()
    add_class(server, "usual", mark)
    add_class(server, "other")
    assert server.post(CLAIMS, claim()).body["spec"]["storageClassName"] == "usual"


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"storageClassName": ""}, ""),
        ({"storageClassName": "other"}, "other"),
        ({"annotations": {OLD_NAME: "old"}}, None),
        ({"annotations": {OLD_NAME: ""}}, None),
    ],
)
def test_a_claim_that_names_a_class_in_whatever_way_gets_no_default(own: Any, name: str | None) -> None:
    server = Embedded()
    add_class(server, "usual", MARK)
    assert server.post(CLAIMS, claim(**own)).body["spec"].get("storageClassName") == name


def test_of_several_defaults_the_newest_counts_and_then_the_name() -> None:
    server = Embedded()
    add_class(server, "a", MARK)
    server.epoch_s += 60
    add_class(server, "c", MARK)
    add_class(server, "b", MARK)
    assert server.post(CLAIMS, claim()).body["spec"]["storageClassName"] == "b"


FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


@pytest.mark.parametrize(("name", "problem"), [("elastic", ""), ("rigid", FIXED), ("", FIXED), ("gone", FIXED)])
def test_a_bound_claim_grows_only_if_its_class_lets_it(name: str, problem: str) -> None:
    server = Embedded()
    add_class(server, "elastic", allowVolumeExpansion=True)
    add_class(server, "rigid")
    server.post(CLAIMS, claim(storageClassName=name))
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    server.patch(f"{CLAIMS}/v/status", {"status": bound})
    same = {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    assert server.patch(f"{CLAIMS}/v", same).status == 200
    grown = server.patch(f"{CLAIMS}/v", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    if problem:
        assert (grown.status, grown.body["message"]) == (403, f'persistentvolumeclaims "v" is forbidden: {problem}')
    else:
        assert (grown.status, grown.body["spec"]["resources"]["requests"]["storage"]) == (200, "2Gi")
