"""For every documented command: the service account of `examples/*-rights.yaml` that runs it, and its arguments.

`tests/unit/project/test_documented_commands.py` compares this table with the pages, and
`tests/real/test_documented_rights.py` runs it. A command that does not talk to a foreign cluster needs no rights.
"""

from __future__ import annotations

from dataclasses import dataclass

READER = "kube-system/headgate-reader"
GATES = "kube-system/headgate-gates"
HOLD = "kube-system/headgate-hold"
RECORD = "kube-system/headgate-record"
SHADOW = "kube-system/headgate-shadow"
INSTALL = "kube-system/headgate-install"
SCHEDULER = "kube-system/headgate-scheduler"
QUOTA = "kube-system/headgate-quota"
CONTROLLERS = "kube-system/headgate-controllers"
GATES_ONLY = "headgate-system/headgate-gates-only"
WEBHOOKS = "headgate-system/headgate"
"""Of webhook-rights.yaml, and with combined-rights.yaml of several components in one process."""

NO_RIGHTS = (
    *("annotations", "backup", "restore", "check", "completion", "config check", "config docs", "demo", "down"),
    *("simulate", "up"),
    *("audit .headgate", "audit week.hgr", "audit examples/bill/", "record --rights"),
)
"""They work on files, or start a cluster of their own."""

ADMINISTRATOR = ("dashboard", "install", "load", "nodes", "uninstall")
"""A cluster administrator types them: `tests/real/test_install.py` and `tests/real/test_install_page.py` do, and
`tests/wire/test_load_command.py` and `tests/wire/test_nodes_command.py` for those that are for test clusters.
`tests/wire/test_dashboard.py` runs `headgate dashboard` with few rights."""


@dataclass(frozen=True)
class Case:
    """`words`: what is typed after `headgate`, with names of what the test has made; empty: as documented. FILES are
    `{volcano}` (a volcano-scheduler.conf), `{scheduler}` (a KubeSchedulerConfiguration), `{headgate}` and
    `{kueue}` (a Configuration of each), `{kinds}` (of jobs), `{new}` (a pod that
    would start), and `{folder}` (an empty one)."""

    account: str
    words: str = ""


_SERVICE = "--webhook-service headgate-system/headgate"
_GATES_ON = "FailureRecoveryPolicy=true,SchedulingGatedBy=true,ActivationLabels=true"

