"""``--config`` recognises the kind of a file; ``--kueue-config`` has lower precedence; errors name file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.commands.run import command
from headgate.cli.configuration.config_options import ConfigFiles, files_of
from headgate.cli.main import main
from headgate.cli.wiring.plugins import find_plugins
from headgate.scheduling.config.types import KubeSchedulerConfiguration

OWN = "apiVersion: headgate.dev/v1alpha1\nkind: Configuration\n"
KUEUE = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = "profiles: [{schedulerName: NAME}]\n"
CONF = 'actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]\n'


def a_file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def files(*arguments: str) -> ConfigFiles:
    return files_of(command.make_context("run", list(arguments)))


def profiles(found: ConfigFiles) -> list[str]:
    assert found.scheduler is not None
    read = found.scheduler.read(find_plugins(), ("served",))
    assert isinstance(read, KubeSchedulerConfiguration), read
    return [each.name for each in read.profiles]


def outcome(*arguments: str) -> tuple[int, str]:
    run = CliRunner().invoke(main, list(arguments))
    return run.exit_code, run.output


def test_a_scheduler_configuration_is_still_given_with_config(tmp_path: Path) -> None:
    found = files("--config", a_file(tmp_path, "s.yaml", SCHEDULER + PROFILE))
    assert (profiles(found), found.own) == (["NAME"], None)
    assert profiles(files("--config", a_file(tmp_path, "volcano-scheduler.conf", CONF))) == ["served"]


def test_the_scheduler_configuration_is_in_the_file_or_beside_it(tmp_path: Path) -> None:
    a_file(tmp_path, "s.yaml", SCHEDULER + PROFILE)
    embedded = "scheduler:\n  configuration:\n    " + (SCHEDULER + PROFILE).replace("\n", "\n    ") + "\n"
    beside = "scheduler: {configurationFile: s.yaml}\n"
    conf = "scheduler:\n  configuration:\n    " + CONF.replace("\n", "\n    ") + "\n"
    assert profiles(files("--config", a_file(tmp_path, "own.yaml", OWN + embedded))) == ["NAME"]
    assert profiles(files("--config", a_file(tmp_path, "own.yaml", OWN + beside))) == ["NAME"]
    assert profiles(files("--config", a_file(tmp_path, "own.yaml", OWN + conf))) == ["served"]


def test_a_scheduler_configuration_beside_the_file_overrides_the_embedded_one(tmp_path: Path) -> None:
    own = a_file(tmp_path, "own.yaml", OWN + "scheduler: {configurationFile: absent-is-an-error.yaml}\n")
    other = a_file(tmp_path, "absent-is-an-error.yaml", SCHEDULER + PROFILE)
    flag = a_file(tmp_path, "flag.yaml", SCHEDULER + PROFILE.replace("NAME", "FLAG"))
    assert profiles(files("--config", own, "--config", flag)) == ["FLAG"]
    assert profiles(files("--config", own)) == ["NAME"]
    assert Path(other).exists()


def test_the_own_file_overrides_kueues_whatever_the_order(tmp_path: Path) -> None:
    own = a_file(tmp_path, "own.yaml", OWN + "jobs: {frameworks: [pod]}\n")
    kueue = a_file(tmp_path, "kueue.yaml", KUEUE + "manageJobsWithoutQueueName: true\n")
    for arguments in (
        ("--config", own, "--kueue-config", kueue),
        ("--kueue-config", kueue, "--config", own),
        ("--config", kueue, "--config", own),
    ):
        found = command.make_context("run", list(arguments)).params
        assert (found["frameworks"], found["manages_all"]) == (("pod",), True)
        assert found["pods_ready"].timeout_s == 1800.0


@pytest.mark.parametrize(("name", "text"), [("own", OWN), ("scheduler", SCHEDULER), ("kueue", KUEUE)])
def test_twofiles_of_one_kind_are_refused(name: str, text: str, tmp_path: Path) -> None:
    one, two = a_file(tmp_path, "1.yaml", text), a_file(tmp_path, "2.yaml", text)
    code, output = outcome("run", "--config", one, "--config", two)
    assert (code, "are of the same kind" in output) == (2, True)


def test_kueues_file_is_given_once(tmp_path: Path) -> None:
    one = a_file(tmp_path, "1.yaml", KUEUE)
    code, output = outcome("run", "--config", one, "--kueue-config", one)
    assert (code, "is given twice" in output) == (2, True)


def test_all_errors_are_printed_with_their_lines(tmp_path: Path) -> None:
    text = OWN + "components: [quotas]\njobs:\n  framework: []\n  kindsFile: absent.yaml\n"
    own = a_file(tmp_path, "own.yaml", text)
    code, output = outcome("run", "--config", own)
    assert code == 1
    assert output.splitlines() == [
        f'headgate run: {own}:3: components[0]: Unsupported value: "quotas": supported values: "scheduler", '
        '"gates", "webhooks", "controllers", "quota", "jobs"; is it quota?',
        f"headgate run: {own}:5: jobs.framework: Forbidden: unknown field: is it frameworks?",
    ]


def test_a_file_that_the_configuration_names_is_checked_too(tmp_path: Path) -> None:
    own = a_file(
        tmp_path, "own.yaml", OWN + "scheduler:\n  configurationFile: s.yaml\njobs:\n  kindsFile: absent.yaml\n"
    )
    scheduler = a_file(tmp_path, "s.yaml", SCHEDULER + "parallelism: 0\n")
    code, output = outcome("config", "check", own)
    assert code == 1
    first, second = output.splitlines()
    assert first.startswith(f"{own}:4: scheduler.configurationFile: ")
    assert f"{scheduler}: parallelism: Invalid value: 0" in first
    assert second.startswith(f"{own}:6: jobs.kindsFile: ")
    assert "No such file or directory" in second


def test_a_duplicate_field_and_a_broken_text_are_errors(tmp_path: Path) -> None:
    assert (
        "already set in map"
        in outcome("config", "check", a_file(tmp_path, "a", OWN + "takeover: true\ntakeover: 1\n"))[1]
    )
    assert "neither YAML nor JSON" in outcome("run", "--config", a_file(tmp_path, "a", OWN + "a: ["))[1]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    assert outcome("run", "--config", str(tmp_path / "absent")) == (
        1,
        f"headgate run: {tmp_path / 'absent'}: No such file or directory\n",
    )


def test_config_check_prints_what_the_file_sets(tmp_path: Path) -> None:
    own = a_file(tmp_path, "own.yaml", OWN + "components: [quota]\nfeatureGates: {SchedulingGatedBy: true}\n")
    assert outcome("config", "check", own) == (0, 'components: ["quota"]\nfeatureGates: {"SchedulingGatedBy":true}\n')
    code, output = outcome("config", "check", a_file(tmp_path, "k.yaml", KUEUE + "pprofBindAddress: :1\n"))
    assert code == 0
    assert "remark: pprofBindAddress" in output
    assert 'jobs.frameworks: ["batch/job"]\n' in output


def test_config_check_refuses_a_field_of_kueue_that_is_not_supported(tmp_path: Path) -> None:
    file = a_file(tmp_path, "k.yaml", KUEUE + "multiKueue: {origin: x}\n")
    code, output = outcome("config", "check", file)
    assert (code, output.startswith(f"{file}:3: multiKueue: Forbidden: not supported")) == (1, True)


KINDS = "kinds:\n- apiVersion: example.com/v1\n  kind: TrainingRun\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own", OWN + "takeover: true\n"),
        ("kueue", KUEUE + "pprofBindAddress: :1\n"),
        ("scheduler", SCHEDULER + "parallelism: 2\n"),
        ("conf", CONF),
        ("config-map", "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.conf: |\n    actions: allocate\n"),
    ],
)
def test_a_second_document_and_a_repeated_field_are_refused_in_files_of_each_kind(
    name: str, text: str, tmp_path: Path
) -> None:
    lines = text.count("\n")
    repeated = text.splitlines()[-1 if name != "config-map" else 0]
    file = a_file(tmp_path, "f.yaml", text + "---\na: 1\n")
    code, output = outcome("config", "check", file)
    assert code == 1
    assert f"{file}:{lines + 2}: Forbidden: a second YAML document begins here" in output
    file = a_file(tmp_path, "f.yaml", f"{text}{repeated}\n")
    code, output = outcome("config", "check", file)
    assert code == 1
    assert f"{file}:{lines + 1}: Forbidden: key " in output
    accepted = a_file(tmp_path, "f.yaml", text + "---\n# nothing\n")
    assert "second YAML document" not in outcome("config", "check", accepted)[1]


@pytest.mark.parametrize(("flag", "text"), [("--config", OWN), ("--kueue-config", KUEUE), ("--config", SCHEDULER)])
def test_run_refuses_a_second_document(flag: str, text: str, tmp_path: Path) -> None:
    file = a_file(tmp_path, "f.yaml", text + "---\na: 1\n")
    absent = a_file(tmp_path, "kubeconfig", "{}")
    code, output = outcome("run", flag, file, "--kubeconfig", absent)
    assert code == 1
    assert f"headgate run: {file}:4: Forbidden: a second YAML document begins here" in output


def test_job_kinds_with_a_second_document_or_a_repeated_field_are_refused(tmp_path: Path) -> None:
    file = a_file(tmp_path, "kinds.yaml", KINDS + "  kind: Other\n---\nkinds: []\n")
    code, output = outcome("run", "--job-kinds", file)
    assert code == 2
    assert f"{file}: line 4: Forbidden: key" in output
    assert f"{file}: line 6: Forbidden: a second YAML document begins here" in output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "Required value: the file is empty; the known kinds are headgate.dev/v1alpha1 Configuration, "),
        ("- a\n", "Required value: the file does not contain an object; the known kinds are "),
        ("apiVersion: v1\nkind: Pod\n", 'apiVersion: Invalid value: "v1 Pod": this kind is not read here; the known '),
        ("kind: Configuration\n", "apiVersion: Required value: the known kinds are "),
        (OWN.replace("headgate", "headgat"), "; is it headgate.dev/v1alpha1 Configuration?"),
    ],
)
@pytest.mark.parametrize("command_line", [("config", "check"), ("run", "--config")])
def test_a_file_of_no_known_kind_is_refused_with_the_known_kinds(
    text: str, expected: str, command_line: tuple[str, str], tmp_path: Path
) -> None:
    code, output = outcome(*command_line, a_file(tmp_path, "f.yaml", text))
    assert code == 1
    assert expected in output
    for kind in (
        "headgate.dev/v1alpha1 Configuration",
        "config.kueue.x-k8s.io/v1beta2 Configuration",
        "kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration",
        "volcano-scheduler.conf",
    ):
        assert kind in output


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "components: []",
            "components: Invalid value: []: nothing is chosen: choose at least one of scheduler, gates,",
        ),
        ("components: [quota, null]", "components[1]: Required value: null is no item; remove it"),
        ("scheduler: {names: []}", "scheduler.names: Invalid value: []: an empty list serves no pods"),
        ("queues: {gatedSchedulerNames: []}", "queues.gatedSchedulerNames: Invalid value: []"),
        ("jobs: {kinds: [null]}", "jobs.kinds[0]: "),
    ],
)
def test_lists_that_choose_nothing_are_refused(fields: str, expected: str, tmp_path: Path) -> None:
    file = a_file(tmp_path, "f.yaml", f"{OWN}{fields}\n")
    code, output = outcome("config", "check", file)
    assert code == 1
    assert f"{file}:3: {expected}" in output


def test_a_binary_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xff\xfe\x00\x81\x8d")
    code, output = outcome("config", "check", str(tmp_path / "f.yaml"))
    assert (code, output.count("\n")) == (1, 1)
    assert "this is neither YAML nor JSON" in output
