"""Every option of ``headgate run`` has a field, every field has a flag, and flags override fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from headgate.cli.commands.run import command
from headgate.cli.configuration import decoder
from headgate.cli.configuration.flags import FLAGS, RELOADED, WITHOUT_FIELD, WITHOUT_FLAG, changed_fields
from headgate.cli.configuration.types import Configuration, LoggingSection, schema_fields, values_of
from headgate.jobs.settings import MANAGED_NAMESPACES
from headgate.kube.labels import parse_selector
from headgate.kube.serializer.yaml_decoder import decode_yaml
from headgate.quota.api.pods_ready import WaitForPodsReady

HEADER = "apiVersion: headgate.dev/v1alpha1\nkind: Configuration\n"
EVERYTHING = """
components: [scheduler, webhooks, quota, jobs]
featureGates: {SchedulingGatedBy: true, GangAtomicUngate: false}
takeover: true
dryRun: true
clientConnection: {kubeconfig: cluster.kubeconfig, context: blue}
leaderElection: {leaderElect: false}
scheduler:
  names: [headgate, batch]
  waitForTerminating: true
  gatedPodEventsPerHour: 7
queues: {gateAllPods: true, gatedSchedulerNames: [default-scheduler, volcano], podGroupsForBarePods: true,
         trustedUsers: [ann, bob]}
webhooks: {service: "ns/name:444", listen: "127.0.0.1:1", secret: ns/secret, shutdownDelay: 7s}
jobs:
  manageJobsWithoutQueueName: true
  managedJobsNamespaceSelector: {matchLabels: {team: a}}
  frameworks: [batch/job]
  quotaRelease: {pod: OnTerminal}
  kinds:
  - {apiVersion: example.com/v1, kind: Run, plural: runs, suspend: spec.suspend, active: status.active,
     succeeded: status.done, podSets: [{name: main, template: spec.template}]}
  waitForPodsReady: {timeout: 5m, recoveryTimeout: 0s, requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3}}
  maxWaitForTerminatingPods: 90s
  reportTerminatingPodsAfter: 2m
  forceDeleteTerminatingPodsAfter: 10m
metrics: {listen: "127.0.0.1:2", secure: true, certFile: tls.crt, keyFile: tls.key}
logging: {level: error, format: json}
"""


def parsed(*arguments: str) -> dict[str, Any]:
    """The values of the command's parameters."""
    return command.make_context("run", list(arguments)).params


def a_file(folder: Path, text: str, name: str = "headgate.yaml", header: str = HEADER) -> str:
    file = folder / name
    file.write_text(header + text)
    return str(file)


def everything(folder: Path) -> str:
    """A file that sets every option, and the files that it names."""
    for name in ("tls.crt", "tls.key"):
        (folder / name).touch()
    return a_file(folder, EVERYTHING)


def leaf_paths() -> set[str]:
    """The fields that a flag can set: a section of its own stands for its fields."""
    sections = {each.path for each in schema_fields() if isinstance(each.type, msgspec.inspect.StructType)}
    as_one = {"jobs.waitForPodsReady"}
    return {
        each.path
        for each in schema_fields()
        if (each.path not in sections or each.path in as_one)
        and not any(each.path.startswith(f"{section}.") for section in as_one)
    }


def test_every_flag_of_run_has_a_field() -> None:
    flags = {each.opts[0] for each in command.params if isinstance(each, click.Option)}
    assert flags - WITHOUT_FIELD == {each.flag for each in FLAGS}


def test_every_field_has_a_flag() -> None:
    assert leaf_paths() - WITHOUT_FLAG == {each.path for each in FLAGS}


def test_reloaded_fields_exist() -> None:
    assert leaf_paths() >= RELOADED