CASES = {
    "headgate audit": Case(RECORD),
    "headgate audit --watch": Case(RECORD, "audit --watch --for 3s"),
    "headgate audit --watch --metrics-listen 127.0.0.1:10260": Case(
        RECORD, "audit --watch --for 3s --metrics-listen 127.0.0.1:{port}"
    ),
    "headgate audit --watch --metrics-listen HOST:PORT": Case(
        RECORD, "audit --watch --for 3s --metrics-listen 127.0.0.1:{port}"
    ),
    "headgate explain": Case(READER, "explain workload held"),
    "headgate explain -f FILE": Case(READER, "explain -f {new}"),
    "headgate explain -f job.yaml -n team-a": Case(READER, "explain -f {new} -n default"),
    "headgate doctor": Case(READER),
    "headgate history": Case(READER, "history pod gated"),
    "headgate history job train -n team-a": Case(READER),
    "headgate wait": Case(READER, "wait pod of-kueue --for gate-lifted=none"),
    "headgate wait job train -n team-a --for admitted --timeout 10m": Case(
        READER, "wait job train -n team-a --for gate-lifted=none"
    ),
    "headgate explain clusterqueue NAME": Case(READER, "explain clusterqueue one-cpu-of-quota"),
    "headgate explain deployment NAME": Case(READER, "explain deployment web -n default"),
    "headgate explain localqueue NAME": Case(READER, "explain localqueue team -n default"),
    "headgate explain queue NAME": Case(READER, "explain queue full"),
    "headgate explain queue eng-a": Case(READER, "explain queue team"),
    "headgate explain job NAME": Case(READER, "explain job idle"),
    "headgate explain job needs-data": Case(READER, "explain job needs-data"),
    "headgate explain job train -n team-a": Case(READER, "explain job train -n team-a"),
    "headgate explain pod NAME -n NS": Case(READER, "explain pod of-kueue -n default"),
    "headgate explain pod large -n teams": Case(READER, "explain pod large -n teams"),
    "headgate explain pod nightly": Case(READER, "explain pod unschedulable"),
    "headgate explain pod pod-3": Case(READER, "explain pod unschedulable"),
    "headgate explain pod second": Case(READER, "explain pod gated"),
    "headgate explain pod spark-pi-exec-5": Case(READER, "explain pod gated"),
    "headgate explain pod train-1": Case(READER, "explain pod gated"),
    "headgate explain pod NAME": Case(READER, "explain pod gated"),
    "headgate gates lift NAME -l SELECTOR": Case(GATES, "gates lift example.com/other -l lift=me"),
    "headgate gates lift example.com/dependency-ready --all -A": Case(GATES),
    "headgate gates lift example.com/dependency-ready --all -A --dry-run": Case(GATES),
    "headgate gates list -A": Case(READER),
    "headgate gates list -n default": Case(READER),
    "headgate hold": Case(HOLD, "hold job/idle --wait 0"),
    "headgate hold train -n team-a": Case(HOLD, "hold train -n team-a --wait 0"),
    "headgate install-crds": Case(INSTALL),
    "headgate queues": Case(READER),
    "headgate queues --gated-scheduler-name default-scheduler": Case(READER),
    "headgate record": Case(RECORD, "record {folder}/a.hgr --for 3s"),
    "headgate record week.hgr --for 7d": Case(RECORD, "record {folder}/week.hgr --for 3s"),
    "headgate resume": Case(HOLD, "resume idle --wait 0"),
    "headgate resume train -n team-a": Case(HOLD, "resume train -n team-a --wait 0"),
    "headgate run": Case(SCHEDULER),
    "headgate run --components controllers": Case(CONTROLLERS),
    f"headgate run --components gates,webhooks {_SERVICE}": Case(GATES_ONLY),
    "headgate run --components quota": Case(QUOTA),
    "headgate run --components quota,jobs": Case(QUOTA),
    "headgate run --components quota,jobs --job-kinds FILE": Case(
        QUOTA, "run --components quota,jobs --job-kinds {kinds}"
    ),
    "headgate run --components quota,jobs --metrics-listen HOST:PORT": Case(
        QUOTA, "run --components quota,jobs --metrics-listen 127.0.0.1:{port}"
    ),
    f"headgate run --components scheduler,webhooks --scheduler-name volcano {_SERVICE}": Case(WEBHOOKS),
    "headgate run --components webhooks": Case(WEBHOOKS, f"run --components webhooks {_SERVICE}"),
    f"headgate run --components webhooks {_SERVICE}": Case(WEBHOOKS),
    "headgate run --components webhooks,jobs": Case(WEBHOOKS, f"run --components webhooks,jobs {_SERVICE}"),
    f"headgate run --components webhooks,quota,jobs {_SERVICE}": Case(WEBHOOKS),
    "headgate run --config FILE": Case(SCHEDULER, "run --config {scheduler}"),
    "headgate run --config headgate.yaml": Case(SCHEDULER, "run --config {headgate}"),
    "headgate run --kueue-config FILE": Case(QUOTA, "run --kueue-config {kueue} --components quota,jobs"),
    "headgate run --config volcano-scheduler.conf --scheduler-name volcano": Case(
        SCHEDULER, "run --config {volcano} --scheduler-name volcano"
    ),
    "headgate run --metrics-listen 127.0.0.1:10259": Case(SCHEDULER, "run --metrics-listen 127.0.0.1:{port}"),
    "headgate run --shadow": Case(SHADOW, "run --shadow --scheduler-name volcano --for 3s"),
    "headgate run --shadow --components quota --for 1d": Case(SHADOW, "run --shadow --components quota --for 3s"),
    "headgate top": Case(READER),
    "headgate top --view problems -o json": Case(READER),
    "headgate top --view queues": Case(READER),
    "headgate top --view waiting": Case(READER),
    "headgate workloads": Case(READER),
    "headgate workloads --estimate": Case(READER),
    "headgate workloads --for job/needs-data": Case(READER),
    "headgate workloads -A": Case(READER),
    "headgate workloads -A --gated": Case(READER),
    "headgate workloads -n team-a --for job/train -o wide": Case(READER),
}

FURTHER = {
    "run --dry-run": Case(SCHEDULER),
    "run --podgroups-for-bare-pods": Case(SCHEDULER),
    "run --feature-gates ReservationLease=true": Case(SCHEDULER),
    "run --scheduler-name default-scheduler": Case(SCHEDULER),
    f"run --components scheduler,webhooks,quota,jobs {_SERVICE}": Case(WEBHOOKS),
    f"run --components quota,jobs --feature-gates {_GATES_ON}": Case(QUOTA),
    "queues -o json": Case(READER),
    "workloads -A -o json": Case(READER),
    "explain pod gated -o json": Case(READER),
    "audit -o json": Case(RECORD),
    "record {folder}/hashed.hgr --for 3s --hash-names": Case(RECORD),
    "gates lift example.com/more --all -n teams": Case(GATES),
}
"""What the pages say of flags, without a whole command."""
