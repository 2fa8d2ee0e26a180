"""Every scenario of workloads: each module `*_scenarios.py` of this folder exports `SCENARIOS`.

Groups run one after the other, the scenarios of a group in parallel. A module that no group names belongs to the last
one.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from harness.scenarios import Scenario

GROUPS = {
    "replicas": ("cascade", "deployment", "kubectl", "replica_set", "rollout"),
    "jobs": ("cron_job", "job", "job_policy"),
    "others": (),
}


def modules() -> dict[str, list[Scenario]]:
    """Scenarios by the name of their module without its ending."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("*_scenarios.py"))
    return {stem.removesuffix("_scenarios"): import_module(f"real.workloads.{stem}").SCENARIOS for stem in found}


def groups() -> dict[str, list[Scenario]]:
    grouped: dict[str, list[Scenario]] = {group: [] for group in GROUPS}
    for module, scenarios in modules().items():
        group = next((name for name, members in GROUPS.items() if module in members), "others")
        grouped[group] += scenarios
    return {group: scenarios for group, scenarios in grouped.items() if scenarios}
