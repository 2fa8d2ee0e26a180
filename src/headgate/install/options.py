"""The options of an installation. They are the values of the Helm chart, under the same names.

``tools/render_chart.py`` writes ``values.yaml`` and ``values.schema.json`` from these structs; ``headgate install``
sets them from its command line or from a values file. ``manifests.py`` has the objects that depend on them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from headgate.kube.field_errors import FieldErrors, type_invalid
from headgate.kube.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name
from headgate.kube.quantity import ZERO, parse
from headgate.kube.serializer.strict_decoding import record
from headgate.kube.serializer.struct_decoder import field_decoders
from headgate.kube.validation.labels import validate_labels

Object = dict[str, Any]

NAMESPACE: Final = "headgate-system"
COMPONENTS: Final = ("scheduler", "gates", "webhooks", "quota", "jobs")
"""In the order of ``--components``."""
MAX_REPLICAS: Final = 100
"""One replica works, and the others answer webhooks: a larger number is a mistake."""
GRACE_S: Final = 30
"""The pods are killed this long after SIGTERM."""
FEATURE_GATES: Final = "--feature-gates"
GATE_OWNERSHIP: Final = "GateOwnership"


_PATH: Final = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"([A-Za-z0-9.-]+(:[0-9]+)?/)?{_PATH}(/{_PATH})*", re.ASCII)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"[a-z0-9+._-]+:[0-9a-f]+", re.ASCII)


class _Options(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Unknown fields of a values file are errors."""


class ComponentOptions(_Options, frozen=True):
    scheduler: Annotated[bool, Meta(description="Schedule the pods that name Headgate as their scheduler.")] = True
    gates: Annotated[
        bool, Meta(description="Lift the queue gate of pods that another scheduler binds. Excludes scheduler.")
    ] = False
    webhooks: Annotated[bool, Meta(description="Gate new pods and suspend new jobs; validate queues.")] = True
    quota: Annotated[bool, Meta(description="Give the quota of ClusterQueues to Workloads.")] = True
    jobs: Annotated[bool, Meta(description="Create Workloads for jobs, and start and stop the jobs.")] = True

    def names(self) -> tuple[str, ...]:
        return tuple(name for name in COMPONENTS if getattr(self, name))


class QueueOptions(_Options, frozen=True):
    name: Annotated[str, Meta(description="A Queue to create, whose pods are gated. Empty: none.")] = ""
    capability: Annotated[
        dict[str, str | int], Meta(description="The most that the pods of this queue may use. Empty: no limit.")
    ] = {}


class ImageOptions(_Options, frozen=True):
    repository: Annotated[str, Meta(description="The image, with its registry and without a tag.")] = "headgate"
    tag: Annotated[str, Meta(description="Empty: the version of this release.")] = ""
    digest: Annotated[str, Meta(description="A digest (sha256:…), which is used in place of the tag.")] = ""
    pull_policy: Annotated[Literal["Always", "IfNotPresent", "Never"], Meta(description="When to pull.")] = (
        "IfNotPresent"
    )


class ServiceAccountOptions(_Options, frozen=True):
    annotations: Annotated[dict[str, str], Meta(description="Annotations of the ServiceAccount.")] = {}


class SwitchOptions(_Options, frozen=True):
    enabled: Annotated[bool, Meta(description="Whether the object is created.")] = False


class GatePolicyOptions(_Options, frozen=True):
    enabled: Annotated[
        bool,
        Meta(description="Install GatePolicy and switch on the feature gate GateOwnership. Needs components.webhooks."),
    ] = False


class MetricsOptions(_Options, frozen=True):
    secure: Annotated[bool, Meta(description="Serve metrics over TLS, to users that may get the path /metrics.")] = (
        False
    )


