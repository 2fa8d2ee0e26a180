"""Settings of an installation for all jobs: which are managed, in which namespaces, and when quota is released.

``cli/options/job_options.py`` reads them from the command line; ``jobs/`` and ``admission/`` use the same value.
``kube/feature_gates.py`` has the feature gates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from headgate.jobs.kinds.batch_job import BUILTIN_KINDS, JOB
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.labels import Requirement, Selector
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S

Release = Literal["OnTerminating", "OnTerminal"]
"""Quota is released when the last pod begins to terminate, or when it has ended."""
RELEASES: Final[tuple[Release, ...]] = get_args(Release)
POD: Final = "pod"
BATCH_JOB: Final = JOB.integration
RELEASE_INTEGRATIONS: Final = (BATCH_JOB, POD)
"""The integrations for which the release of quota can be set."""
MANAGED_NAMESPACES: Final = Selector(
    (Requirement("kubernetes.io/metadata.name", "notin", ("headgate-system", "kube-system", "kueue-system")),)
)


class JobSettings(msgspec.Struct, frozen=True):
    """``manages_all``: jobs without a queue name wait, too. ``namespaces``: the managed namespaces, by labels.
    ``quota_release``: by integration; the feature gate decides for the others. ``pods_ready_s``: how long the pods of
    an admitted workload may take to be ready; None if there is no time-out. ``max_wait_s``: how long an admitted
    workload waits for a terminating pod at most."""

    manages_all: bool = False
    namespaces: Selector = MANAGED_NAMESPACES
    quota_release: Mapping[str, Release] = {}
    kinds: tuple[JobKind, ...] = BUILTIN_KINDS
    pods_ready_s: float | None = None
    max_wait_s: float = MAX_TERMINATION_WAIT_S


DEFAULT: Final = JobSettings()


def parse_quota_release(text: str) -> dict[str, Release] | str:
    """Parses ``batch/job=OnTerminal,pod=OnTerminating``. A returned string is an error message."""
    found: dict[str, Release] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        release = next((each for each in RELEASES if each == value), None)
        if name not in RELEASE_INTEGRATIONS:
            listed = ", ".join(RELEASE_INTEGRATIONS)
            return f"{item!r} names no integration that can be told: write one of {listed} before the ="
        if release is None:
            return f"{item!r} does not say when quota is free: write {name}=OnTerminating or {name}=OnTerminal"
        if found.setdefault(name, release) != release:
            return f"{name} is given both OnTerminating and OnTerminal"
    return found
