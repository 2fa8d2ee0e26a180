"""A release of Headgate as files: what its users applied, and what the API server had stored after it had run.

`tools/freeze_release.py` makes the files by running that release. `stored.yaml` has the objects as they were read from
the API server, with uids, field managers and statuses. `restore` puts them into etcd, so a cluster has them exactly as
that release left them; the API would give them new uids, and Workloads would lose their owners.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from harness.etcd import put
from harness.installed_cluster import InstalledCluster

Object = dict[str, Any]

PREVIOUS = Path(__file__).parent / "v0.2.0"
IMAGE = "registry.example/headgate:0.2.0"
TEAM = Path(__file__).parent / "team.yaml"
TEAM_WAITS = Path(__file__).parent / "team-waits.yaml"
APPLIED = ("install", "webhook", "scheduler", "quota", "combined")
"""The files `examples/NAME-rights.yaml` of the release, in the order in which its pages apply them."""
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_ETCD_PLACES = {DEFINITIONS: "apiextensions.k8s.io/customresourcedefinitions"}


def applied_files(folder: Path = PREVIOUS) -> list[Path]:
    """What the users of the release applied with kubectl, in this order."""
    return [folder / f"{name}-rights.yaml" for name in APPLIED]


def stored_objects(folder: Path = PREVIOUS) -> Iterator[tuple[str, Object]]:
    """The resource, with its group, and the object."""
    for name in ("definitions.yaml", "stored.yaml"):
        found: dict[str, list[Object]] = yaml.load((folder / name).read_text(), Loader=yaml.CSafeLoader)
        for resource, objects in found.items():
            for each in objects:
                yield resource, each


def restore(cluster: InstalledCluster, folder: Path = PREVIOUS) -> None:
    """The cluster of a team that ran the release, whose processes have ended."""
    for file in applied_files(folder):
        cluster.typed("apply", "-f", str(file))
    objects = list(stored_objects(folder))
    put(cluster.server.etcd_url, ((_place(resource, obj), obj) for resource, obj in objects))
    for resource, obj in objects:
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
        place = ("-n", namespace) if namespace else ()
        cluster.until(f"{resource} {name} is served", partial(_is_served, cluster, resource, name, *place))


def _is_served(cluster: InstalledCluster, *words: str) -> bool:
    """A kind is not known at first, and its objects are not found before its cache is filled."""
    return cluster.kubectl("get", *words).exit == 0


def _place(resource: str, obj: Object) -> str:
    """Objects of built-in kinds are stored by their plural, objects of custom kinds also by their group."""
    plural, _, group = resource.partition(".")
    is_custom = group in ("scheduling.volcano.sh", "kueue.x-k8s.io")
    place = _ETCD_PLACES.get(resource) or (f"{group}/{plural}" if is_custom else plural)
    namespace = obj["metadata"].get("namespace")
    return "/".join(filter(None, (place, namespace, obj["metadata"]["name"])))
