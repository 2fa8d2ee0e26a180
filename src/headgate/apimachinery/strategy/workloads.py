"""Strategies of the kinds with a pod template: apps, batch, ReplicationController."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.pods.preparation import prepare_pod_template
from headgate.apimachinery.pods.warnings import pod_template_warnings
from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_with_features,
    validate_create_without_context,
    validate_update_with_features,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import SPEC, STATUS, bump_generation, has_changed, keep_field, keep_spec
from headgate.apimachinery.validation.warnings import claim_spec_warnings
from headgate.apimachinery.validation.workloads.cron_job import validate_cron_job_create, validate_cron_job_update
from headgate.apimachinery.validation.workloads.deployment import (
    validate_deployment_create,
    validate_deployment_status_update,
    validate_deployment_update,
    validate_replica_set_create,
    validate_replica_set_status_update,
    validate_replica_set_update,
    validate_replication_controller_create,
    validate_replication_controller_update,
)
from headgate.apimachinery.validation.workloads.job import (
    CONTROLLER_UID,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    validate_job_create,
    validate_job_update,
)
from headgate.apimachinery.validation.workloads.job_status import validate_job_status_update
from headgate.apimachinery.validation.workloads.stateful_set import (
    validate_controller_revision_create,
    validate_controller_revision_update,
    validate_daemon_set_create,
    validate_daemon_set_status_update,
    validate_daemon_set_update,
    validate_stateful_set_create,
    validate_stateful_set_status_update,
    validate_stateful_set_update,
)
from headgate.kube import names
from headgate.kube.integers import read_natural
from headgate.kube.object_meta import TEMPLATE_GENERATION

_NAME_WARNING: Final = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: "
)
_NEGATIVE_HISTORY: Final = (
    "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
)
_MANY_COMPLETIONS: Final = 100_000
_MANY_PARALLEL: Final = 10_000


def _name_warnings(obj: Object) -> list[str]:
    messages = names.is_dns1123_label(obj["metadata"].get("name", ""))
    return [f"{_NAME_WARNING}[{' '.join(messages)}]"] if messages else []


def _prepare_create(obj: Object, ctx: StrategyContext) -> None:
    obj.pop("status", None)
    obj["metadata"]["generation"] = 1
    prepare_pod_template(obj["spec"].get("template") or {}, None, ctx.features)


def _prepare_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    prepare_pod_template(new["spec"].get("template") or {}, old["spec"].get("template") or {}, ctx.features)
    if new["spec"] != old["spec"]:
        bump_generation(new, old)


def _prepare_deployment_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    _prepare_update(new, old, ctx)
    # Annotations are copied to the ReplicaSets, so a change of them increases the generation.
    if (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {}):
        bump_generation(new, old)


def _prepare_deployment_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)
    keep_field("labels", new["metadata"], old["metadata"])


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "")
    return read_natural(text) or 0


def _set_template_generation(obj: Object, generation: int) -> None:
    """Sets the annotation that has replaced ``spec.templateGeneration``. Only the server sets it."""
    annotations = dict(obj["metadata"].get("annotations") or {})
    obj["metadata"]["annotations"] = annotations | {TEMPLATE_GENERATION: str(generation)}


def _prepare_daemon_set_create(obj: Object, ctx: StrategyContext) -> None:
    _prepare_create(obj, ctx)
    _set_template_generation(obj, max(_template_generation(obj), 1))


def _prepare_daemon_set_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    _prepare_update(new, old, ctx)
    changed = new["spec"].get("template") != old["spec"].get("template")
    _set_template_generation(new, _template_generation(old) + changed)


def _prepare_daemon_set_status(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("spec", new, old)
    _set_template_generation(new, _template_generation(old))


def _drop_max_unavailable(obj: Object, old: Object | None) -> None:
    """The field is behind a gate that is off in v1.35; a StatefulSet that already has it keeps it."""
    rolling = (obj["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    stored = (((old or {}).get("spec") or {}).get("updateStrategy") or {}).get("rollingUpdate") or {}
    if "maxUnavailable" not in stored:
        rolling.pop("maxUnavailable", None)


def _prepare_stateful_set_create(obj: Object, ctx: StrategyContext) -> None:
    _drop_max_unavailable(obj, None)
    _prepare_create(obj, ctx)


def _prepare_stateful_set_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    _drop_max_unavailable(new, old)
    _prepare_update(new, old, ctx)


def _prepare_job_create(obj: Object, ctx: StrategyContext) -> None:
    metadata, template = obj["metadata"], obj["spec"].setdefault("template", {})
    template_labels = dict(template.get("metadata", {}).get("labels") or {})
    if not obj["spec"].get("manualSelector"):
        _generate_selector(obj)
    # A job without labels gets those of its pod template. If the template had only generated labels, defaulting copies
    # them after validation.
    if not metadata.get("labels") and template_labels:
        metadata["labels"] = dict(template["metadata"]["labels"])
        _set_label_owners(metadata, template_labels)
    _prepare_create(obj, ctx)


def _set_label_owners(metadata: Object, labels: Object) -> None:
    """Makes the updating managers owners of the labels that the job has got from its pod template.

    ``labels``: the labels of the template in the request. Generated labels have no owner.
    """
    for entry in metadata.get("managedFields") or ():
        if entry.get("operation") == "Update" and labels:
            fields = entry.get("fieldsV1") or {}
            owned = fields.get("f:metadata", {})
            owned_labels: Object = {".": {}, **{f"f:{key}": {} for key in sorted(labels)}}
            owned = dict(sorted({**owned, "f:labels": owned_labels}.items()))
            entry["fieldsV1"] = dict(sorted({**fields, "f:metadata": owned}.items()))


def _generate_selector(obj: Object) -> None:
    """Labels the pods with the job's name and uid, and selects them by the uid.

    Existing labels stay; validation rejects contradictory ones.
    """
    spec, name, uid = obj["spec"], obj["metadata"].get("name", ""), obj["metadata"].get("uid", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    for key, value in (
        (LEGACY_JOB_NAME, name),
        (JOB_NAME, name),
        (LEGACY_CONTROLLER_UID, uid),
        (CONTROLLER_UID, uid),
    ):
        labels.setdefault(key, value)
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(CONTROLLER_UID, uid)


def _prepare_cron_job_create(obj: Object, ctx: StrategyContext) -> None:
    obj.pop("status", None)
    obj["metadata"]["generation"] = 1
    prepare_pod_template(_job_template(obj), None, ctx.features)


def _prepare_cron_job_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    keep_field("status", new, old)
    prepare_pod_template(_job_template(new), _job_template(old), ctx.features)
    if new["spec"] != old["spec"]:
        bump_generation(new, old)


def _job_template(obj: Object) -> Object:
    template: Object = obj["spec"].get("jobTemplate", {}).get("spec", {}).get("template") or {}
    return template


def _template_warnings(obj: Object, ctx: StrategyContext) -> list[str]:
    return pod_template_warnings(obj["spec"].get("template") or {}, "spec.template")


def _named_template_warnings(obj: Object, ctx: StrategyContext) -> list[str]:
    return _name_warnings(obj) + _template_warnings(obj, ctx)


def _changed_template_warnings(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    return _template_warnings(new, ctx) if has_changed(new, old) else []


def _stateful_set_warnings(obj: Object, suffix: str) -> list[str]:
    """``suffix`` is part of the paths in warnings of an update, but not of a create, as in Kubernetes."""
    spec = obj["spec"]
    warnings = [
        warning
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ())
        for warning in claim_spec_warnings(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{i}]{suffix}")
    ]
    return [*warnings, _NEGATIVE_HISTORY] if spec.get("revisionHistoryLimit", 0) < 0 else warnings


def _job_warnings(spec: Object, path: str) -> list[str]:
    warnings = []
    is_large = spec.get("completions", 0) > _MANY_COMPLETIONS and spec.get("parallelism", 0) > _MANY_PARALLEL
    if spec.get("completionMode") == "Indexed" and is_large:
        warnings.append(
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return warnings + pod_template_warnings(spec.get("template") or {}, f"{path}.template")


def _cron_job_warnings(obj: Object) -> list[str]:
    return _job_warnings(obj["spec"].get("jobTemplate", {}).get("spec", {}), "spec.jobTemplate.spec")


def _cron_job_update_warnings(new: Object, old: Object, ctx: StrategyContext) -> list[str]:
    warnings = _cron_job_warnings(new) if has_changed(new, old) else []
    if "TZ" in new["spec"].get("schedule", ""):
        warnings.append(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    return warnings


APPS: Final[dict[str, Strategy]] = {
    "ControllerRevision": Strategy(
        validate_create=validate_create_without_context(validate_controller_revision_create),
        update=UpdateRules(validate=validate_update_without_context(validate_controller_revision_update)),
    ),
    "DaemonSet": Strategy(
        prepare_create=_prepare_daemon_set_create,
        validate_create=validate_create_with_features(validate_daemon_set_create),
        warnings_create=_template_warnings,
        update=UpdateRules(
            prepare=_prepare_daemon_set_update,
            validate=validate_update_with_features(validate_daemon_set_update),
            warnings=_changed_template_warnings,
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_daemon_set_status,
                validate=validate_update_without_context(validate_daemon_set_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "Deployment": Strategy(
        prepare_create=_prepare_create,
        validate_create=validate_create_with_features(validate_deployment_create),
        warnings_create=_named_template_warnings,
        update=UpdateRules(
            prepare=_prepare_deployment_update,
            validate=validate_update_with_features(validate_deployment_update),
            warnings=_changed_template_warnings,
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=_prepare_deployment_status,
                validate=validate_update_without_context(validate_deployment_status_update),
                reset_fields=(("spec",), ("metadata", "labels")),
            )
        },
    ),
    "ReplicaSet": Strategy(
        prepare_create=_prepare_create,
        validate_create=validate_create_with_features(validate_replica_set_create),
        warnings_create=_named_template_warnings,
        update=UpdateRules(
            prepare=_prepare_update,
            validate=validate_update_with_features(validate_replica_set_update),
            warnings=_changed_template_warnings,
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_replica_set_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "StatefulSet": Strategy(
        prepare_create=_prepare_stateful_set_create,
        validate_create=validate_create_with_features(validate_stateful_set_create),
        warnings_create=lambda obj, ctx: _template_warnings(obj, ctx) + _stateful_set_warnings(obj, ""),
        update=UpdateRules(
            prepare=_prepare_stateful_set_update,
            validate=validate_update_with_features(validate_stateful_set_update),
            warnings=lambda new, old, ctx: (
                _changed_template_warnings(new, old, ctx) + _stateful_set_warnings(new, ".Spec")
            ),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_stateful_set_status_update),
                reset_fields=SPEC,
            )
        },
    ),
}

BATCH: Final[dict[str, Strategy]] = {
    "CronJob": Strategy(
        prepare_create=_prepare_cron_job_create,
        validate_create=lambda obj, ctx: validate_cron_job_create(obj, ctx.features, ctx.time_zones),
        warnings_create=lambda obj, ctx: _name_warnings(obj) + _cron_job_warnings(obj),
        update=UpdateRules(
            prepare=_prepare_cron_job_update,
            validate=lambda new, old, ctx: validate_cron_job_update(new, old, ctx.features, ctx.time_zones),
            warnings=_cron_job_update_warnings,
            reset_fields=STATUS,
        ),
        subresources={"status": UpdateRules(prepare=keep_spec, reset_fields=SPEC)},
    ),
    "Job": Strategy(
        prepare_create=_prepare_job_create,
        validate_create=validate_create_with_features(validate_job_create),
        warnings_create=lambda obj, ctx: _name_warnings(obj) + _job_warnings(obj["spec"], "spec"),
        update=UpdateRules(
            prepare=_prepare_update,
            validate=validate_update_with_features(validate_job_update),
            warnings=lambda new, old, ctx: _job_warnings(new["spec"], "spec") if has_changed(new, old) else [],
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_job_status_update),
                reset_fields=SPEC,
            )
        },
    ),
}


CONTROLLERS: Final[dict[str, Strategy]] = {
    "ReplicationController": Strategy(
        prepare_create=_prepare_create,
        validate_create=validate_create_with_features(validate_replication_controller_create),
        warnings_create=_named_template_warnings,
        update=UpdateRules(
            prepare=_prepare_update,
            validate=validate_update_with_features(validate_replication_controller_update),
            warnings=_changed_template_warnings,
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_replica_set_status_update),
                reset_fields=SPEC,
            )
        },
    ),
}
