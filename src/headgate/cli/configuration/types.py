"""The schema of ``headgate.dev/v1alpha1``, kind ``Configuration``: frozen structs whose fields carry their own text.

A field that a file leaves out is ``None``: the flag of ``headgate run`` has the default. ``flags.py`` maps flags to
fields, ``decoder.py`` decodes a file strictly, ``docs.py`` writes docs/configuration.md from this module. A field that
is added here needs a row in ``flags.py``, unless no flag sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from headgate.kube.serializer.struct_decoder import plain_type

API_VERSION: Final = "headgate.dev/v1alpha1"
KIND: Final = "Configuration"

Object = dict[str, Any]


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A group of fields."""


class ClientConnectionSection(_Section, frozen=True, kw_only=True):
    kubeconfig: Annotated[
        str | None,
        Meta(description="The kubeconfig. Without it: `$KUBECONFIG`, `~/.kube/config`, or the pod's service account."),
    ] = None
    context: Annotated[str | None, Meta(description="The context of the kubeconfig.")] = None


class LeaderElectionSection(_Section, frozen=True, kw_only=True):
    leader_elect: Annotated[
        bool | None,
        Meta(description="Whether replicas elect a leader. It overrides the scheduler configuration's own value."),
    ] = None


class SchedulerSection(_Section, frozen=True, kw_only=True):
    names: Annotated[
        tuple[str, ...] | None, Meta(description="The values of `spec.schedulerName` that are served.")
    ] = None
    configuration_file: Annotated[
        str | None,
        Meta(
            description="A KubeSchedulerConfiguration or a volcano-scheduler.conf. A relative path begins at the folder"
            " of this file. Excludes `configuration`."
        ),
    ] = None
    configuration: Annotated[
        Object | None,
        Meta(description="The same as `configurationFile`, written here as an object."),
    ] = None
    wait_for_terminating: Annotated[
        bool | None,
        Meta(
            description="Pods of every profile wait for terminating pods that leave enough capacity, before they become"
            " Unschedulable. Pods that use queues or have Kueue's quota always do."
        ),
    ] = None
    gated_pod_events_per_hour: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | None,
        Meta(description="How many Events per hour may name the gates of gated pods. 0: none."),
    ] = None


class QueuesSection(_Section, frozen=True, kw_only=True):
    gate_all_pods: Annotated[
        bool | None,
        Meta(description="Gate all new pods, unless the annotation of the queue gate says `false`."),
    ] = None
    gated_scheduler_names: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="The component `gates` removes the queue gates of pods with these values of"
            " `spec.schedulerName`, which another scheduler binds. Default: `default-scheduler`."
        ),
    ] = None
    pod_groups_for_bare_pods: Annotated[
        bool | None,
        Meta(description="Create a PodGroup for each pod of a queue that names none, as Volcano does."),
    ] = None
    trusted_users: Annotated[
        tuple[str, ...] | None,
        Meta(description="User names that may write the annotation that marks a pod as admitted."),
    ] = None


class WebhooksSection(_Section, frozen=True, kw_only=True):
    url: Annotated[
        str | None,
        Meta(description="The URL at which API servers reach the webhooks, if there is no Service."),
    ] = None
    service: Annotated[
        str | None,
        Meta(description="The Service through which API servers reach the webhooks, as `NAMESPACE/NAME[:PORT]`."),
    ] = None
    listen: Annotated[
        str | None,
        Meta(description="The address on which the webhook server listens, as `HOST:PORT`."),
    ] = None
    secret: Annotated[
        str | None,
        Meta(description="The Secret in which replicas share the webhooks' certificates, as `NAMESPACE/NAME`."),
    ] = None
    shutdown_delay: Annotated[
        str | None,
        Meta(description="How long webhooks are still served after SIGTERM, while the process is not ready."),
    ] = None


