"""The options of ``headgate up``, validated as far as possible without side effects, and the sizes of simulated nodes.

``cli/commands/up.py`` builds :class:`ClusterOptions` from the command line; ``cli/embedded/cluster.py`` starts the
cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.apimachinery.validation.pod.resources import is_integer_resource, validate_resource_name
from headgate.apiserver.admission_plugins import plugin_table
from headgate.cli.embedded.credentials import AccessOptions
from headgate.cli.options.address import parse_address
from headgate.controllers.node_lifecycle.config import NodeLifecycleConfig, config_for_grace_period
from headgate.http.peer import is_loopback
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import quantity, timestamps
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.quantity import Quantity
from headgate.kube.resource_amounts import CPU, MAX_NODE_AMOUNT, MEMORY, amount_text, units
from headgate.scheduling.pod_conditions import GATED_EVENTS_PER_HOUR

DASHBOARD_LISTEN: Final = "127.0.0.1:6480"
_REQUIRED: Final = (CPU, MEMORY)
"""A node needs more than 0 of these."""


def parse_sizes(by_option: Mapping[str, str], extra: Sequence[str]) -> dict[str, str] | str:
    """``by_option``: amounts of resources that have an option, such as ``--node-cpu``. ``extra``: values of
    ``--node-resource NAME=QUANTITY``."""
    found = dict(by_option)
    for name, amount in by_option.items():
        if problem := _problem(name, amount):
            return f"--node-{name} {amount!r}: {problem}"
    for text in extra:
        name, equals, amount = text.partition("=")
        if not equals:
            return f"--node-resource {text!r} is not NAME=QUANTITY; try nvidia.com/gpu=4"
        problem = f"use --node-{name}" if name in by_option else "it is given twice" if name in found else ""
        if problem := problem or _problem(name, amount):
            return f"--node-resource {text!r}: {problem}"
        found[name] = amount
    return found


def _problem(name: str, amount: str) -> str:
    """Why a node cannot have this amount; empty if it can."""
    for error in validate_resource_name(name, "NAME"):
        return f"{name!r} is not the name of a resource: {error.detail}"
    parsed = quantity.parse(amount)
    if not isinstance(parsed, Quantity):
        return f"it is not an amount of {name}: {parsed}"
    if parsed.nano < 0 or (name in _REQUIRED and parsed.nano == 0):
        return f"it must {'be more' if name in _REQUIRED else 'not be less'} than 0"
    if is_integer_resource(name) and parsed.nano % 10**9:
        return f"{name} is counted in whole numbers"
    if units(name, parsed) > MAX_NODE_AMOUNT:
        return f"no node has so much {name}; {amount_text(name, MAX_NODE_AMOUNT)} at most"
    return ""


COMPONENTS: Final = ("apiserver", "nodes", "controllers", "scheduler", "quota", "jobs")
SCHEDULERS: Final = ("headgate", "volcano", "default-scheduler")
"""The values of ``schedulerName`` that the cluster's only scheduler serves."""


class StartupError(Exception):
    """The cluster cannot start. The text is one line that says how to fix it."""