class MonitorOptions(_Options, frozen=True):
    enabled: Annotated[bool, Meta(description="Whether the object is created. Needs the Prometheus Operator.")] = False
    labels: Annotated[
        dict[str, str], Meta(description="Labels of the object, by which your Prometheus selects it.")
    ] = {}
    interval: Annotated[str, Meta(description="How often Prometheus reads the metrics.")] = "30s"


class RulesOptions(_Options, frozen=True):
    enabled: Annotated[bool, Meta(description="Whether the alerts are created. Needs the Prometheus Operator.")] = False
    labels: Annotated[
        dict[str, str], Meta(description="Labels of the object, by which your Prometheus selects it.")
    ] = {}


class DashboardOptions(_Options, frozen=True):
    enabled: Annotated[bool, Meta(description="Whether the ConfigMap with the Grafana dashboard is created.")] = False
    labels: Annotated[
        dict[str, str], Meta(description="Labels of the ConfigMap, by which Grafana's sidecar selects it.")
    ] = msgspec.field(default_factory=lambda: {"grafana_dashboard": "1"})


class MonitoringOptions(_Options, frozen=True):
    pod_monitor: Annotated[MonitorOptions, Meta(description="A PodMonitor.")] = MonitorOptions()
    service_monitor: Annotated[MonitorOptions, Meta(description="A ServiceMonitor.")] = MonitorOptions()
    prometheus_rule: Annotated[RulesOptions, Meta(description="A PrometheusRule with alerts.")] = RulesOptions()
    dashboard: Annotated[DashboardOptions, Meta(description="A dashboard for Grafana.")] = DashboardOptions()


class LivePageOptions(_Options, frozen=True):
    enabled: Annotated[
        bool, Meta(description="Whether a Deployment runs `headgate dashboard`, for users with tokens of the cluster.")
    ] = False
    tls_secret: Annotated[
        str,
        Meta(description="A Secret (tls.crt, tls.key). Empty: the pod makes a certificate that browsers do not know."),
    ] = ""
    allow_actions: Annotated[
        bool, Meta(description="Whether viewers may lift gates, hold queues and jobs, each with their own rights.")
    ] = False
    resources: Annotated[Object, Meta(description="Requests and limits of the container.")] = msgspec.field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    )


class CustomResourceOptions(_Options, frozen=True):
    enabled: Annotated[bool, Meta(description="Whether missing CustomResourceDefinitions are created.")] = True
    keep: Annotated[bool, Meta(description="Whether `helm uninstall` keeps them, and all queues with them.")] = True


class UninstallOptions(_Options, frozen=True):
    hook: Annotated[bool, Meta(description="Whether `helm uninstall` first runs `headgate uninstall --prepare`.")] = (
        True
    )
    lift_gates: Annotated[bool, Meta(description="Whether waiting pods and jobs are released.")] = True