def test_a_file_sets_every_option(tmp_path: Path) -> None:
    found = parsed("--config", everything(tmp_path))
    (kind,) = found["kinds"]
    assert kind.integration == "example.com/run"
    features = found["features"]
    assert (features.scheduling_gated_by, features.gang_atomic_ungate, features.admission_gated_by) == (
        True,
        False,
        True,
    )
    assert {name: value for name, value in found.items() if name not in ("kinds", "features")} == {
        "kubeconfig": str(tmp_path / "cluster.kubeconfig"),
        "context": "blue",
        "components": "scheduler,webhooks,quota,jobs",
        "leader_elect": False,
        "names": ("headgate", "batch"),
        "all_profiles_wait": True,
        "gated_events_per_hour": 7,
        "gates_all_pods": True,
        "gated_scheduler_names": ("default-scheduler", "volcano"),
        "create_pod_groups": True,
        "trusted_users": ("ann", "bob"),
        "webhook_url": "",
        "webhook_service": "ns/name:444",
        "webhook_listen": "127.0.0.1:1",
        "webhook_secret": "ns/secret",
        "shutdown_delay_s": 7.0,
        "manages_all": True,
        "namespaces": parse_selector("team=a"),
        "frameworks": ("batch/job",),
        "quota_release": {"pod": "OnTerminal"},
        "pods_ready": WaitForPodsReady(300.0, None, backoff_limit=3, by_eviction_time=False),
        "max_wait_s": 90.0,
        "report_terminating_after_s": 120.0,
        "force_delete_after_s": 600.0,
        "metrics_listen": "127.0.0.1:2",
        "metrics_secure": True,
        "metrics_cert": tmp_path / "tls.crt",
        "metrics_key": tmp_path / "tls.key",
        "takeover": True,
        "dry_run": True,
        "shadow": False,
        "shadow_patience_s": 30.0,
        "duration": "",
    }


def test_every_field_is_in_the_file_that_sets_every_option() -> None:
    read = decoder.parse(decode_yaml((HEADER + EVERYTHING).encode()).value, {})
    assert isinstance(read, Configuration), read
    others = {"scheduler.configurationFile", "scheduler.configuration", "jobs.kindsFile", "webhooks.url"}
    assert set(values_of(read)) == leaf_paths() - others


FLAGS_OVER_THE_FILE = [
    ("--components quota", "components", "quota"),
    ("--no-takeover", "takeover", False),
    ("--no-dry-run", "dry_run", False),
    ("--context red", "context", "red"),
    ("--leader-elect", "leader_elect", True),
    ("--scheduler-name one", "names", ("one",)),
    ("--no-wait-for-terminating", "all_profiles_wait", False),
    ("--gated-pod-events 0", "gated_events_per_hour", 0),
    ("--no-gate-all-pods", "gates_all_pods", False),
    ("--no-podgroups-for-bare-pods", "create_pod_groups", False),
    ("--gated-scheduler-name one", "gated_scheduler_names", ("one",)),
    ("--trusted-user eve", "trusted_users", ("eve",)),
    ("--no-manage-jobs-without-queue-name", "manages_all", False),
    ("--managed-jobs-namespace-selector a=b", "namespaces", parse_selector("a=b")),
    ("--job-frameworks pod", "frameworks", ("pod",)),
    ("--quota-release pod=OnTerminating", "quota_release", {"pod": "OnTerminating"}),
    ("--wait-for-pods-ready 1m", "pods_ready", WaitForPodsReady(60.0, 60.0)),
    ("--max-wait-for-terminating-pods 1m", "max_wait_s", 60.0),
    ("--report-terminating-pods-after 1m", "report_terminating_after_s", 60.0),
    ("--force-delete-terminating-pods-after 5m", "force_delete_after_s", 300.0),
    ("--metrics-listen :1", "metrics_listen", ":1"),
    ("--no-metrics-secure", "metrics_secure", False),
]


@pytest.mark.parametrize(("flag", "name", "expected"), FLAGS_OVER_THE_FILE)
def test_a_flag_overrides_the_field(flag: str, name: str, expected: object, tmp_path: Path) -> None:
    assert parsed("--config", everything(tmp_path), *flag.split())[name] == expected


def test_a_flag_before_the_file_overrides_it_too(tmp_path: Path) -> None:
    assert parsed("--components", "quota", "--config", everything(tmp_path))["components"] == "quota"


def test_a_gate_on_the_command_line_leaves_the_other_gates_of_the_file(tmp_path: Path) -> None:
    features = parsed("--config", everything(tmp_path), "--feature-gates", "GangAtomicUngate=true")["features"]
    assert (features.gang_atomic_ungate, features.scheduling_gated_by) == (True, True)


def test_without_a_file_every_option_has_its_default() -> None:
    found = parsed()
    assert (found["namespaces"], found["pods_ready"], found["max_wait_s"]) == (MANAGED_NAMESPACES, None, 600.0)
    assert found["components"] == "scheduler"


def test_changed_fields_are_named_by_path() -> None:
    before = Configuration(takeover=True, logging=LoggingSection(level="info"))
    after = Configuration(logging=LoggingSection(level="debug"), components=("quota",))
    assert changed_fields(before, after) == ["takeover", "logging.level", "components"]