class ClusterOptions(msgspec.Struct, frozen=True):
    data: Path
    host: str
    port: int
    kubeconfig: Path
    components: frozenset[str]
    node_count: int
    node_resources: Mapping[str, str]
    features: FeatureGates
    access: AccessOptions
    event_ttl_s: float = 3600.0
    disabled_plugins: frozenset[str] = frozenset()
    gates_all_pods: bool = False
    """Whether new pods get the queue gate unless they opt out."""
    create_pod_groups: bool = False
    all_profiles_wait: bool = False
    """Whether pods of all profiles wait for terminating pods, not only pods that use queues or have Kueue's quota."""
    gated_events_per_hour: int = GATED_EVENTS_PER_HOUR
    autoscaler: str = ""
    """The autoscaler whose model adds nodes; empty for none."""
    trusted_users: frozenset[str] = frozenset()
    """The users that may write the stamp of a pod."""
    node_lifecycle: NodeLifecycleConfig = NodeLifecycleConfig()
    jobs: JobSettings = DEFAULT
    metrics_at: tuple[str, int] | None = None
    dashboard_at: tuple[str, int] | None = None
    """Where the page is served."""
    dashboard_may_move: bool = False
    """Whether any free port will do if that one is in use."""
    dashboard_allows_actions: bool = False
    scheduler_config: Path | None = None
    """A file with scheduler profiles, in addition to the default ones or in place of those of the same name."""

    @classmethod
    def parse(
        cls,
        *,
        data: Path,
        listen: str,
        kubeconfig: Path,
        components: str,
        node_count: int,
        node_resources: Mapping[str, str],
        extra_resources: Sequence[str],
        features: FeatureGates,
        access: AccessOptions,
        event_ttl: str = "1h",
        disabled_plugins: Sequence[str] = (),
        gates_all_pods: bool = False,
        create_pod_groups: bool = False,
        all_profiles_wait: bool = False,
        gated_events_per_hour: int = GATED_EVENTS_PER_HOUR,
        autoscaler: str = "",
        trusted_users: Sequence[str] = (),
        node_grace_period: str = "50s",
        jobs: JobSettings = DEFAULT,
        metrics_listen: str = "",
        dashboard_listen: str = "",
        dashboard: bool = False,
        dashboard_allows_actions: bool = False,
        scheduler_config: Path | None = None,
    ) -> ClusterOptions | str:
        """Parses the options; returns a message if they are invalid."""
        address = parse_address("--listen", listen, "127.0.0.1:6443")
        if isinstance(address, str):
            return address
        metrics_at = parse_address("--metrics-listen", metrics_listen, "127.0.0.1:10259") if metrics_listen else None
        if isinstance(metrics_at, str):
            return metrics_at
        dashboard_at = parse_address("--dashboard-listen", dashboard_listen or DASHBOARD_LISTEN, DASHBOARD_LISTEN)
        if isinstance(dashboard_at, str):
            return dashboard_at
        if not is_loopback(dashboard_at[0]):
            return (
                f"--dashboard-listen {dashboard_listen}: the page of headgate up has no TLS; listen on 127.0.0.1, or "
                "serve it with headgate dashboard --listen"
            )
        component_set = frozenset(each.strip() for each in components.split(",") if each.strip())
        unknown = sorted(component_set - set(COMPONENTS))
        if unknown:
            return f"--components names {', '.join(unknown)}, which is not one of {', '.join(COMPONENTS)}"
        if "apiserver" not in component_set:
            return "--components must name apiserver: nothing else runs without it"
        if autoscaler and "nodes" not in component_set:
            return "--autoscaler needs nodes among the --components, which simulates the nodes that it adds"
        if scheduler_config is not None and "scheduler" not in component_set:
            return "--config needs scheduler among the --components: it configures the scheduler"
        resources = parse_sizes(node_resources, extra_resources)
        if isinstance(resources, str):
            return resources
        ttl_ns = timestamps.parse_duration(event_ttl)
        if isinstance(ttl_ns, str) or ttl_ns < 0:
            return f"--event-ttl {event_ttl!r} is not a duration; try 1h, 90m, or 0 to keep events without a time limit"
        disabled = frozenset(name.strip() for text in disabled_plugins for name in text.split(",") if name.strip())
        if unknown := sorted(disabled - plugin_table.PLUGIN_NAMES):
            known = ", ".join(sorted(plugin_table.PLUGIN_NAMES))
            return f"--disable-admission-plugins names {', '.join(unknown)}, which is not one of {known}"
        grace_ns = timestamps.parse_duration(node_grace_period)
        if isinstance(grace_ns, str) or grace_ns < 10**9:
            return f"--node-monitor-grace-period {node_grace_period!r} is not a duration of at least 1s; try 50s"
        return cls(
            data=data,
            host=address[0],
            port=address[1],
            kubeconfig=kubeconfig,
            components=component_set,
            node_count=node_count,
            node_resources=resources,
            features=features,
            access=access,
            event_ttl_s=ttl_ns / 1e9,
            disabled_plugins=disabled,
            gates_all_pods=gates_all_pods,
            create_pod_groups=create_pod_groups,
            all_profiles_wait=all_profiles_wait,
            gated_events_per_hour=gated_events_per_hour,
            autoscaler=autoscaler,
            trusted_users=frozenset(trusted_users),
            node_lifecycle=config_for_grace_period(grace_ns / 1e9),
            jobs=jobs,
            metrics_at=metrics_at,
            dashboard_at=dashboard_at if dashboard else None,
            dashboard_may_move=not dashboard_listen,
            dashboard_allows_actions=dashboard_allows_actions,
            scheduler_config=scheduler_config,
        )
