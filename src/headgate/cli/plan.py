"""What `headgate up` was asked for, checked as far as it can be without touching anything.

``cli/up.py`` reads the command line and makes a :class:`Plan` of it; ``cli/cluster.py`` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.apiserver.builtin import plugins
from headgate.cli.address import parse_address
from headgate.cli.credentials import Access
from headgate.cli.sizes import parse_sizes
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.kube import timestamps
from headgate.kube.features import Features
from headgate.owners.nodes.options import Patience, patience_of
from headgate.scheduling.telling import GATED_EVENTS_PER_HOUR

COMPONENTS: Final = ("apiserver", "nodes", "controllers", "scheduler", "quota", "jobs")
SCHEDULERS: Final = ("headgate", "volcano", "default-scheduler")
"""The names of schedulers that pods may ask for here: there is no other one in this cluster."""


class UpProblem(Exception):
    """The cluster cannot start; the text is one line with the fix in it."""


class Plan(msgspec.Struct, frozen=True):
    data: Path
    host: str
    port: int
    kubeconfig: Path
    components: frozenset[str]
    node_count: int
    node_resources: Mapping[str, str]
    features: Features
    access: Access
    event_ttl_s: float = 3600.0
    disabled_plugins: frozenset[str] = frozenset()
    gates_all: bool = False
    makes_groups: bool = False
    all_wait: bool = False
    gated_events: int = GATED_EVENTS_PER_HOUR
    autoscaler: str = ""
    """Which model of one buys further nodes; empty: none."""
    trusted_users: frozenset[str] = frozenset()
    patience: Patience = Patience()
    jobs: JobSettings = DEFAULT
    metrics_at: tuple[str, int] | None = None
    scheduler_config: Path | None = None
    """Profiles of the scheduler that run besides those it has by default, or in place of those of the same name."""

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
        further_resources: Sequence[str],
        features: Features,
        access: Access,
        event_ttl: str = "1h",
        disabled_plugins: Sequence[str] = (),
        gates_all: bool = False,
        makes_groups: bool = False,
        all_wait: bool = False,
        gated_events: int = GATED_EVENTS_PER_HOUR,
        autoscaler: str = "",
        trusted_users: Sequence[str] = (),
        node_grace: str = "50s",
        jobs: JobSettings = DEFAULT,
        metrics_listen: str = "",
        scheduler_config: Path | None = None,
    ) -> Plan | str:
        """A plan from what was typed, or what is wrong with it."""
        address = parse_address("--listen", listen, "127.0.0.1:6443")
        if isinstance(address, str):
            return address
        metrics_at = parse_address("--metrics-listen", metrics_listen, "127.0.0.1:10259") if metrics_listen else None
        if isinstance(metrics_at, str):
            return metrics_at
        chosen = frozenset(each.strip() for each in components.split(",") if each.strip())
        unknown = sorted(chosen - set(COMPONENTS))
        if unknown:
            return f"--components names {', '.join(unknown)}, which is not one of {', '.join(COMPONENTS)}"
        if "apiserver" not in chosen:
            return "--components must name apiserver: nothing else runs without it"
        if autoscaler and "nodes" not in chosen:
            return "--autoscaler needs nodes among the --components: they run the machines that it buys"
        if scheduler_config is not None and "scheduler" not in chosen:
            return "--config needs scheduler among the --components: it says what the scheduler runs"
        resources = parse_sizes(node_resources, further_resources)
        if isinstance(resources, str):
            return resources
        ttl_ns = timestamps.parse_duration(event_ttl)
        if isinstance(ttl_ns, str) or ttl_ns < 0:
            return f"--event-ttl {event_ttl!r} is not a duration; try 1h, 90m, or 0 to keep events for ever"
        disabled = frozenset(name.strip() for text in disabled_plugins for name in text.split(",") if name.strip())
        if unknown := sorted(disabled - plugins.NAMES):
            known = ", ".join(sorted(plugins.NAMES))
            return f"--disable-admission-plugins names {', '.join(unknown)}, which is not one of {known}"
        grace_ns = timestamps.parse_duration(node_grace)
        if isinstance(grace_ns, str) or grace_ns < 10**9:
            return f"--node-monitor-grace-period {node_grace!r} is not a duration of at least 1s; try 50s"
        return cls(
            data=data,
            host=address[0],
            port=address[1],
            kubeconfig=kubeconfig,
            components=chosen,
            node_count=node_count,
            node_resources=resources,
            features=features,
            access=access,
            event_ttl_s=ttl_ns / 1e9,
            disabled_plugins=disabled,
            gates_all=gates_all,
            makes_groups=makes_groups,
            all_wait=all_wait,
            gated_events=gated_events,
            autoscaler=autoscaler,
            trusted_users=frozenset(trusted_users),
            patience=patience_of(grace_ns / 1e9),
            jobs=jobs,
            metrics_at=metrics_at,
            scheduler_config=scheduler_config,
        )
