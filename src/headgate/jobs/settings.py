"""Settings of an installation for all jobs: which kinds are managed, in which namespaces, when quota is released.

``cli/options/job_options.py`` reads them from the command line; ``jobs/`` and ``admission/`` use the same value.
``kube/feature_gates.py`` has the feature gates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from headgate.jobs.kinds.batch_job import BUILTIN_KINDS, JOB
from headgate.jobs.kinds.framework_kinds import FRAMEWORK_KINDS
from headgate.jobs.kinds.job_kind import JobKind
from headgate.kube.labels import Requirement, Selector
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.quota.api.pods_ready import WaitForPodsReady

Release = Literal["OnTerminating", "OnTerminal"]
"""Quota is released when the last pod begins to terminate, or when it has ended."""
RELEASES: Final[tuple[Release, ...]] = get_args(Release)
POD: Final = "pod"
BATCH_JOB: Final = JOB.integration
RELEASE_INTEGRATIONS: Final = (BATCH_JOB, POD)
"""The integrations for which the release of quota can be set."""
POD_FRAMEWORKS: Final = (POD, "deployment", "statefulset")
"""The integrations whose pods wait in queues; all need the first one. ReplicaSets belong to ``deployment``."""
DEFAULT_FRAMEWORKS: Final = (BATCH_JOB, *POD_FRAMEWORKS)
"""The built-in integrations that are on by default, by their names in Kueue's configuration."""
FRAMEWORKS: Final = (*DEFAULT_FRAMEWORKS, *(each.integration for each in FRAMEWORK_KINDS))
"""All built-in integrations."""
REPORT_TERMINATING_AFTER_S: Final = 300.0
"""How long after the end of its grace period a terminating pod whose quota is released is reported, by default."""
MIN_FORCE_DELETE_AFTER_S: Final = 60.0
"""The shortest time after which a pod on a Ready node is deleted by force: more than the clocks of nodes differ."""
MANAGED_NAMESPACES: Final = Selector(
    (Requirement("kubernetes.io/metadata.name", "notin", ("headgate-system", "kube-system", "kueue-system")),)
)


class JobSettings(msgspec.Struct, frozen=True):
    """``manages_all``: jobs without a queue name are managed, too. ``namespaces``: selects the managed namespaces by
    their labels. ``quota_release``: when quota is released, by integration; a feature gate decides for integrations
    that are not listed. ``kinds``: the managed job kinds. ``pods_ready``: how long the pods of an admitted workload
    may take to be ready; None if there is no time-out. ``frameworks``: the built-in integrations that wait
    in queues, from :data:`FRAMEWORKS`. ``max_wait_s``: the longest time for which an admitted workload
    waits for a terminating pod. ``report_terminating_after_s``: how long after the end of its grace period a
    terminating pod whose quota is released is reported. ``force_delete_after_s``: how long after twice its grace period
    a pod on a Ready node is deleted by force if its user allows it; None: never."""

    manages_all: bool = False
    namespaces: Selector = MANAGED_NAMESPACES
    quota_release: Mapping[str, Release] = {}
    kinds: tuple[JobKind, ...] = BUILTIN_KINDS
    pods_ready: WaitForPodsReady | None = None
    max_wait_s: float = MAX_TERMINATION_WAIT_S
    frameworks: frozenset[str] = frozenset(DEFAULT_FRAMEWORKS)
    report_terminating_after_s: float = REPORT_TERMINATING_AFTER_S
    force_delete_after_s: float | None = None


DEFAULT: Final = JobSettings()


def managed_kinds(frameworks: Collection[str], described: Sequence[JobKind]) -> tuple[JobKind, ...]:
    """The kinds that are managed: the built-in ones in ``frameworks``, and those that a file describes. A file takes
    precedence over a built-in kind of the same name."""
    names = {(each.kind.group, each.kind.kind) for each in described}
    builtin = (each for each in (*BUILTIN_KINDS, *FRAMEWORK_KINDS) if each.integration in frameworks)
    return (*(each for each in builtin if (each.kind.group, each.kind.kind) not in names), *described)


def kinds_named(text: str) -> tuple[JobKind, ...]:
    """The built-in kinds of a list of their names; none if the text is no such list."""
    names = [part.strip() for part in text.split(",")]
    by_name = {each.integration: each for each in FRAMEWORK_KINDS}
    return tuple(by_name[each] for each in names) if all(each in by_name for each in names) else ()


def parse_frameworks(text: str) -> tuple[str, ...] | str:
    """Parses ``batch/job,pod``. A returned string is an error message."""
    found = tuple(filter(None, (part.strip() for part in text.split(","))))
    unknown = [each for each in found if each not in FRAMEWORKS]
    if unknown:
        return f"{', '.join(unknown)} is not one of {', '.join(FRAMEWORKS)}"
    owners = [each for each in found if each in POD_FRAMEWORKS[1:]]
    if owners and POD not in found:
        return f"{', '.join(owners)} needs {POD}: add it to the list"
    return found


def parse_quota_release(text: str) -> dict[str, Release] | str:
    """Parses ``batch/job=OnTerminal,pod=OnTerminating``. A returned string is an error message."""
    found: dict[str, Release] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        release = next((each for each in RELEASES if each == value), None)
        if name not in RELEASE_INTEGRATIONS:
            listed = ", ".join(RELEASE_INTEGRATIONS)
            return f"{item!r} names no integration with this setting: write one of {listed} before the ="
        if release is None:
            return f"{item!r} does not say when quota is free: write {name}=OnTerminating or {name}=OnTerminal"
        if found.setdefault(name, release) != release:
            return f"{name} is given both OnTerminating and OnTerminal"
    return found
