"""Random nodes: small, uneven, tainted, cordoned, with images and devices."""

from __future__ import annotations

from random import Random
from typing import Any

from clusters import a_node
from real.placements.sizes import GPU, Sizes

Object = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
MB = 1024 * 1024
EFFECTS = ("NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute")
IMAGES = (
    (("app:latest",), 300 * MB),
    (("web:1", "web:2", "web@sha256:" + 64 * "a"), 900 * MB),
    (("registry.example:5000/tool:v3",), 20 * MB),
    (("huge:latest",), 4000 * MB),
)


def draw_node(draw: Random, name: str, sizes: Sizes) -> Object:
    labels = {key: draw.choice(["x", "y", "7", "12"]) for key in ("zone", "disk") if draw.random() < 0.7}
    if draw.random() < 0.9:
        labels[HOSTNAME] = name
    if draw.random() < 0.8:
        labels[ZONE] = draw.choice(["north", "south", "west"])
    more = {GPU: str(draw.randrange(3))} if draw.random() < 0.4 else {}
    if draw.random() < 0.3:
        more["ephemeral-storage"] = draw.choice(["1Gi", "10G"])
    if draw.random() < 0.2:
        more["hugepages-2Mi"] = draw.choice(["0", "64Mi"])
    found = a_node(
        name,
        cpu=draw.choice(sizes.cpu),
        memory=draw.choice(sizes.memory),
        pods=str(draw.choice(sizes.pods)),
        labels=labels,
        taints=_taints(draw, sizes.taints),
        cordoned=draw.random() < sizes.cordoned,
        images=[each for each in IMAGES if draw.random() < 0.4],
        allocatable=more,
    )
    if draw.random() < sizes.silent:
        del found["status"]["allocatable"][draw.choice(["cpu", "memory", "pods"])]
    return {"apiVersion": "v1", "kind": "Node", **found}


def _taints(draw: Random, counts: list[int]) -> list[Object]:
    many = range(draw.choice(counts))
    drawn = ((draw.choice("kl"), draw.choice(EFFECTS), draw.choice(["", "v", "w"])) for _ in many)
    taints = {(key, effect): {"key": key, "value": value, "effect": effect} for key, effect, value in drawn}
    return list(taints.values())