class RequeuingSection(_Section, frozen=True, kw_only=True):
    """The fields of Kueue's ``requeuingStrategy``."""

    timestamp: Annotated[
        Literal["Eviction", "Creation"] | None,
        Meta(description="The time that orders a requeued workload in its queue. Default: `Eviction`."),
    ] = None
    backoff_limit_count: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="After this many evictions the workload is deactivated. Default: no limit."),
    ] = None
    backoff_base_seconds: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The first back-off; each further one doubles. Default: 60."),
    ] = None
    backoff_max_seconds: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The longest back-off. Default: 3600.")
    ] = None


class PodsReadySection(_Section, frozen=True, kw_only=True):
    """The fields of Kueue's ``waitForPodsReady`` that are supported."""

    timeout: Annotated[
        str | None,
        Meta(description="Evict a workload whose pods are not all ready this long after its admission (`5m`)."),
    ] = None
    recovery_timeout: Annotated[
        str | None,
        Meta(
            description="The same for pods that were ready and are not any more. `0s`: no limit."
            " Default: the value of `timeout`."
        ),
    ] = None
    requeuing_strategy: Annotated[
        RequeuingSection | None, Meta(description="How an evicted workload returns to its queue.")
    ] = None


class JobsSection(_Section, frozen=True, kw_only=True):
    manage_jobs_without_queue_name: Annotated[
        bool | None, Meta(description="Jobs and pods that name no queue wait for quota, too.")
    ] = None
    managed_jobs_namespace_selector: Annotated[
        Object | None,
        Meta(
            description="A label selector (`matchLabels`, `matchExpressions`): only jobs and pods in namespaces with"
            " these labels wait in queues."
        ),
    ] = None
    frameworks: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="The built-in kinds that wait in queues: `batch/job`, `pod`, `deployment` (with ReplicaSets),"
            " `statefulset`. The last two need `pod`. Default: these four. [job-kinds.md](job-kinds.md) has the names"
            " of the other built-in kinds, such as `ray.io/rayjob`. Kinds of `kindsFile` and `kinds` are added."
        ),
    ] = None
    quota_release: Annotated[
        dict[str, Literal["OnTerminating", "OnTerminal"]] | None,
        Meta(
            description="When quota is released, for `batch/job` and `pod`: `OnTerminating` (the last pod begins to"
            " terminate) or `OnTerminal` (it has ended)."
        ),
    ] = None
    kinds_file: Annotated[
        str | None,
        Meta(
            description="Further kinds of jobs that wait in queues ([job-kinds.md](job-kinds.md)). A relative path"
            " begins at the folder of this file. Excludes `kinds`."
        ),
    ] = None
    kinds: Annotated[
        list[Object] | None,
        Meta(description="The same as `kindsFile`, written here as a list."),
    ] = None
    wait_for_pods_ready: Annotated[
        PodsReadySection | None,
        Meta(description="Workloads whose pods are not ready in time are evicted and requeued. Default: never."),
    ] = None
    max_wait_for_terminating_pods: Annotated[
        str | None,
        Meta(
            description="How long an admitted workload waits at most for terminating pods that still use its quota,"
            " regardless of their grace periods."
        ),
    ] = None
    report_terminating_pods_after: Annotated[
        str | None,
        Meta(
            description="How long after the end of its grace period a terminating pod whose quota is released is"
            " reported by an Event and a metric."
        ),
    ] = None
    force_delete_terminating_pods_after: Annotated[
        str | None,
        Meta(
            description="Pods that still terminate on a Ready node are deleted without a grace period, this long after"
            " twice their grace period, if they have the annotation `kueue.x-k8s.io/safe-to-forcefully-delete: true`."
            " At least `1m`. Default: never."
        ),
    ] = None