class InstallOptions(_Options, frozen=True):
    """The values of the chart. The namespace is not one of them: Helm has its own flag for it."""

    components: Annotated[ComponentOptions, Meta(description="What the pods run.")] = ComponentOptions()
    queue: Annotated[QueueOptions, Meta(description="A first queue for the queue gate.")] = QueueOptions()
    gate_policies: Annotated[
        GatePolicyOptions, Meta(description="Owners and limits of scheduling gates (docs/gate-policies.md).")
    ] = GatePolicyOptions()
    image: Annotated[ImageOptions, Meta(description="The container image.")] = ImageOptions()
    image_pull_secrets: Annotated[list[Object], Meta(description="Secrets with credentials of the registry.")] = []
    replicas: Annotated[
        int, Meta(ge=1, le=MAX_REPLICAS, description="Pods. One of them works, all of them answer webhooks.")
    ] = 2
    resources: Annotated[Object, Meta(description="Requests and limits of the container.")] = msgspec.field(
        default_factory=lambda: {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
    )
    priority_class_name: Annotated[str, Meta(description="The priority class of the pods.")] = "system-cluster-critical"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level of log lines.")
    ] = "info"
    log_format: Annotated[Literal["text", "json"], Meta(description="The format of log lines.")] = "text"
    extra_args: Annotated[
        list[str], Meta(description="Further arguments of `headgate run`, such as --gate-all-pods.")
    ] = []
    configuration: Annotated[
        Object, Meta(description="Fields of a Configuration (headgate.dev/v1alpha1). Arguments of the pods win.")
    ] = {}
    extra_volumes: Annotated[
        list[Object], Meta(description="Further volumes, such as a ConfigMap with the file of --job-kinds.")
    ] = []
    extra_volume_mounts: Annotated[list[Object], Meta(description="Where the container has them.")] = []
    additional_rules: Annotated[
        list[Object], Meta(description="Further rules of the ClusterRole, such as those for job kinds of your own.")
    ] = []
    host_network: Annotated[
        bool, Meta(description="Use the network of the node, where API servers reach nothing else.")
    ] = False
    pod_annotations: Annotated[dict[str, str], Meta(description="Annotations of the pods.")] = {}
    pod_labels: Annotated[dict[str, str], Meta(description="Labels of the pods.")] = {}
    node_selector: Annotated[dict[str, str], Meta(description="Labels of the nodes for the pods.")] = {}
    tolerations: Annotated[list[Object], Meta(description="Tolerations of the pods.")] = msgspec.field(
        default_factory=lambda: [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    )
    affinity: Annotated[Object, Meta(description="Affinity of the pods.")] = {}
    service_account: Annotated[ServiceAccountOptions, Meta(description="The account of the pods.")] = (
        ServiceAccountOptions()
    )
    network_policy: Annotated[
        SwitchOptions, Meta(description="A NetworkPolicy that admits traffic to webhooks and metrics only.")
    ] = SwitchOptions(enabled=True)
    user_roles: Annotated[
        SwitchOptions, Meta(description="ClusterRoles for users, aggregated to view, edit and admin.")
    ] = SwitchOptions(enabled=True)
    metrics: Annotated[MetricsOptions, Meta(description="How metrics are served.")] = MetricsOptions()
    monitoring: Annotated[MonitoringOptions, Meta(description="Objects for Prometheus and Grafana.")] = (
        MonitoringOptions()
    )
    dashboard: Annotated[LivePageOptions, Meta(description="The live page (docs/dashboard.md).")] = LivePageOptions()
    crds: Annotated[CustomResourceOptions, Meta(description="The CustomResourceDefinitions of queues.")] = (
        CustomResourceOptions()
    )
    uninstall: Annotated[UninstallOptions, Meta(description="What happens at `helm uninstall`.")] = UninstallOptions()


def gates_only(queue: QueueOptions) -> InstallOptions:
    """The smallest installation: the queue gate for pods that the existing scheduler binds."""
    return InstallOptions(
        components=ComponentOptions(scheduler=False, gates=True, webhooks=True, quota=False, jobs=False), queue=queue
    )


def with_components(options: InstallOptions, names: list[str]) -> InstallOptions | str:
    """The options with exactly these components, or an error text."""
    unknown = sorted(set(names) - set(COMPONENTS))
    if unknown:
        return f"{', '.join(unknown)} is not one of {', '.join(COMPONENTS)}"
    chosen = ComponentOptions(**{name: name in names for name in COMPONENTS})
    return msgspec.structs.replace(options, components=chosen)


def problem_of(options: InstallOptions) -> str:
    """Why these options cannot be installed; empty if they can."""
    names = options.components.names()
    if not names:
        return f"no component is chosen: choose at least one of {', '.join(COMPONENTS)}"
    if "scheduler" in names and "gates" in names:
        return "scheduler and gates exclude each other: choose gates if another scheduler binds the pods"
    if "gates" in names and "webhooks" not in names:
        return "gates needs webhooks, which add the gate to new pods: add webhooks to the components"
    if problem := _problem_of_queue(options.queue) or _problem_of_image(options.image) or _problem_of_pods(options):
        return problem
    if options.queue.name and not {"scheduler", "gates"} & set(names):
        return f"no component serves the queue {options.queue.name}: add scheduler or gates, or leave the queue out"
    if options.gate_policies.enabled and "webhooks" not in names:
        return "gatePolicies needs webhooks, which apply the policies: add webhooks to the components"
    if options.gate_policies.enabled and any(
        each.startswith(FEATURE_GATES) and f"{GATE_OWNERSHIP}=true" not in each for each in options.extra_args
    ):
        return f"{FEATURE_GATES} of extraArgs replaces that of gatePolicies: add {GATE_OWNERSHIP}=true to it"
    return ""


def _problem_of_queue(queue: QueueOptions) -> str:
    if queue.name and (messages := is_dns1123_subdomain(queue.name)):
        return f"queue {queue.name!r}: {messages[0]}"
    for resource, amount in queue.capability.items():
        if messages := is_qualified_name(resource):
            return f"capability {resource}={amount}: {resource!r} is not the name of a resource: {messages[0]}"
        parsed = parse(amount)
        if isinstance(parsed, str):
            return f"capability {resource}={amount}: {amount!r} is not a quantity, such as 20, 500m or 4Gi"
        if parsed < ZERO:
            return f"capability {resource}={amount}: the limit must not be negative"
    return ""


def _problem_of_image(image: ImageOptions) -> str:
    for name, value, pattern, example in (
        ("repository", image.repository, _REPOSITORY, "registry.example/headgate"),
        ("tag", image.tag, _TAG, "1.2"),
        ("digest", image.digest, _DIGEST, "sha256:0123…"),
    ):
        if (value or name == "repository") and not pattern.fullmatch(value):
            return f"image.{name} {value!r} is not valid: write one such as {example}"
    return ""


def _problem_of_pods(options: InstallOptions) -> str:
    if options.dashboard.tls_secret and (messages := is_dns1123_subdomain(options.dashboard.tls_secret)):
        return f"dashboard.tlsSecret {options.dashboard.tls_secret!r}: {messages[0]}"
    if options.priority_class_name and (messages := is_dns1123_subdomain(options.priority_class_name)):
        return f"priorityClassName {options.priority_class_name!r}: {messages[0]}"
    monitoring = options.monitoring
    errors = [
        *validate_labels(options.pod_labels, "podLabels"),
        *validate_labels(options.node_selector, "nodeSelector"),
        *validate_labels(monitoring.pod_monitor.labels, "monitoring.podMonitor.labels"),
        *validate_labels(monitoring.service_monitor.labels, "monitoring.serviceMonitor.labels"),
        *validate_labels(monitoring.prometheus_rule.labels, "monitoring.prometheusRule.labels"),
        *validate_labels(monitoring.dashboard.labels, "monitoring.dashboard.labels"),
    ]
    return str(errors[0]) if errors else ""


def problem_of_namespace(namespace: str) -> str:
    """Why no namespace can have this name; empty if one can."""
    messages = is_dns1123_label(namespace)
    return f"{namespace!r} cannot be the name of a namespace: {messages[0]}" if messages else ""


def read_values(document: Any) -> InstallOptions | FieldErrors:
    """The options in a values file, or all its errors with the paths of the fields. As in Helm, a map adds to the
    default map, and ``null`` removes an entry of it. :func:`problem_of` checks whether the options fit together."""
    if not isinstance(document, dict | None):
        return [type_invalid("", document, "a values file is a map of options")]
    values = _merged(msgspec.to_builtins(InstallOptions()), document or {})
    errors: FieldErrors = []
    _decode(values, "", errors)
    return errors or msgspec.convert(values, InstallOptions)


_decode: Final = record(field_decoders(InstallOptions))


def _merged(defaults: Object, given: Object) -> Object:
    result = dict(defaults)
    for key, value in given.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merged(result[key], value)
        else:
            result[key] = value
    return result
