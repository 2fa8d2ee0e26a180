"""`make image`: which builder it takes, what it tells the builder, and what it says when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.image.build import ROOT, command

import headgate

RECORDS = (
    '#!{python}\nimport sys\nprint("{name}", *sys.argv[1:])\nsys.exit({code} if sys.argv[1] == "{fails}" else 0)\n'
)


def put(folder: Path, name: str, *, fails: str = "", code: int = 1) -> None:
    """A builder that prints its arguments, and fails at one of its commands."""
    (folder / name).write_text(RECORDS.format(python=sys.executable, name=name, fails=fails, code=code))
    (folder / name).chmod(0o755)


def make_image(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.image.build", *words],
        cwd=ROOT,
        env={**os.environ, "PATH": str(folder), "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_builder_it_says_which_ones_it_knows_and_how_to_get_one(tmp_path: Path) -> None:
    done = make_image(tmp_path)
    assert done.returncode == 1
    assert "no buildah or podman or docker is on the PATH" in done.stderr
    assert "apt-get install buildah" in done.stderr


def test_a_docker_without_a_daemon_is_no_builder(tmp_path: Path) -> None:
    put(tmp_path, "docker", fails="version")
    done = make_image(tmp_path)
    assert done.returncode == 1
    assert "its daemon does not answer" in done.stderr


@pytest.mark.parametrize(
    ("present", "taken"), [(("docker", "podman", "buildah"), "buildah"), (("docker", "podman"), "podman")]
)
def test_it_prefers_builders_that_need_no_daemon(present: tuple[str, ...], taken: str, tmp_path: Path) -> None:
    for name in present:
        put(tmp_path, name)
    done = make_image(tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()[:2]
    expected = f"--file deploy/Containerfile --tag headgate:{headgate.__version__} --timestamp 1700000000"
    assert first.startswith(f"image: {taken} build {expected} --build-arg VERSION={headgate.__version__} ")
    assert f"image: {second}" == first
    assert second.endswith(" .")


def test_a_named_builder_a_name_and_bases_are_used(tmp_path: Path) -> None:
    for name in ("docker", "podman"):
        put(tmp_path, name)
    base = "registry.example/python@sha256:abc"
    words = ("--builder=docker", "--image=registry.example/headgate:1", f"--base={base}", "--", "--pull")
    done = make_image(tmp_path, *words)
    line = done.stdout.splitlines()[1]
    assert line.startswith("docker build --file deploy/Containerfile --tag registry.example/headgate:1 ")
    assert f"--build-arg BASE={base} " in line
    assert line.endswith(" --build-arg SOURCE_DATE_EPOCH=1700000000 --pull .")
    assert "no digest" not in done.stdout
    assert "headgate install --image registry.example/headgate:1" in done.stdout


def test_a_build_that_fails_fails_the_command(tmp_path: Path) -> None:
    put(tmp_path, "buildah", fails="build", code=125)
    done = make_image(tmp_path)
    assert done.returncode == 1
    assert "buildah could not build headgate:" in done.stderr


def test_without_a_commit_there_is_no_time_for_the_builder() -> None:
    assert command("buildah", "one:1", {"VERSION": "1"}, None, ()) == [
        *("buildah", "build", "--file", "deploy/Containerfile", "--tag", "one:1", "--build-arg", "VERSION=1", ".")
    ]
