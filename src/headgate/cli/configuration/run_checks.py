"""What ``headgate run`` refuses though each field of a ``Configuration`` is valid: fields that contradict each other.

``headgate config check`` reports it for a file, ``headgate install`` for the values of an installation. The command
``run`` checks the same after it has added the options of its command line.
"""

from __future__ import annotations

from typing import Final

from headgate.cli.configuration.types import Configuration
from headgate.cli.options.components import COMPONENTS
from headgate.cli.wiring.gates import DEFAULT_NAMES
from headgate.kube.feature_gates import pod_integration_problem, with_gates
from headgate.kube.field_errors import FieldErrors, forbidden, required
from headgate.scheduling.config.queue_profile import QUEUE_SCHEDULERS

_SHARED: Final = (
    "the component scheduler would give capacity of queues to the same pods as the component gates; leave one out, or "
    "name schedulers that do not use queues"
)


def run_problems(configuration: Configuration) -> FieldErrors:
    """Why ``headgate run`` would not start with this file and no other option."""
    components = set(configuration.components or COMPONENTS[:1])
    scheduler, webhooks, metrics = configuration.scheduler, configuration.webhooks, configuration.metrics
    gated_names = configuration.queues.gated_scheduler_names
    errors: FieldErrors = []
    if "webhooks" in components and not (webhooks.url or webhooks.service):
        errors.append(required("webhooks.service", "API servers reach the webhooks by it, or by webhooks.url"))
    if configuration.dry_run and components != {"scheduler"}:
        errors.append(forbidden("dryRun", "it is for the component scheduler alone"))
    if bool(metrics.cert_file) != bool(metrics.key_file):
        missing = "metrics.keyFile" if metrics.cert_file else "metrics.certFile"
        errors.append(required(missing, "a certificate and its key belong together"))
    features = with_gates(configuration.feature_gates or {})
    if "jobs" in components and not isinstance(features, str) and (problem := pod_integration_problem(features)):
        errors.append(forbidden("featureGates", problem))
    if metrics.cert_file and not metrics.secure:
        errors.append(forbidden("metrics.certFile", "it needs metrics.secure: true"))
    if gated_names and not components & {"gates", "webhooks"}:
        errors.append(forbidden("queues.gatedSchedulerNames", "it is for the components gates and webhooks"))
    has_profiles = scheduler.configuration is not None or bool(scheduler.configuration_file)
    if {"scheduler", "gates"} <= components and not has_profiles:
        names = set(scheduler.names or QUEUE_SCHEDULERS)
        if names & (QUEUE_SCHEDULERS | set(gated_names or DEFAULT_NAMES)):
            errors.append(forbidden("components", _SHARED))
    uses_queues = has_profiles or scheduler.names is None or bool(QUEUE_SCHEDULERS & set(scheduler.names))
    if "webhooks" in components and "gates" not in components and not (gated_names or uses_queues):
        known = " or ".join(sorted(QUEUE_SCHEDULERS))
        errors.append(forbidden("scheduler.names", f"webhooks gate pods of profiles that use queues: add {known}"))
    return errors
