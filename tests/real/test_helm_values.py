"""Helm refuses a `configuration` and `extraArgs` that the pods would refuse, with the place.

`headgate install --values` and `headgate config check` are the reference. Where Helm checks less,
`tools/chart_schema.py` says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.chart_schema import UNCHECKED

from harness.helm import CHART, Helm
from headgate.cli.commands.run import command
from headgate.cli.configuration import decoder
from headgate.cli.configuration.install_values import read_values_file
from headgate.cli.configuration.types import API_VERSION, KIND
from headgate.cli.wiring.plugins import find_plugins
from headgate.install.options import InstallOptions

pytestmark = pytest.mark.real

Object = dict[str, Any]

SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
JOB_KIND = {
    "apiVersion": "example.com/v1",
    "kind": "Run",
    "plural": "runs",
    "suspend": "spec.suspend",
    "active": "status.active",
    "succeeded": "status.done",
    "podSets": [{"name": "main", "template": "spec.template"}],
}
REFUSED: Object = {
    "components": {"components": ["sheduler"]},
    "no component": {"components": []},
    "a component that is null": {"components": [None]},
    "an unknown section": {"queue": {"gateAllPods": True}},
    "an unknown field": {"queues": {"gateAlPods": True}},
    "a section that is none": {"queues": ["gateAllPods"]},
    "a boolean in quotes": {"queues": {"gateAllPods": "true"}},
    "a text that is a number": {"clientConnection": {"context": 5}},
    "a kind of another file": {"kind": "KubeSchedulerConfiguration"},
    "an unknown feature gate": {"featureGates": {"GateOwnersip": True}},
    "a feature gate that is no boolean": {"featureGates": {"GateOwnership": "yes"}},
    "a number outside its limits": {"scheduler": {"gatedPodEventsPerHour": -1}},
    "no scheduler name": {"scheduler": {"names": []}},
    "an empty scheduler name": {"scheduler": {"names": ["headgate", ""]}},
    "an empty user name": {"queues": {"trustedUsers": [""]}},
    "two scheduler configurations": {"scheduler": {"configurationFile": "a.yaml", "configuration": SCHEDULER}},
    "two lists of job kinds": {"jobs": {"kindsFile": "a.yaml", "kinds": [JOB_KIND]}},
    "no job kind": {"jobs": {"kinds": []}},
    "a job kind with a typing error": {"jobs": {"kinds": [{**JOB_KIND, "activ": "status.active"}]}},
    "a job kind without a field": {"jobs": {"kinds": [{key: JOB_KIND[key] for key in JOB_KIND if key != "plural"}]}},
    "an address without a port": {"webhooks": {"listen": "0.0.0.0"}},
    "a service without a namespace": {"webhooks": {"service": "headgate"}},
    "a secret without a namespace": {"webhooks": {"secret": "headgate"}},
    "a negative delay": {"webhooks": {"shutdownDelay": "-5s"}},
    "a selector with a typing error": {"jobs": {"managedJobsNamespaceSelector": {"matchLabel": {"team": "a"}}}},
    "a label that is a number": {"jobs": {"managedJobsNamespaceSelector": {"matchLabels": {"team": 1}}}},
    "an unknown framework": {"jobs": {"frameworks": ["batch/jobs"]}},
    "a framework that needs another": {"jobs": {"frameworks": ["statefulset"]}},
    "an integration without quota release": {"jobs": {"quotaRelease": {"job": "OnTerminal"}}},
    "an unknown quota release": {"jobs": {"quotaRelease": {"pod": "Never"}}},
    "no timeout": {"jobs": {"waitForPodsReady": {"recoveryTimeout": "1m"}}},
    "a timeout of zero": {"jobs": {"waitForPodsReady": {"timeout": "0s"}}},
    "a timeout that is a number": {"jobs": {"waitForPodsReady": {"timeout": 300}}},
    "an unknown strategy": {"jobs": {"waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"timestamp": "Now"}}}},
    "a back-off of zero": {
        "jobs": {"waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"backoffBaseSeconds": 0}}}
    },
    "a time without a unit": {"jobs": {"maxWaitForTerminatingPods": "600"}},
    "a metrics address without a port": {"metrics": {"listen": "8080"}},
    "a certificate without its key": {"metrics": {"certFile": "tls.crt"}},
    "an unknown log level": {"logging": {"level": "loud"}},
}
"""Configurations with one error. Helm and `headgate config check` name the same place."""
REFUSED_IN_PODS: Object = {
    "an address beside the Service": {"webhooks": {"url": "https://10.0.0.1"}},
    "metrics over TLS that the probes do not know of": {"metrics": {"secure": True}},
    "components, whose rights the pods do not have": {"components": ["quota"]},
    "a dry run": {"dryRun": True},
    "a kubeconfig that the pods do not have": {"clientConnection": {"kubeconfig": "/home/ann/.kube/config"}},
    "a context of it": {"clientConnection": {"context": "blue"}},
    "no leader": {"leaderElection": {"leaderElect": False}},
    "another Service": {"webhooks": {"service": "ns/name:444"}},
    "another port of webhooks": {"webhooks": {"listen": "[::]:1"}},
    "another Secret": {"webhooks": {"secret": "ns/name"}},
    "another port of metrics": {"metrics": {"listen": ":8080"}},
    "a log level, which an argument sets": {"logging": {"level": "debug"}},
    "a log format, which an argument sets": {"logging": {"format": "json"}},
    "a kubeconfig of the scheduler": {
        "scheduler": {"configuration": {**SCHEDULER, "clientConnection": {"kubeconfig": "/etc/kubeconfig"}}}
    },
    "no leader of the schedulers": {
        "scheduler": {"configuration": {**SCHEDULER, "leaderElection": {"leaderElect": False}}}
    },
}
"""Correct configurations with which the pods would not work. Helm and `headgate install` name the same place."""
REFUSED_BY_HEADGATE_ONLY: Object = {
    "featureGates": {"featureGates": {"PodSchedulingReadiness": False}},
    "scheduler.configuration": {"scheduler": {"configuration": {**SCHEDULER, "profiles": 1}}},
    "jobs.managedJobsNamespaceSelector": {"jobs": {"managedJobsNamespaceSelector": {"matchLabels": {"-": "a"}}}},
    "jobs.kinds": {"jobs": {"kinds": [{**JOB_KIND, "suspend": "status.suspend"}]}},
    "jobs.waitForPodsReady.requeuingStrategy": {
        "jobs": {"waitForPodsReady": {"timeout": "5m", "requeuingStrategy": {"backoffMaxSeconds": 1}}}
    },
    "jobs.forceDeleteTerminatingPodsAfter": {"jobs": {"forceDeleteTerminatingPodsAfter": "1s"}},
    "webhooks.shutdownDelay": {"webhooks": {"shutdownDelay": "26s"}},
}
"""By the path in UNCHECKED."""
ACCEPTED: Object = {
    "every section": {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "featureGates": {"SchedulingGatedBy": True, "SchedulingGatesQueueAdmission": True},
        "takeover": True,
        "dryRun": False,
        "clientConnection": {"kubeconfig": "", "context": ""},
        "leaderElection": {"leaderElect": True},
        "scheduler": {"names": ["headgate"], "configurationFile": "s.yaml", "gatedPodEventsPerHour": 0},
        "queues": {"gateAllPods": True, "trustedUsers": ["ann"], "gatedSchedulerNames": ["default-scheduler"]},
        "webhooks": {"shutdownDelay": "25s"},
        "jobs": {
            "managedJobsNamespaceSelector": {
                "matchExpressions": [
                    {"key": "team", "operator": "In", "values": ["a"]},
                    {"key": "x", "operator": "Exists"},
                ]
            },
            "frameworks": ["pod", "statefulset"],
            "quotaRelease": {"pod": "OnTerminal", "batch/job": "OnTerminating"},
            "waitForPodsReady": {"timeout": "1h2m3.5s", "recoveryTimeout": "0", "requeuingStrategy": {}},
            "maxWaitForTerminatingPods": "+1.5h",
            "forceDeleteTerminatingPodsAfter": "90s",
        },
        "metrics": {"secure": False},
    },
    "fields that are null": {
        "components": None,
        "queues": None,
        "featureGates": {"GateOwnership": None},
        "scheduler": {"names": None, "configurationFile": "a.yaml", "configuration": None},
        "webhooks": {"url": None, "listen": None},
        "jobs": {"quotaRelease": {"pod": None}, "waitForPodsReady": None, "kinds": None, "kindsFile": None},
        "metrics": {"secure": None, "certFile": None},
        "logging": {"level": None},
    },
    "objects in place of files": {
        "scheduler": {"configuration": {**SCHEDULER, "profiles": [{"schedulerName": "batch"}]}},
        "jobs": {"kinds": [JOB_KIND]},
    },
}
ARGUMENTS_REFUSED = {
    "a typing error": ["--gate-al-pods"],
    "a value for a switch": ["--gate-all-pods=true"],
    "a value that is missing": ["--trusted-user"],
    "a word that is no option": ["gate-all-pods"],
    "a word after a value": ["--trusted-user", "ann", "bob"],
    "an unknown feature gate": ["--feature-gates=GateOwnersip=true"],
    "an unknown feature gate, two words": ["--feature-gates", "GateOwnersip=true"],
    "a feature gate without a value": ["--feature-gates=GateOwnership"],
    "no number": ["--gated-pod-events=many"],
    "no duration": ["--max-wait-for-terminating-pods", "soon"],
    "a duration of zero": ["--wait-for-pods-ready=0s"],
    "a negative delay": ["--shutdown-delay=-1s"],
    "components": ["--components=quota"],
    "an address beside the Service": ["--webhook-url=https://10.0.0.1"],
    "another Service": ["--webhook-service=ns/name"],
    "another port of webhooks": ["--webhook-listen", "0.0.0.0:1"],
    "another port of metrics": ["--metrics-listen=0.0.0.0:1"],
    "another Secret": ["--webhook-secret=ns/name"],
    "metrics over TLS": ["--metrics-secure"],
    "a log level": ["--log-level=debug"],
    "a log format": ["--log-format", "json"],
    "help": ["--help"],
    "a kubeconfig": ["--kubeconfig=/home/ann/.kube/config"],
    "a context": ["--context", "blue"],
    "no leader": ["--no-leader-elect"],
    "a dry run": ["--dry-run"],
    "metrics without TLS": ["--no-metrics-secure"],
}
"""Each after an argument that is accepted."""
ARGUMENTS_ACCEPTED = {
    "files of the pods": ["--job-kinds=/no/file", "--config", "/no/other", "--kueue-config=/no/third"],
    "switches": ["--gate-all-pods", "--no-podgroups-for-bare-pods", "--leader-elect", "--no-dry-run"],
    "values with = and -": ["--managed-jobs-namespace-selector=team=a", "--trusted-user", "--odd", "--trusted-user=-"],
    "forms": ["--feature-gates=GateOwnership=true, ReservationLease=F,", "--shutdown-delay=0", "--gated-pod-events=0"],
    "durations": ["--wait-for-pods-ready", "5m", "--report-terminating-pods-after=1h30m"],
}


class Refusal:
    """What both programs say about one values file."""

    def __init__(self, values: Object, helm_binary: Path, folder: Path) -> None:
        file = folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        options = read_values_file(file, command)
        ours = [] if isinstance(options, InstallOptions) else options
        self.ours = [re.sub(r"^.*?\.yaml:(\d+: )?", "", each).strip() for each in ours]
        done = Helm(helm_binary, folder).run("template", "headgate", str(CHART), "-f", str(file))
        self.helm = done.stderr if done.exit else ""

    def path(self) -> str:
        """Of the field that Headgate names."""
        (line,) = self.ours
        return line.partition(": ")[0]


@pytest.mark.parametrize("configuration", REFUSED.values(), ids=REFUSED)
def test_a_wrong_configuration_is_refused_by_path(configuration: Object, helm_binary: Path, tmp_path: Path) -> None:
    refusal = Refusal({"configuration": configuration}, helm_binary, tmp_path)
    checked = decoder.parse({"apiVersion": API_VERSION, "kind": KIND, **configuration}, find_plugins().registry)
    assert isinstance(checked, list)
    assert [f"configuration.{each.path}" for each in checked] == [refusal.path()]
    assert _names(refusal.helm, refusal.path()), refusal.helm


@pytest.mark.parametrize("configuration", REFUSED_IN_PODS.values(), ids=REFUSED_IN_PODS)
def test_a_configuration_that_does_not_fit_the_pods_is_refused_by_path(
    configuration: Object, helm_binary: Path, tmp_path: Path
) -> None:
    refusal = Refusal({"configuration": configuration}, helm_binary, tmp_path)
    assert _names(refusal.helm, refusal.path()), refusal.helm


def _names(said: str, path: str) -> bool:
    """Whether an error of the schema is at the field, at its list, or at its parent with the name of the field."""
    *parents, name = [step for step in re.split(r"[.\[\]]", path) if step]
    if f"at '{_pointer([*parents, name])}'" in said or (name.isdecimal() and f"at '{_pointer(parents)}'" in said):
        return True
    return re.search(rf"at '{re.escape(_pointer(parents))}': .*'{re.escape(name)}'", said) is not None


def _pointer(steps: list[str]) -> str:
    return "".join(f"/{step.replace('/', '~1')}" for step in steps)


def test_every_gap_of_the_schema_has_a_case() -> None:
    assert REFUSED_BY_HEADGATE_ONLY.keys() == UNCHECKED.keys()


@pytest.mark.parametrize("path", REFUSED_BY_HEADGATE_ONLY)
def test_helm_leaves_to_headgate_what_json_schema_cannot_express(path: str, helm_binary: Path, tmp_path: Path) -> None:
    refusal = Refusal({"configuration": REFUSED_BY_HEADGATE_ONLY[path]}, helm_binary, tmp_path)
    assert refusal.ours, "then it is no gap"
    assert all(each.startswith(f"configuration.{path}") for each in refusal.ours), refusal.ours
    assert refusal.helm == "", "then the list of gaps has one too many"


@pytest.mark.parametrize("configuration", ACCEPTED.values(), ids=ACCEPTED)
def test_a_correct_configuration_is_accepted(configuration: Object, helm_binary: Path, tmp_path: Path) -> None:
    refusal = Refusal({"configuration": configuration}, helm_binary, tmp_path)
    assert (refusal.ours, refusal.helm) == ([], "")


@pytest.mark.parametrize("arguments", ARGUMENTS_REFUSED.values(), ids=ARGUMENTS_REFUSED)
def test_a_wrong_argument_is_refused_by_place(arguments: list[str], helm_binary: Path, tmp_path: Path) -> None:
    refusal = Refusal({"extraArgs": ["--takeover", *arguments]}, helm_binary, tmp_path)
    place = refusal.path()
    assert place.startswith("extraArgs[")
    assert f"{place}: " in refusal.helm, refusal.helm
    if message := re.search(r"(set \S+|remove it)", refusal.ours[0]):
        assert message[0] in refusal.helm, "the advice is the same"


@pytest.mark.parametrize("arguments", ARGUMENTS_ACCEPTED.values(), ids=ARGUMENTS_ACCEPTED)
def test_correct_arguments_are_accepted(arguments: list[str], helm_binary: Path, tmp_path: Path) -> None:
    refusal = Refusal({"extraArgs": arguments}, helm_binary, tmp_path)
    assert (refusal.ours, refusal.helm) == ([], "")


def test_feature_gates_that_replace_those_of_gate_policies_are_refused(helm_binary: Path, tmp_path: Path) -> None:
    values = {"gatePolicies": {"enabled": True}, "extraArgs": ["--feature-gates=ReservationLease=true"]}
    assert "add GateOwnership=true to it" in Refusal(values, helm_binary, tmp_path).helm


def test_a_certificate_of_metrics_without_tls_is_refused_by_path(helm_binary: Path, tmp_path: Path) -> None:
    values: Object = {"configuration": {"metrics": {"certFile": "tls.crt", "keyFile": "tls.key"}}}
    refusal = Refusal(values, helm_binary, tmp_path)
    assert refusal.path() == "configuration.metrics.certFile"
    assert "configuration.metrics.certFile: " in refusal.helm
    secure = Refusal({**values, "metrics": {"secure": True}}, helm_binary, tmp_path)
    assert (secure.ours, secure.helm) == ([], "")


@pytest.mark.parametrize("values", [{"monitoring": None}, {"image": {"tag": None}}, {"replicas": None}], ids=str)
def test_helm_names_an_option_that_is_null(values: Object, helm_binary: Path, tmp_path: Path) -> None:
    """Helm removes the option from the values, so a template would fail with an error about a nil pointer."""
    refusal = Refusal(values, helm_binary, tmp_path)
    assert refusal.ours == [], "null is the default for `headgate install`"
    ((name, inner),) = values.items()
    missing = name if inner is None else next(iter(inner))
    assert f"missing property '{missing}'" in refusal.helm, refusal.helm
