"""The same scheduler configurations go to the real kube-scheduler and to our parser.

Both accept a file or both refuse it. If they accept it, the same plugins run at the same points in the same order with
the same weights, and the configuration that the real one writes out, all defaults spelled, reads as ours reads the
original. If they refuse it, ours names every field that the real one names, in its words. No API server is needed:
kube-scheduler writes its configuration and ends before it talks to one.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.kube.field_errors import FieldError
from headgate.scheduling.config.plugin_registry import BUILT_IN
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from real.configuration_files import BAD, GOOD

pytestmark = pytest.mark.real

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLUGINS = re.compile(r'"the scheduler starts to work with those plugins" Plugins=(\{.*\})')
FAILED = re.compile(r'"command failed" err="(.*)"$', re.MULTILINE)
PATH = r"[a-zA-Z]+(?:\[\d+\])?(?:\.[a-zA-Z]+(?:\[[^\]]*\])*)*"
KINDS = "Invalid value|Required value|Duplicate value|Unsupported value|Forbidden"
COMPLAINT = re.compile(rf"({PATH}): ({KINDS})")
UNKNOWN = re.compile(r'(?:decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]).*?)?(?:unknown|duplicate) field "([^"]+)"')
WRONG_TYPE = re.compile(r"into Go struct field \w+\.(\S+) of type")
INDEX = re.compile(r"\[\d+\]")
# Where kube-scheduler names a field that its own documents do not have.
SLIPS = {
    "scoringStrategy.shape": "scoringStrategy.requestedToCapacityRatio.shape",
    "queueSort.Enabled": "queueSort.enabled",
}


class Verdict(msgspec.Struct):
    points: list[dict[str, list[tuple[str, int]]]]
    written: bytes
    refusal: str


class RealScheduler:
    def __init__(self, folder: Path, binary: Path) -> None:
        self._folder, self._binary = folder, binary
        self.kubeconfig = folder / "kubeconfig"
        cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        document = {"clusters": [cluster], "contexts": [context], "users": [{"name": "a"}], "current-context": "a"}
        self.kubeconfig.write_text(json.dumps(document))

    def asked(self, text: str) -> Verdict:
        given, written = self._folder / "given.yaml", self._folder / "written.yaml"
        given.write_text(text)
        written.unlink(missing_ok=True)
        run = subprocess.run(
            [str(self._binary), f"--config={given}", f"--write-config-to={written}", "--secure-port=0", "-v=2"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if run.returncode == 0:
            return Verdict([points_of(each) for each in PLUGINS.findall(run.stderr)], written.read_bytes(), "")
        failed = FAILED.search(run.stderr)
        refusal = json.loads(f'"{failed.group(1)}"') if failed else run.stderr[run.stderr.find("panic:") :]
        return Verdict([], b"", refusal)


def points_of(logged: str) -> dict[str, list[tuple[str, int]]]:
    listed = {name[0].lower() + name[1:]: each["Enabled"] or [] for name, each in json.loads(logged).items()}
    return {name: [(each["Name"], each["Weight"]) for each in plugins] for name, plugins in listed.items()}


@pytest.fixture(scope="module")
def scheduler(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> RealScheduler:
    return RealScheduler(tmp_path_factory.mktemp("configuration"), kube_binaries / "kube-scheduler")


def document(text: str, scheduler: RealScheduler) -> str:
    text = text.replace("KUBECONFIG", str(scheduler.kubeconfig))
    if "clientConnection" not in text:
        text = f"clientConnection: {{kubeconfig: {scheduler.kubeconfig}}}\n{text}"
    return HEADER + text + "\n"


def ours(text: bytes) -> KubeSchedulerConfiguration | list[FieldError]:
    read = read_configuration(text, BUILT_IN)
    return read if isinstance(read, KubeSchedulerConfiguration) else [each.error for each in read]


def comparable(configuration: KubeSchedulerConfiguration) -> Any:
    """Without the name of the Lease, which is not kube-scheduler's, and without remarks on how it was written."""
    election = msgspec.structs.replace(configuration.leader_election, resource_name="")
    return msgspec.structs.replace(configuration, leader_election=election, remarks=())


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_both_accept_and_run_the_same_plugins(text: str, scheduler: RealScheduler) -> None:
    whole = document(text, scheduler)
    verdict = scheduler.asked(whole)
    assert verdict.refusal == ""
    read = ours(whole.encode())
    assert isinstance(read, KubeSchedulerConfiguration), [str(each) for each in read]
    assert len(read.profiles) == len(verdict.points)
    for profile, points in zip(read.profiles, verdict.points, strict=True):
        assert {point: list(enabled) for point, enabled in profile.points.items() if enabled} == {
            point: enabled for point, enabled in points.items() if enabled and point != "multiPoint"
        }
    written_out = ours(verdict.written)
    assert isinstance(written_out, KubeSchedulerConfiguration), [str(each) for each in written_out]
    assert comparable(written_out) == comparable(read)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_both_refuse_and_name_the_same_fields(text: str, scheduler: RealScheduler) -> None:
    whole = document(text, scheduler)
    refusal = scheduler.asked(whole).refusal
    assert refusal
    read = ours(whole.encode())
    assert isinstance(read, list), "kube-scheduler refuses this, and ours does not"
    missed = [each for each in named_by(refusal) if not any(is_same(each, error) for error in read)]
    assert not missed, f"{refusal}\nours: {[str(each) for each in read]}"


def named_by(refusal: str) -> list[tuple[str, str]]:
    """Every field that a refusal names, with what it says about it."""
    named = [(f"{prefix}.args.{field}" if prefix else field, "") for prefix, field in UNKNOWN.findall(refusal)]
    named += [(field, "*") for field in WRONG_TYPE.findall(refusal)]
    starts = list(COMPLAINT.finditer(refusal))
    ends = [each.start() for each in starts[1:]] + [len(refusal)]
    for here, end in zip(starts, ends, strict=False):
        named.append((here.group(1), refusal[here.start() : end]))
    return [(corrected(field), text) for field, text in named]


def corrected(field: str) -> str:
    for slip, real in SLIPS.items():
        field = field.replace(slip, real)
    return field


def is_same(named: tuple[str, str], error: FieldError) -> bool:
    """Plugins that start name fields from their arguments on; the decoder of JSON names them without index."""
    field, text = named
    if text == "*":
        return INDEX.sub("", error.path).endswith(field)
    at = error.path == field or error.path.endswith(f".args.{field}")
    return at and (not text or (error.kind.text in text and error.detail in text))


def test_every_kind_of_complaint_is_found_in_a_refusal() -> None:
    """The comparison itself: what it looks for in the real one's words is found."""
    strict = 'strict decoding error: unknown field "a.b", decoding .profiles[0].pluginConfig[1]: unknown field "c"'
    assert [field for field, _ in named_by(strict)] == ["a.b", "profiles[0].pluginConfig[1].args.c"]
    both = '[parallelism: Invalid value: 0: should be, leaderElection.resourceLock: Invalid value: "x": must be "y"]'
    assert [(field, "must be" in text) for field, text in named_by(both)] == [
        ("parallelism", False),
        ("leaderElection.resourceLock", True),
    ]
