"""What an installation says once for all jobs: which are managed, in which namespaces, and when their quota is free.

Read from the command line by ``cli/job_options.py``; ``jobs/`` and ``admission/`` go by the same value. Feature gates
are ``kube/features.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from headgate.jobs.builtin import BUILTIN, JOB
from headgate.jobs.kind import JobKind
from headgate.kube.labels import Requirement, Selector
from headgate.kube.termination import MAX_WAIT_S

Release = Literal["OnTerminating", "OnTerminal"]
"""Quota is free when the last pod was told to end, or when it has ended."""
RELEASES: Final[tuple[Release, ...]] = get_args(Release)
POD: Final = "pod"
BATCH_JOB: Final = JOB.integration
RELEASING: Final = (BATCH_JOB, POD)
"""The integrations that may be told when to give quota back."""
MANAGED_NAMESPACES: Final = Selector(
    (Requirement("kubernetes.io/metadata.name", "notin", ("headgate-system", "kube-system", "kueue-system")),)
)


class JobSettings(msgspec.Struct, frozen=True):
    """``manages_all``: jobs without a queue's name wait, too. ``namespaces``: whose jobs are managed, by the labels of
    the namespace. ``quota_release``: by integration; the feature gate says it for those that are not here.
    ``pods_ready_s``: how long pods of what was admitted may take until all are ready; None if nobody waits for that.
    ``max_wait_s``: how long what was admitted waits at most for a pod that was told to end."""

    manages_all: bool = False
    namespaces: Selector = MANAGED_NAMESPACES
    quota_release: Mapping[str, Release] = {}
    kinds: tuple[JobKind, ...] = BUILTIN
    pods_ready_s: float | None = None
    max_wait_s: float = MAX_WAIT_S


DEFAULT: Final = JobSettings()


def parse_quota_release(text: str) -> dict[str, Release] | str:
    """Read ``batch/job=OnTerminal,pod=OnTerminating``. A returned string says what is wrong and what would be right."""
    found: dict[str, Release] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, word = (part.strip() for part in item.partition("="))
        release = next((each for each in RELEASES if each == word), None)
        if name not in RELEASING:
            return f"{item!r} names no integration that can be told: write one of {', '.join(RELEASING)} before the ="
        if release is None:
            return f"{item!r} does not say when quota is free: write {name}=OnTerminating or {name}=OnTerminal"
        if found.setdefault(name, release) != release:
            return f"{name} is given both OnTerminating and OnTerminal"
    return found
