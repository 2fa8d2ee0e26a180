"""The built-in kind CustomResourceDefinition. Custom kinds are built at run time (``apiserver/custom/``)."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import STATUS, builtin_kind

EXTENSIONS: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "Cluster",
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=(STATUS,),
        # kube-apiserver still stores this version. This server uses it only for the same storageVersionHash.
        stored_as=("apiextensions.k8s.io", "v1beta1", "customresourcedefinitions"),
        type_name="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
)
