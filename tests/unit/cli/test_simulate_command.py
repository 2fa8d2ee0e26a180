"""``headgate simulate``: files in and out, the same bytes for the same input, and errors that name the file."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli.main import main
from headgate.simulate import simulation
from headgate.simulate.variants import read_file
from simulated_clusters import any_flavor, kueue_queue, machines, volcano_queue

REPOSITORY = Path(__file__).resolve().parents[3]
VARIANTS = {
    "apiVersion": "headgate.dev/v1alpha1",
    "kind": "Simulation",
    "generator": {"unit": {"cpu": "1"}, "maxPodSize": 2, "maxRun": 200, "queues": {"q": 1}},
    "variants": [
        {"name": "narrow"},
        {"name": "wide", "patches": [{"kind": "Queue", "name": "q", "patch": {"spec": {"capability": {"cpu": "6"}}}}]},
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cluster.yaml", *machines(2), volcano_queue("q", cpu=3))
    write(tmp_path / "variants.yaml", VARIANTS)
    lines = [
        {"submit": number, "run": 20, "queue": "q", "requests": {"cpu": "2"}, "name": f"job-{number}"}
        for number in range(3)
    ]
    (tmp_path / "jobs.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return tmp_path


def write(file: Path, *documents: Any) -> None:
    file.write_text(yaml.safe_dump_all(documents))


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *args])


def test_the_same_seed_gives_the_same_bytes(folder: Path) -> None:
    options = ["--snapshot", "cluster.yaml", "--generate", "helios", "--jobs", "20", "--days", "0.02"]
    options += ["--variants", "variants.yaml", "--seeds", "2"]
    for number in ("1", "2"):
        outputs = ["--json", f"{number}.json", "--html", f"{number}.html", "--journal", f"{number}.jsonl"]
        result = run(*options, *outputs)
        assert result.exit_code == 0, result.output
    for kind in ("json", "html", "jsonl"):
        assert (folder / f"1.{kind}").read_bytes() == (folder / f"2.{kind}").read_bytes()
    other = run(*options, "--seed", "7", "--json", "3.json")
    assert other.exit_code == 0
    assert (folder / "3.json").read_bytes() != (folder / "1.json").read_bytes()
    assert not list(folder.glob("*.part"))


def test_a_small_trace(folder: Path) -> None:
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--json", "-")
    assert result.exit_code == 0, result.output
    output = json.loads(result.output)
    (variant,) = output["variants"]
    assert variant["results"][0]["jobs"] == {"submitted": 3, "started": 3, "ended": 3}
    assert variant["results"][0]["waiting"]["all"]["max"] == 38.0
    assert set(output["header"]["inputs"]) == {"cluster.yaml", "jobs.jsonl"}


def test_the_example_of_the_page_says_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    page = (REPOSITORY / "docs" / "simulate.md").read_text()
    block = page.partition("```console\n$ headgate simulate ")[2].partition("```")[0]
    command, _, printed = block.replace("\\\n", "").partition("\n")
    result = run(*command.replace("--html report.html", "").split())
    assert result.output.split() == printed.split()


def test_the_file_of_variants_on_the_page_is_valid() -> None:
    page = (REPOSITORY / "docs" / "simulate.md").read_text()
    file = read_file(yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0]))
    assert [each.name for each in file.variants] == ["today", "more for team A", "fewer nodes, no gates"]


def test_the_verdict_is_printed(folder: Path) -> None:
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--variants", "variants.yaml")
    assert result.output.startswith("wide instead of narrow: waiting p90 38 s → 0 s")


def test_a_generated_trace_can_be_written_and_simulated(folder: Path) -> None:
    made = run("--generate", "philly", "--jobs", "5", "--variants", "variants.yaml", "--write-trace", "made.jsonl")
    assert made.exit_code == 0, made.output
    assert len((folder / "made.jsonl").read_text().splitlines()) == 5
    assert run("--snapshot", "cluster.yaml", "--trace", "made.jsonl").exit_code == 0


def test_jobs_in_kueues_queues_are_recognised_by_the_snapshot(folder: Path) -> None:
    write(folder / "kueue.yaml", *machines(2), any_flavor(), *kueue_queue("q", cpu=3))
    result = run("--snapshot", "kueue.yaml", "--trace", "jobs.jsonl", "--json", "-")
    assert json.loads(result.output)["variants"][0]["results"][0]["jobs"]["ended"] == 3
    both = run("--snapshot", "kueue.yaml", "--snapshot", "cluster.yaml", "--trace", "jobs.jsonl")
    assert both.exit_code == 1


def test_a_configuration_file_changes_a_variant(folder: Path) -> None:
    conf = 'actions: "enqueue, allocate"\ntiers: [{plugins: [{name: predicates}, {name: binpack}]}]\n'
    (folder / "volcano.conf").write_text(conf)
    own = {
        "apiVersion": "headgate.dev/v1alpha1",
        "kind": "Configuration",
        "scheduler": {"configurationFile": "volcano.conf"},
        "queues": {"gateAllPods": False},
        "metrics": {"listen": "127.0.0.1:0"},
    }
    write(folder / "headgate.yaml", own)
    named = {"default": "", "conf": "volcano.conf", "own": "headgate.yaml"}
    wide = [{"kind": "Queue", "name": "q", "patch": {"spec": {"capability": {"cpu": "8"}}}}]
    variants = [
        {"name": name, "settings": {"configurationFile": file}, "patches": wide} for name, file in named.items()
    ]
    write(folder / "conf.yaml", {**VARIANTS, "variants": variants})
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--variants", "conf.yaml", "--journal", "j")
    assert result.exit_code == 0, result.output
    assert "variant own: headgate.yaml: metrics.listen has no effect" in result.output
    entries = [json.loads(line) for line in (folder / "j").read_text().splitlines()]
    nodes = {
        name: [each["node"] for each in entries if each["variant"] == name and each["what"] == "bound"]
        for name in named
    }
    admitted = {name for name in named for each in entries if each["variant"] == name and each["what"] == "admitted"}
    assert nodes["conf"] == nodes["own"] == ["node-0", "node-0", "node-1"]
    assert nodes["default"] == ["node-0", "node-1", "node-0"]
    assert admitted == {"default", "conf"}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--snapshot", "cluster.yaml"], "give exactly one of --trace, --swf and --generate"),
        (["--trace", "jobs.jsonl"], "--snapshot is required"),
        (["--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--jobs", "3"], "are for --generate"),
        (["--snapshot", "cluster.yaml", "--trace", "wrong.jsonl"], "wrong.jsonl: line 1"),
        (["--snapshot", "wrong.jsonl", "--trace", "jobs.jsonl"], "wrong.jsonl"),
        (["--snapshot", "other.yaml", "--trace", "jobs.jsonl"], "Deployment d: this kind is not simulated"),
        (["--snapshot", "nodes.yaml", "--trace", "jobs.jsonl"], "has no Queue of Volcano and no LocalQueue of Kueue"),
        (["--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--variants", "bad.yaml"], "bad.yaml"),
        (
            ["--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--variants", "gate.yaml"],
            "unrecognized feature gate",
        ),
        (["--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--until", "soon"], "write a time such as"),
    ],
)
def test_a_wrong_input_is_named(folder: Path, args: list[str], text: str) -> None:
    (folder / "wrong.jsonl").write_text("{\n")
    write(folder / "other.yaml", {"kind": "Deployment", "metadata": {"name": "d"}})
    write(folder / "nodes.yaml", *machines(1))
    write(folder / "bad.yaml", {"kind": "Other"})
    write(folder / "gate.yaml", {**VARIANTS, "settings": {"featureGates": {"Nope": True}}})
    result = run(*args)
    assert result.exit_code != 0
    assert text in result.output


@pytest.fixture
def sigint_is_handled() -> Iterator[None]:
    """A shell starts background commands with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint_is_handled")