class MetricsSection(_Section, frozen=True, kw_only=True):
    listen: Annotated[
        str | None,
        Meta(description="The address of `/metrics`, `/healthz`, `/livez` and `/readyz`, as `HOST:PORT`."),
    ] = None
    secure: Annotated[
        bool | None,
        Meta(
            description="Serve over TLS; `/metrics` needs a bearer token whose user may `get` the path `/metrics`"
            " ([observability.md](observability.md#metrics-over-tls))."
        ),
    ] = None
    cert_file: Annotated[
        str | None,
        Meta(
            description="The certificate of `secure` (PEM). A relative path begins at the folder of this file."
            " A changed certificate is used without a restart. Default: a new one, which clients cannot verify."
        ),
    ] = None
    key_file: Annotated[str | None, Meta(description="The key of `certFile` (PEM).")] = None


class LoggingSection(_Section, frozen=True, kw_only=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        Meta(description="The lowest level of log lines. `info` has one line for each decision. Reloaded."),
    ] = None
    format: Annotated[
        Literal["text", "json"] | None,
        Meta(description="The format of log lines. Reloaded."),
    ] = None


class Configuration(_Section, frozen=True, kw_only=True):
    """The whole file, without ``apiVersion`` and ``kind``."""

    components: Annotated[tuple[str, ...] | None, Meta(description="The components to run.")] = None
    feature_gates: Annotated[
        dict[str, bool] | None,
        Meta(description="Features to switch on or off. `--feature-gates` overrides single gates."),
    ] = None
    takeover: Annotated[
        bool | None,
        Meta(description="Start even while another scheduler or quota controller renews its Lease."),
    ] = None
    dry_run: Annotated[bool | None, Meta(description="Print what the scheduler would do; write nothing.")] = None
    client_connection: Annotated[ClientConnectionSection, Meta(description="The cluster.")] = ClientConnectionSection()
    leader_election: Annotated[LeaderElectionSection, Meta(description="Replicas.")] = LeaderElectionSection()
    scheduler: Annotated[SchedulerSection, Meta(description="The component `scheduler`.")] = SchedulerSection()
    queues: Annotated[QueuesSection, Meta(description="Volcano-style queues and their gate.")] = QueuesSection()
    webhooks: Annotated[WebhooksSection, Meta(description="The component `webhooks`.")] = WebhooksSection()
    jobs: Annotated[JobsSection, Meta(description="The components `quota` and `jobs`.")] = JobsSection()
    metrics: Annotated[MetricsSection, Meta(description="Metrics and health checks.")] = MetricsSection()
    logging: Annotated[LoggingSection, Meta(description="Log lines on standard error.")] = LoggingSection()


class SchemaField(msgspec.Struct, frozen=True):
    """One field of the schema. ``type``: as ``msgspec.inspect`` describes it, without the alternative ``None``;
    ``description``: Markdown."""

    path: str
    type: msgspec.inspect.Type
    description: str


def schema_fields() -> tuple[SchemaField, ...]:
    """All fields in the order of their declaration; a section comes before its fields."""
    root = msgspec.inspect.type_info(Configuration)
    assert isinstance(root, msgspec.inspect.StructType)
    return tuple(_fields_of(root, ""))


def _fields_of(struct: msgspec.inspect.StructType, prefix: str) -> list[SchemaField]:
    found: list[SchemaField] = []
    for field in struct.fields:
        path = f"{prefix}{field.encode_name}"
        type_, description = plain_type(field.type)
        found.append(SchemaField(path, type_, description))
        if isinstance(type_, msgspec.inspect.StructType):
            found += _fields_of(type_, f"{path}.")
    return found


def values_of(configuration: Configuration) -> Mapping[str, Any]:
    """The value of each field that is set, by path. Sections are not in it, except ``jobs.waitForPodsReady``."""
    return dict(_values(configuration, ""))


def _values(section: msgspec.Struct, prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(section):
        value, path = getattr(section, field.name), f"{prefix}{field.encode_name}"
        if isinstance(value, PodsReadySection) or (value is not None and not isinstance(value, _Section)):
            found.append((path, value))
        elif isinstance(value, _Section):
            found += _values(value, f"{path}.")
    return found
