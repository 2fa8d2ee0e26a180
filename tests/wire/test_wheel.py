"""``make dist``: the wheel, installed into an empty virtual environment, is a working Headgate on every Python here."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import headgate
from harness.cluster import Cluster
from harness.pythons import supported_pythons

REPOSITORY = Path(__file__).resolve().parents[2]
UV = REPOSITORY / ".venv" / "bin" / "uv"
PYTHONS = supported_pythons()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        ["make", "--no-print-directory", "dist", f"DIST={folder}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def _run(*words: object, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_supported_python() -> None:
    assert PYTHONS, "no Python from 3.11 on was found"


def test_the_wheel_has_every_file_of_the_package_and_the_examples(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    version = headgate.__version__
    data, info = f"headgate-{version}.data/data/share/headgate", f"headgate-{version}.dist-info"
    package = [each for each in (REPOSITORY / "src").rglob("*") if each.is_file() and "__pycache__" not in each.parts]
    examples = [each for each in (REPOSITORY / "examples").rglob("*.yaml") if each.is_file()]
    expected = {str(each.relative_to(REPOSITORY / "src")) for each in package}
    expected |= {f"{data}/{each.relative_to(REPOSITORY)}" for each in examples}
    expected |= {f"{info}/entry_points.txt", f"{info}/licenses/LICENSE"}
    assert expected <= names, expected - names
    assert not [each for each in names if not each.startswith(("headgate/", info, data))]


def test_the_sdist_has_what_a_build_and_the_tests_need(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {each.partition("/")[2] for each in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "requirements/runtime.txt"} <= names
    assert {"src/headgate/schemas/tables.json", "tests/conftest.py", "docs/index.md"} <= names
    assert not [each for each in names if each.startswith((".venv", ".git/", "dist/"))]


@pytest.mark.real
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_in_an_empty_environment_serves_kubectl(
    version: str, wheel: Path, kube_binaries: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    _run(UV, "venv", "--quiet", "--python", PYTHONS[version], environment)
    pip = (UV, "pip", "install", "--quiet", "--python", environment / "bin" / "python")
    _run(*pip, "--require-hashes", "-r", REPOSITORY / "requirements" / "runtime.txt")
    _run(*pip, "--no-deps", wheel)
    _run(UV, "pip", "check", "--quiet", "--python", environment / "bin" / "python")
    program = environment / "bin" / "headgate"
    told = _run(program, "version")
    assert told.startswith(f"headgate {headgate.__version__} ")
    assert f"Python {version}." in told
    with Cluster(tmp_path / "data", "--nodes", "1", program=(str(program),)) as cluster:
        kubectl = (kube_binaries / "kubectl", "--kubeconfig", cluster.data / "kubeconfig")
        assert _run(*kubectl, "get", "nodes", "-o", "name").splitlines() == ["node/node-0001"]
        _run(*kubectl, "create", "configmap", "made", "--from-literal=by=kubectl")
        assert _run(*kubectl, "get", "configmap", "made", "-o", "jsonpath={.data.by}") == "kubectl"
        code, _, err = cluster.stop()
    assert (code, err) == (0, "")
    examples = environment / "share" / "headgate" / "examples"
    assert (examples / "scheduler-rights.yaml").is_file()
