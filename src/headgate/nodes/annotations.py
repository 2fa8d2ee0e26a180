"""The table of annotations and labels that control simulated nodes and their pods.

One row for each: ``headgate annotations`` prints them, ``docs/simulated-nodes.md`` lists them, and ``behaviour.py``
reads them. A test compares all three."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

PREFIX: Final = "headgate.dev/"
KWOK_NODE: Final = "kwok.x-k8s.io/node"
KWOK_COMPLETE: Final = "pod-complete.stage.kwok.x-k8s.io/delay"
HOLLOW: Final = f"{PREFIX}hollow"
NODE_GROUP: Final = f"{PREFIX}node-group"


class SupportedAnnotation(msgspec.Struct, frozen=True):
    """``on``: the objects that may have it. ``example``: a value that can be read."""

    key: str
    on: str
    example: str
    what: str
    kind: Literal["annotation", "label"] = "annotation"


SUPPORTED_ANNOTATIONS: Final = (
    SupportedAnnotation(f"{PREFIX}start-after", "pod", "5s", "how long it is being created before it runs"),
    SupportedAnnotation(
        f"{PREFIX}run-for",
        "pod",
        "30s",
        "how long its containers run before they exit, or never; without it pods of batch Jobs run for a second, all "
        "others until they are deleted",
    ),
    SupportedAnnotation(
        KWOK_COMPLETE, "pod", "30s", "KWOK's annotation for the same; headgate.dev/run-for applies if a pod has both"
    ),
    SupportedAnnotation(
        f"{PREFIX}exit-code", "pod", "1", "the exit code of its containers, from 0 to 255; 0 if not given"
    ),
    SupportedAnnotation(
        f"{PREFIX}stop-after",
        "pod or node",
        "10s",
        "how long containers take to stop on deletion; they are killed after the grace period",
    ),
    SupportedAnnotation(f"{PREFIX}boot-after", "node", "20s", "how long it takes to become Ready"),
    SupportedAnnotation(f"{PREFIX}boot-never", "node", "true", "true if it never becomes Ready"),
    SupportedAnnotation(f"{PREFIX}not-ready", "node", "true", "true while its kubelet reports that it is not ready"),
    SupportedAnnotation(f"{PREFIX}not-ready-every", "node", "5m", "how long it stays Ready before it turns NotReady"),
    SupportedAnnotation(f"{PREFIX}not-ready-for", "node", "30s", "how long it then stays NotReady"),
    SupportedAnnotation(
        f"{PREFIX}silent-after",
        "node",
        "1m",
        "how long after the node became Ready its kubelet stops reporting; it reports again when the annotation is "
        "removed",
    ),
    SupportedAnnotation(
        f"{PREFIX}killed-after", "node", "10m", "how long after it became Ready it is deleted (a spot machine)"
    ),
    SupportedAnnotation(
        f"{PREFIX}late-resources",
        "node",
        "nvidia.com/gpu=8,example.com/nic=1",
        "extended resources that the node does not have at first",
    ),
    SupportedAnnotation(
        f"{PREFIX}late-resources-after",
        "node",
        "15s",
        "how long after the node became Ready it has the resources of headgate.dev/late-resources",
    ),
    SupportedAnnotation(KWOK_NODE, "node", "fake", "the node is simulated; KWOK's name"),
    SupportedAnnotation(HOLLOW, "node", "true", "the node is simulated", "label"),
    SupportedAnnotation(
        NODE_GROUP, "node", "machine", "the node group of a node that a model of an autoscaler has added", "label"
    ),
)
