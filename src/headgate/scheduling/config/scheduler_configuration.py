"""Reads a ``KubeSchedulerConfiguration`` document: returns the configuration, or all errors in it.

Rules, defaults and messages are those of kube-scheduler v1.35, which stops at the first kind of error; this module
reports all errors at once, each with its field path. Extenders are rejected: they would call another process for every
node of every pod. ``plugin_args.py`` reads plugin arguments, ``plugin_sets.py`` the lists of plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.kube.field_errors import FieldErrors, Verbatim, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.serializer.strict_decoding import (
    Decoder,
    Object,
    anything,
    boolean,
    int32,
    int64,
    list_of,
    mapping,
    number,
    record,
    seconds,
    similar,
    text,
)
from headgate.kube.timestamps import format_duration
from headgate.scheduling.config.plugin_args import READERS, default_args
from headgate.scheduling.config.plugin_registry import BUILT_IN, OBSOLETE_POINTS, POINTS, Registry
from headgate.scheduling.config.plugin_sets import MULTI_POINT, expand_multi_point, unknown_disabled
from headgate.scheduling.config.types import (
    DEFAULT_SCHEDULER,
    Args,
    ClientConnection,
    ExternalPluginArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
)

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

_PLUGIN: Final = record({"name": text, "weight": int32})
_PLUGIN_SET: Final = record({"enabled": list_of(_PLUGIN), "disabled": list_of(_PLUGIN)})
_PROFILE: Final = record(
    {
        "schedulerName": text,
        "percentageOfNodesToScore": int32,
        "plugins": record(dict.fromkeys((*POINTS, MULTI_POINT), _PLUGIN_SET), OBSOLETE_POINTS),
        "pluginConfig": list_of(record({"name": text, "args": mapping})),
    }
)
_LEADER_ELECTION: Final[Mapping[str, Decoder]] = {
    "leaderElect": boolean,
    **dict.fromkeys(("leaseDuration", "renewDeadline", "retryPeriod"), seconds),
    **dict.fromkeys(("resourceLock", "resourceName", "resourceNamespace"), text),
}
_CLIENT_CONNECTION: Final[Mapping[str, Decoder]] = {
    **dict.fromkeys(("kubeconfig", "acceptContentTypes", "contentType"), text),
    "qps": number,
    "burst": int32,
}
_DOCUMENT: Final = record(
    {
        "apiVersion": text,
        "kind": text,
        **dict.fromkeys(("parallelism", "percentageOfNodesToScore"), int32),
        **dict.fromkeys(("podInitialBackoffSeconds", "podMaxBackoffSeconds"), int64),
        **dict.fromkeys(("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"), boolean),
        "leaderElection": record(_LEADER_ELECTION),
        "clientConnection": record(_CLIENT_CONNECTION),
        "profiles": list_of(_PROFILE),
        "extenders": anything,
    }
)


def parse_configuration(value: Any, registry: Registry = BUILT_IN) -> KubeSchedulerConfiguration | FieldErrors:
    """The configuration, or all errors. ``value``: the decoded YAML or JSON file; it is not modified."""
    errors: FieldErrors = []
    given: Object = _DOCUMENT(value, "", errors) or {}
    errors += _type_errors(given)
    if given.get("extenders"):
        detail = "extenders are not supported: write a plugin instead (docs/plugins.md)"
        errors.append(forbidden("extenders", detail))
    connection = _client_connection(given.get("clientConnection", {}), errors)
    election = _leader_election(given.get("leaderElection", {}), errors)
    parallelism = given.get("parallelism", 16)
    if parallelism <= 0:
        errors.append(invalid("parallelism", parallelism, "should be an integer value greater than zero"))
    remarks: list[str] = []
    profiles = _profiles(given.get("profiles") or [{}], registry, errors, remarks)
    percentage = given.get("percentageOfNodesToScore", 0)
    errors += _percentage_errors(percentage, "percentageOfNodesToScore")
    initial_s, max_s = given.get("podInitialBackoffSeconds", 1), given.get("podMaxBackoffSeconds", 10)
    if initial_s <= 0:
        errors.append(invalid("podInitialBackoffSeconds", initial_s, "must be greater than 0"))
    if max_s < initial_s:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid("podMaxBackoffSeconds", max_s, detail))
    if errors:
        return errors
    return KubeSchedulerConfiguration(
        profiles=profiles,
        percentage_of_nodes_to_score=percentage,
        pod_initial_backoff_s=initial_s,
        pod_max_backoff_s=max_s,
        parallelism=parallelism,
        client_connection=connection,
        leader_election=election,
        delay_cache_until_active=given.get("delayCacheUntilActive", False),
        remarks=tuple(remarks),
    )


def _type_errors(given: Object) -> FieldErrors:
    errors: FieldErrors = []
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if not given.get(field):
            errors.append(required(field, f"must be {expected}"))
        elif given[field] != expected:
            errors.append(not_supported(field, given[field], (expected,)))
    return errors


def _percentage_errors(percentage: int | None, path: str) -> FieldErrors:
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "not in valid range [0-100]")]


def _client_connection(given: Object, errors: FieldErrors) -> ClientConnection:
    default = ClientConnection()
    burst = given.get("burst", 0) or default.burst
    if burst < 0:
        errors.append(invalid("clientConnection.burst", burst, "must be non-negative"))
    return ClientConnection(
        kubeconfig=given.get("kubeconfig", ""),
        accept_content_types=given.get("acceptContentTypes", ""),
        content_type=given.get("contentType") or default.content_type,
        qps=float(given.get("qps", 0) or default.qps),
        burst=burst,
    )


def _leader_election(given: Object, errors: FieldErrors) -> LeaderElection:
    default = LeaderElection()
    election = LeaderElection(
        leader_elect=given.get("leaderElect", default.leader_elect),
        lease_duration_s=given.get("leaseDuration", 0) or default.lease_duration_s,
        renew_deadline_s=given.get("renewDeadline", 0) or default.renew_deadline_s,
        retry_period_s=given.get("retryPeriod", 0) or default.retry_period_s,
        resource_lock=given.get("resourceLock") or default.resource_lock,
        resource_name=given.get("resourceName") or default.resource_name,
        resource_namespace=given.get("resourceNamespace") or default.resource_namespace,
    )
    if not election.leader_elect:
        return election
    durations = {
        "leaseDuration": election.lease_duration_s,
        "renewDeadline": election.renew_deadline_s,
        "retryPeriod": election.retry_period_s,
    }
    for field, value_s in durations.items():
        if value_s <= 0:
            errors.append(invalid(f"leaderElection.{field}", _duration_text(value_s), "must be greater than zero"))
    if election.lease_duration_s <= election.renew_deadline_s:
        duration = _duration_text(election.renew_deadline_s)
        errors.append(invalid("leaderElection.leaseDuration", duration, "must be greater than `RenewDeadline`"))
    if election.resource_lock != "leases":
        item_path = "leaderElection.resourceLock"
        errors.append(invalid(item_path, election.resource_lock, 'resourceLock value must be "leases"'))
    return election


def _duration_text(duration_s: float) -> str:
    return format_duration(round(duration_s * 1_000_000_000))


def _profiles(
    given: list[Object | None], registry: Registry, errors: FieldErrors, remarks: list[str]
) -> tuple[KubeSchedulerProfile, ...]:
    profiles: list[KubeSchedulerProfile] = []
    index_by_name: dict[str, int] = {}
    for i, each in enumerate(given):
        written = each or {}
        item_path = f"profiles[{i}]"
        profile = _profile(written, item_path, registry, errors, remarks, is_only_profile=len(given) == 1)
        if profile.name in index_by_name:
            first = Verbatim(f'"profiles[{index_by_name[profile.name]}].schedulerName"')
            errors.append(duplicate(f"{item_path}.schedulerName", first))
        index_by_name[profile.name] = i
        profiles.append(profile)
    errors += _queue_sort_errors(given, profiles)
    return tuple(profiles)


def _profile(
    given: Object, path: str, registry: Registry, errors: FieldErrors, remarks: list[str], *, is_only_profile: bool
) -> KubeSchedulerProfile:
    # Only a single profile has a name by default.
    name = given.get("schedulerName", DEFAULT_SCHEDULER if is_only_profile else "")
    if not name:
        errors.append(required(f"{path}.schedulerName"))
    percentage = given.get("percentageOfNodesToScore")
    errors += _percentage_errors(percentage, f"{path}.percentageOfNodesToScore")
    plugins: Object = given.get("plugins", {})
    points = expand_multi_point(plugins, f"{path}.plugins", registry, errors)
    remarks += unknown_disabled(plugins, f"{path}.plugins", registry)
    if not points["bind"]:
        detail = f'at least one bind plugin is needed for profile with scheduler name "{name}"'
        errors.append(required(f"{path}.plugins.bind", detail))
    enabled = {each for chosen in points.values() for each, _ in chosen}
    args = _plugin_config(given.get("pluginConfig", []), f"{path}.pluginConfig", registry, errors)
    remarks += _unused_args(given.get("pluginConfig", []), f"{path}.pluginConfig", registry, enabled)
    for plugin in sorted(enabled - args.keys()):
        default = default_args(plugin)
        if default is not None:
            args[plugin] = default
        elif plugin not in BUILT_IN:
            args[plugin] = ExternalPluginArgs()
    return KubeSchedulerProfile(name, points, args, percentage)


def _plugin_config(given: list[Object | None], path: str, registry: Registry, errors: FieldErrors) -> dict[str, Args]:
    args: dict[str, Args] = {}
    seen: set[str] = set()
    for i, each in enumerate(given):
        name, document = (each or {}).get("name", ""), (each or {}).get("args", {})
        item_path = f"{path}[{i}]"
        if name in seen:
            errors.append(duplicate(item_path, name))
        seen.add(name)
        if name in READERS:
            decode, read = READERS[name]
            errors += _args_type_errors(name, document, f"{item_path}.args")
            args[name] = read(decode(document, f"{item_path}.args", errors) or {}, f"{item_path}.args", errors)
        elif name in registry and name not in BUILT_IN:
            args[name] = ExternalPluginArgs(document)
    return args


def _args_type_errors(plugin: str, document: Object, path: str) -> FieldErrors:
    """``apiVersion`` and ``kind`` of arguments are optional; if present, they must be correct."""
    errors: FieldErrors = []
    for field, expected in (("apiVersion", API_VERSION), ("kind", f"{plugin}Args")):
        written = document.get(field)
        if isinstance(written, str) and written not in ("", expected):
            errors.append(not_supported(f"{path}.{field}", written, (expected,)))
    return errors


def _unused_args(given: list[Object | None], path: str, registry: Registry, enabled: set[str]) -> Iterator[str]:
    for i, each in enumerate(given):
        name = (each or {}).get("name", "")
        if name not in registry:
            close = similar(name, registry)
            yield f"{path}[{i}].name: there is no plugin {name!r}" + (f"; is it {close}?" if close else "")
        elif name in BUILT_IN and name not in READERS:
            yield f"{path}[{i}].args: the plugin {name} takes no arguments"
        elif name not in enabled:
            yield f"{path}[{i}].name: the plugin {name} runs at no point of this profile"


def _queue_sort_errors(given: list[Object | None], profiles: list[KubeSchedulerProfile]) -> FieldErrors:
    """All profiles share one queue, so all must have the same single queueSort plugin."""
    errors: FieldErrors = []
    written = [((each or {}).get("plugins", {})).get("queueSort", {}) for each in given]
    sorts = [tuple(name for name, _ in profile.points["queueSort"]) for profile in profiles]
    for i, (queue_sort, profile) in enumerate(zip(written, profiles, strict=True)):
        item_path = f"profiles[{i}].plugins.queueSort"
        if i and (queue_sort or {}) != (written[0] or {}):
            errors.append(invalid(item_path, queue_sort, "must be the same for all profiles"))
        elif len(queue_sort.get("enabled", ())) > 1:
            count = len(queue_sort["enabled"])
            errors.append(invalid(f"{item_path}.enabled", count, "only one queue sort plugin can be enabled"))
        elif len(sorts[i]) != 1:
            detail = f'only one queue sort plugin required for profile with scheduler name "{profile.name}"'
            errors.append(invalid(item_path, list(sorts[i]), f"{detail}, but got {len(sorts[i])}"))
        elif i and len(sorts[0]) == 1 and sorts[i] != sorts[0]:
            detail = (
                f'different queue sort plugins for profile "{profile.name}": "{sorts[i][0]}", first: "{sorts[0][0]}"'
            )
            errors.append(invalid(item_path, sorts[i][0], detail))
    return errors
