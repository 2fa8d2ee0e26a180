"""The table of flags and fields: which field of the configuration file sets the same value as a flag of ``run``.

A file gives the options of the command other defaults, so a flag on the command line overrides the file.
``config_options.py`` uses the table; a test compares it with the options of the command and with the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.cli.configuration.types import Configuration, PodsReadySection, RequeuingSection, values_of
from headgate.jobs.kinds.custom import parse_kinds
from headgate.kube.feature_gates import with_gates
from headgate.kube.labels import from_label_selector
from headgate.kube.timestamps import parse_duration
from headgate.quota.api.pods_ready import WaitForPodsReady

_NANOS: Final = 10**9


class FlagField(msgspec.Struct, frozen=True):
    """``convert``: makes the option's default of the field's value; the folder is that of the file."""

    flag: str
    path: str
    convert: Callable[[Any, Path], Any] = lambda value, folder: value


def _in_folder(value: str, folder: Path) -> str:
    return str(folder / value) if value else value


def pods_ready_of(section: PodsReadySection) -> WaitForPodsReady:
    """The settings of the quota engine; the fields are valid."""
    timeout_s = _seconds(section.timeout or "0s")
    recovery_s = timeout_s if section.recovery_timeout is None else _seconds(section.recovery_timeout)
    requeuing = section.requeuing_strategy or RequeuingSection()
    default = WaitForPodsReady()
    return WaitForPodsReady(
        timeout_s=timeout_s,
        recovery_timeout_s=recovery_s or None,
        backoff_limit=requeuing.backoff_limit_count,
        backoff_base_s=requeuing.backoff_base_seconds or default.backoff_base_s,
        backoff_max_s=requeuing.backoff_max_seconds or default.backoff_max_s,
        by_eviction_time=requeuing.timestamp != "Creation",
    )


def _seconds(text: str) -> float:
    nanos = parse_duration(text)
    assert isinstance(nanos, int), nanos
    return nanos / _NANOS


FLAGS: Final = (
    FlagField("--kubeconfig", "clientConnection.kubeconfig", _in_folder),
    FlagField("--context", "clientConnection.context"),
    FlagField("--components", "components", lambda names, folder: ",".join(names)),
    FlagField("--feature-gates", "featureGates", lambda gates, folder: with_gates(gates)),
    FlagField("--leader-elect", "leaderElection.leaderElect"),
    FlagField("--scheduler-name", "scheduler.names"),
    FlagField("--config", "scheduler.configurationFile", _in_folder),
    FlagField("--wait-for-terminating", "scheduler.waitForTerminating"),
    FlagField("--gated-pod-events", "scheduler.gatedPodEventsPerHour"),
    FlagField("--gate-all-pods", "queues.gateAllPods"),
    FlagField("--gated-scheduler-name", "queues.gatedSchedulerNames"),
    FlagField("--podgroups-for-bare-pods", "queues.podGroupsForBarePods"),
    FlagField("--trusted-user", "queues.trustedUsers"),
    FlagField("--webhook-url", "webhooks.url"),
    FlagField("--webhook-service", "webhooks.service"),
    FlagField("--webhook-listen", "webhooks.listen"),
    FlagField("--webhook-secret", "webhooks.secret"),
    FlagField("--shutdown-delay", "webhooks.shutdownDelay"),
    FlagField("--manage-jobs-without-queue-name", "jobs.manageJobsWithoutQueueName"),
    FlagField(
        "--managed-jobs-namespace-selector",
        "jobs.managedJobsNamespaceSelector",
        lambda selector, folder: from_label_selector(selector),
    ),
    FlagField("--job-frameworks", "jobs.frameworks"),
    FlagField("--quota-release", "jobs.quotaRelease"),
    FlagField("--job-kinds", "jobs.kindsFile", _in_folder),
    FlagField("--job-kinds", "jobs.kinds", lambda kinds, folder: parse_kinds({"kinds": kinds})),
    FlagField("--wait-for-pods-ready", "jobs.waitForPodsReady", lambda section, folder: pods_ready_of(section)),
    FlagField("--max-wait-for-terminating-pods", "jobs.maxWaitForTerminatingPods", lambda text, folder: _seconds(text)),
    FlagField(
        "--report-terminating-pods-after", "jobs.reportTerminatingPodsAfter", lambda text, folder: _seconds(text)
    ),
    FlagField(
        "--force-delete-terminating-pods-after",
        "jobs.forceDeleteTerminatingPodsAfter",
        lambda text, folder: _seconds(text),
    ),
    FlagField("--metrics-listen", "metrics.listen"),
    FlagField("--metrics-secure", "metrics.secure"),
    FlagField("--metrics-cert", "metrics.certFile", _in_folder),
    FlagField("--metrics-key", "metrics.keyFile", _in_folder),
    FlagField("--log-level", "logging.level"),
    FlagField("--log-format", "logging.format"),
    FlagField("--takeover", "takeover"),
    FlagField("--dry-run", "dryRun"),
)
WITHOUT_FIELD: Final = frozenset({"--kueue-config", "--help", "--shadow", "--shadow-patience", "--for"})
"""Flags that say which files are read, or nothing about the run. Shadow mode is for the file that is going to be used:
the same file is read with and without it."""
WITHOUT_FLAG: Final = frozenset({"scheduler.configuration"})
"""Fields that no flag sets."""
RELOADED: Final = frozenset({"logging.level", "logging.format"})
"""Fields that take effect without a restart."""


def option_defaults(configuration: Configuration, folder: Path) -> Mapping[str, Any]:
    """The defaults of options that the file sets, by flag; ``--config`` is not in it."""
    values = values_of(configuration)
    return {
        each.flag: each.convert(values[each.path], folder)
        for each in FLAGS
        if each.path in values and each.flag != "--config"
    }


def changed_fields(before: Configuration, after: Configuration) -> list[str]:
    """The paths of the fields that differ."""
    old, new = values_of(before), values_of(after)
    return [path for path in dict.fromkeys((*old, *new)) if old.get(path) != new.get(path)]
