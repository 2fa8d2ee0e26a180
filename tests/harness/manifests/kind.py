"""A kind as the tests use it: where it is served, two manifests, and a merge patch that a stored rich object accepts.

Manifests carry no name and no namespace; `Kind.manifest` puts them in. Every kind of the table gets the same
treatment in `real/test_http_kinds.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    api_version: str
    kind: str
    resource: str
    minimal: dict[str, Any]
    rich: dict[str, Any]
    change: dict[str, Any]
    namespaced: bool = True
    has_status: bool = False
    status: dict[str, Any] = field(default_factory=dict)
    name_prefix: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def collection(self) -> str:
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        return f"{root}/namespaces/{{ns}}/{self.resource}" if self.namespaced else f"{root}/{self.resource}"

    def path(self, name: str) -> str:
        return f"{self.collection}/{self.named(name)}"

    def named(self, name: str) -> str:
        """Cluster-wide names carry the case's namespace, so that no two cases share one."""
        return self.name_prefix + (name if self.namespaced else f"{{ns}}-{name}")

    def manifest(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": self.named(name), **body.get("metadata", {})}
        if self.namespaced:
            metadata["namespace"] = "{ns}"
        return {"apiVersion": self.api_version, "kind": self.kind, **body, "metadata": metadata}


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels, "annotations": {"example.com/note": "a rich one"}}}
