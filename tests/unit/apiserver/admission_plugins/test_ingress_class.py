"""An ingress without class gets the default one; results as a v1.35.8 API server gave them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/t/ingresses"
CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
OLD_NAME = "kubernetes.io/ingress.class"


def ingress(annotations: Any = None, **spec: Any) -> dict[str, Any]:
    backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 1}}}}
    return {"metadata": {"name": "i", "annotations": annotations or {}}, "spec": {**backend, **spec}}


def add_default(server: Embedded, name: str) -> None:
    metadata = {"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    assert server.post(CLASSES, {"metadata": metadata, "spec": {"controller": "a.b/c"}}).status == 201


def test_without_a_default_an_ingress_keeps_no_class() -> None:
    assert "ingressClassName" not in Embedded().post(INGRESSES, ingress()).body["spec"]


@pytest.mark.parametrize(
    ("own", "name"),
    [
        (ingress(), "usual"),
        (ingress(ingressClassName="other"), "other"),
        (ingress({OLD_NAME: "old"}), None),
        (ingress({OLD_NAME: ""}), None),
    ],
)
def test_an_ingress_that_names_no_class_gets_the_default_one(own: Any, name: str | None) -> None:
    server = Embedded()
    add_default(server, "usual")
    made = server.post(INGRESSES, own)
    assert (made.status, made.body["spec"].get("ingressClassName")) == (201, name)


def test_the_newest_of_several_defaults_counts() -> None:
    server = Embedded()
    add_default(server, "a")
    server.epoch_s += 60
    add_default(server, "b")
    assert server.post(INGRESSES, ingress()).body["spec"]["ingressClassName"] == "b"
