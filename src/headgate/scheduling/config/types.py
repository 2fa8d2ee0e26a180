"""The scheduler's configuration as frozen values: validated, and with all defaults set.

``scheduler_configuration.py`` reads these values from a ``KubeSchedulerConfiguration`` file. Field names are those of
the file in Python's spelling (``pod_max_backoff_s`` for ``podMaxBackoffSeconds``); durations are in seconds. The keys
of ``points`` are extension points as the file spells them (``preEnqueue``). ``scheduling/profile.py`` makes plugins
from these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.conf import SchedulerConf
from headgate.kube.node_affinity import NodeSelector, PreferredSchedulingTerms

DEFAULT_SCHEDULER: Final = "default-scheduler"


class ResourceSpec(msgspec.Struct, frozen=True):
    """A resource that counts in a score, with its weight."""

    name: str
    weight: int = 1


class UtilizationShapePoint(msgspec.Struct, frozen=True):
    """A node with this utilization in percent gets this score (0 to 10); between points it is interpolated."""

    utilization: int
    score: int


CPU_AND_MEMORY: Final = (ResourceSpec("cpu"), ResourceSpec("memory"))


class NodeResourcesFitArgs(msgspec.Struct, frozen=True):
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    strategy: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY
    shape: tuple[UtilizationShapePoint, ...] = ()
    """For the strategy RequestedToCapacityRatio."""


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, frozen=True):
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class PodTopologySpreadArgs(msgspec.Struct, frozen=True):
    """``default_constraints``: the constraints of the configuration file, as decoded JSON; they apply to pods without
    constraints if ``defaulting_type`` is List. If it is System they are empty, and kube-scheduler's two built-in
    defaults apply (``SYSTEM_DEFAULTS`` in ``plugins/podtopologyspread/constraints.py``)."""

    default_constraints: tuple[Mapping[str, Any], ...] = ()
    defaulting_type: str = "System"


class InterPodAffinityArgs(msgspec.Struct, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(msgspec.Struct, frozen=True):
    """The added affinity, which every pod of the profile gets besides its own."""

    added: NodeSelector | None = None
    added_preferred: PreferredSchedulingTerms | None = None


class VolumeBindingArgs(msgspec.Struct, frozen=True):
    bind_timeout_s: int = 600


class DefaultPreemptionArgs(msgspec.Struct, frozen=True):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DynamicResourcesArgs(msgspec.Struct, frozen=True):
    filter_timeout_s: float = 10.0


class BinPackArgs(msgspec.Struct, frozen=True):
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class ExternalPluginArgs(msgspec.Struct, frozen=True):
    """The arguments of an external plugin, as decoded JSON; the plugin validates them."""

    given: Mapping[str, Any] = {}


Args = (
    NodeResourcesFitArgs
    | NodeResourcesBalancedAllocationArgs
    | PodTopologySpreadArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | VolumeBindingArgs
    | DefaultPreemptionArgs
    | DynamicResourcesArgs
    | BinPackArgs
    | ExternalPluginArgs
)

Enabled = tuple[str, int]
"""The name of an enabled plugin, and its weight, which is used at ``score`` only."""


class KubeSchedulerProfile(msgspec.Struct, frozen=True):
    """The plugins and their arguments for pods with this ``schedulerName``."""

    name: str
    points: Mapping[str, tuple[Enabled, ...]]
    args: Mapping[str, Args]
    percentage_of_nodes_to_score: int | None = None
    """``None``: the value of the configuration."""
    queues: SchedulerConf | None = None
    """The configuration of queues: pods are tried in the order of queues, jobs and tasks. ``None``: pods are tried in
    the order of ``queueSort``."""

    def plugins(self) -> tuple[str, ...]:
        """All plugins of the profile, each once, in order."""
        return tuple(dict.fromkeys(name for enabled in self.points.values() for name, _ in enabled))


class ClientConnection(msgspec.Struct, frozen=True):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class LeaderElection(msgspec.Struct, frozen=True):
    """The default Lease is not kube-scheduler's, because kube-scheduler may run in the same cluster."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_lock: str = "leases"
    resource_name: str = "headgate-scheduler"
    resource_namespace: str = "kube-system"


class KubeSchedulerConfiguration(msgspec.Struct, frozen=True):
    profiles: tuple[KubeSchedulerProfile, ...]
    percentage_of_nodes_to_score: int = 0
    """0: a percentage that falls with the number of nodes."""
    pod_initial_backoff_s: int = 1
    pod_max_backoff_s: int = 10
    parallelism: int = 16
    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    delay_cache_until_active: bool = False
    remarks: tuple[str, ...] = ()
    """Texts about settings that are valid and have no effect, and are probably typing errors."""
