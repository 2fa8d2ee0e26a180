"""Validation of a CronJob. ``kube/cron.py`` parses the schedule, ``job.py`` validates the job template."""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.apimachinery.validation.workloads.job import validate_job_spec
from headgate.kube import names
from headgate.kube.cron import MAX_SCHEDULE_CHARACTERS, parse_schedule
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required, too_long
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_nonnegative_fields

Object = dict[str, Any]

_CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
# The controller appends 11 characters to the name for a job, whose name has at most 63.
_MAX_NAME: Final = 52
_ZONE_PART: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def validate_cron_job_create(obj: Object, features: FeatureGates, time_zones: frozenset[str] | None) -> FieldErrors:
    name = obj["metadata"].get("name", "")
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    errors += _validate_spec(obj["spec"], None, features, time_zones)
    if len(name) > _MAX_NAME:
        errors.append(invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters"))
    return errors


def validate_cron_job_update(
    new: Object, old: Object, features: FeatureGates, time_zones: frozenset[str] | None
) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_spec(new["spec"], old["spec"], features, time_zones)


def _validate_spec(
    spec: Object, old: Object | None, features: FeatureGates, time_zones: frozenset[str] | None
) -> FieldErrors:
    errors: FieldErrors = []
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.append(required("spec.schedule"))
    elif len(schedule) > MAX_SCHEDULE_CHARACTERS:
        # An object that was stored before there was a limit can still be changed, for example its finalizers.
        if old is None or old.get("schedule") != schedule:
            errors.append(too_long("spec.schedule", MAX_SCHEDULE_CHARACTERS))
    else:
        allow_zone = old is not None and "TZ" in old.get("schedule", "")
        errors += _validate_schedule(schedule, allow_zone, spec.get("timeZone"))
    errors += validate_nonnegative_fields(spec, "spec", ("startingDeadlineSeconds",))
    if old is None or old.get("timeZone") != spec.get("timeZone"):
        errors += _validate_time_zone(spec.get("timeZone"), time_zones)
    concurrency = spec.get("concurrencyPolicy", "")
    if not concurrency:
        errors.append(required("spec.concurrencyPolicy"))
    elif concurrency not in _CONCURRENCY:
        errors.append(not_supported("spec.concurrencyPolicy", concurrency, _CONCURRENCY))
    errors += _validate_template(spec.get("jobTemplate", {}), old.get("jobTemplate") if old else None, features)
    return errors + validate_nonnegative_fields(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))


def _validate_schedule(schedule: str, allow_zone: bool, time_zone: str | None) -> FieldErrors:
    errors: FieldErrors = []
    parsed = parse_schedule(schedule)
    if isinstance(parsed, str):
        errors.append(invalid("spec.schedule", schedule, parsed))
    if "TZ" in schedule:
        if not allow_zone:
            text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, text))
        elif time_zone is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid("spec.schedule", schedule, text))
    return errors


def _validate_time_zone(zone: str | None, known: frozenset[str] | None) -> FieldErrors:
    path = "spec.timeZone"
    if zone is None:
        return []
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or _ZONE_PART.fullmatch(part) is None:
            return [invalid(path, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [invalid(path, zone, text)]
    if ".." in zone:
        return [invalid(path, zone, "time: invalid location name")]
    if known is not None and zone != "UTC" and zone not in known:
        return [invalid(path, zone, f"unknown time zone {zone}")]
    return []


def _validate_template(template: Object, old: Object | None, features: FeatureGates) -> FieldErrors:
    path = "spec.jobTemplate.spec"
    spec = template.get("spec", {})
    errors = validate_job_spec(spec, path, features, old.get("spec") if old else None)
    if "selector" in spec:
        errors.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ["nil", "false"]))
    return errors