def test_ctrl_c_stops_and_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle = simulation.Simulation._settle

    def interrupted(self: simulation.Simulation) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        settle(self)

    monkeypatch.setattr(simulation.Simulation, "_settle", interrupted)
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--json", "o.json", "--journal", "o.jsonl")
    assert result.exit_code == 130
    assert "stopped; nothing is written" in result.output
    assert not list(folder.glob("o.*"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_says_how_long_it_will_take(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.cli.commands.simulate._PROGRESS_S", 0.0)
    monkeypatch.setattr("headgate.cli.commands.simulate._CHECKED_EACH", 1)
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--progress")
    assert "simulation, seed 0: 2 of 3 jobs, virtual time" in result.output
    assert "time left" in result.output


def test_two_outputs_in_one_file_are_refused(folder: Path) -> None:
    (folder / "link").symlink_to("one")
    (folder / "old").write_text("")
    os.link(folder / "old", folder / "same")
    for first, second in (("one", "one"), ("one", "./one"), ("one", "link"), ("old", "same")):
        result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--json", first, "--html", second)
        assert result.exit_code == 2
        assert "--json and --html name the same file" in " ".join(result.output.split())
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--json", "/dev/null", "--html", "/dev/null")
    assert result.exit_code == 0, result.output


def test_uses_have_units(folder: Path) -> None:
    result = run("--snapshot", "cluster.yaml", "--trace", "jobs.jsonl", "--json", "-")
    uses = json.loads(result.output)["variants"][0]["results"][0]["use"]
    assert (uses["cpu"]["unit"], uses["memory"]["unit"]) == ("cpu-hours", "byte-hours")
    assert 0 < uses["cpu"]["allocatedHours"] <= uses["cpu"]["capacityHours"] < 0.1  # 2 machines for 2 s


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"h", "ends within the first line of a recording"),
        (b"headgate recording 1", "ends within the first line of a recording"),
        (b"headgate recording 9\n", "of another version of Headgate, or its first line is damaged"),
        (b"\x00\x01\x02" * 100, "is neither a recording (headgate record) nor the database of a store"),
        (b"x", "is neither a recording"),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "audit"])
def test_a_file_that_is_no_recording_is_named_as_what_it_is(
    folder: Path, command: str, content: bytes, text: str
) -> None:
    (folder / "r.hgr").write_bytes(content)
    words = ["simulate", "--recording", "r.hgr"] if command == "simulate" else ["audit", "r.hgr"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == (1 if command == "simulate" else 2)
    assert f"headgate {command}: r.hgr" in result.output
    assert text in result.output


def test_an_audit_of_a_recording_refuses_skip() -> None:
    result = CliRunner().invoke(main, ["audit", str(REPOSITORY / "examples/bill/morning.hgr"), "--skip", "pods"])
    assert result.exit_code == 2
    assert "--skip is for a live cluster" in result.output


def test_a_pod_of_the_snapshot_and_a_job_cannot_have_one_name(folder: Path) -> None:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "job-1"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
    }
    write(folder / "pod.yaml", pod)
    result = run("--snapshot", "cluster.yaml", "--snapshot", "pod.yaml", "--trace", "jobs.jsonl")
    assert result.exit_code == 1
    assert "job job-1: a Pod default/job-1 exists already" in result.output
