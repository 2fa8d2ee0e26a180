"""The container image: `make image` with a real buildah on Debian's Python, and the chart's pods in the result.

The base images are root file systems of Debian packages (`make rootfs`); the last stage has no shell and no pip. The
release runs on a real control plane. Its pods are containers with the security context of the chart: a uid that is not
root, a read-only root file system, no capabilities (`harness/container_runtime.py`).
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
from harness.container_image import ContainerImage, ImageBuild
from harness.container_runtime import ContainerRuntime
from harness.helm import CHART, Helm
from harness.installed_cluster import InstalledCluster
from harness.real_server import REPOSITORY
from headgate.install.deployment import USER
from headgate.install.options import GRACE_S

pytestmark = pytest.mark.real

Object = dict[str, Any]
NAMESPACE = "headgate-system"
PREFIX = "opt/headgate"
MOUNT_POINTS = {"dev", "etc", "etc/hostname", "etc/hosts", "etc/resolv.conf", "opt", "proc", "run", "sys", "tmp"}
"""A builder makes them for the steps that it runs."""
UNCHECKED_HASH = 0b01
WRITABLE = """
import os
folders = (folder for folder, _, _ in os.walk("/") if not folder.startswith(("/proc", "/dev/pts")))
print(os.getuid(), os.getgid(), *os.getgroups(), *(folder for folder in folders if os.access(folder, os.W_OK)))
"""
CAPABILITIES = """
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs")):
        print(line, end="")
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Readable by every user, as pytest's own folders are not."""
    with tempfile.TemporaryDirectory(prefix="headgate-image-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def runtime(image_rootfs: Path, place: Path) -> Iterator[ContainerRuntime]:
    """The image is built in the background until a test asks for it."""
    build = ImageBuild(image_rootfs, place)
    yield ContainerRuntime(build, image_rootfs, place)
    build.finished()


@pytest.fixture(scope="module")
def cluster(
    runtime: ContainerRuntime, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InstalledCluster]:
    made = InstalledCluster(tmp_path_factory.mktemp("contained"), kube_binaries, runtime.start)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def image(runtime: ContainerRuntime) -> ContainerImage:
    return runtime.image


def test_the_pods_of_the_chart_become_ready_in_the_image_and_end_at_sigterm(
    cluster: InstalledCluster, runtime: ContainerRuntime, image: ContainerImage, helm_binary: Path, tmp_path: Path
) -> None:
    helm = Helm(helm_binary, tmp_path, cluster.server.kubeconfig)
    words = ("--create-namespace", "--set=replicas=1", "--timeout=180s", "--wait")
    done = helm.run("install", "headgate", str(CHART), *words)
    assert done.exit == 0, (done.stderr, cluster.kubelet.trouble, cluster.kubelet.log())
    (pod,) = cluster.kubelet.pods.values()
    assert pod.is_ready(), "GET /readyz is answered with 200"
    assert os.stat(f"/proc/{pod.process.pid}").st_uid == USER
    cluster.typed("scale", "deployment/headgate", "--replicas=0", "-n", NAMESPACE)
    cluster.until("the pod gets SIGTERM", lambda: pod.stopped_s)
    assert pod.process.wait(GRACE_S) == 0, pod.process.tail()
    assert time.monotonic() - pod.stopped_s < GRACE_S / 2
    assert "Traceback" not in pod.process.log.read_text()
    assert [list(folder.iterdir()) for folder in runtime.volumes.values()] == [[]], "nothing is written"
    assert cluster.refusals() == []


def test_the_image_runs_headgate_as_the_user_of_the_chart(image: ContainerImage) -> None:
    config = image.config
    assert config["User"] == f"{USER}:{USER}", "a number, or the kubelet cannot check runAsNonRoot"
    assert config["Entrypoint"] == [f"/{PREFIX}/bin/headgate"]
    assert config["Cmd"] == ["--help"]
    label = "org.opencontainers.image"
    assert config["Labels"][f"{label}.version"] == headgate.__version__
    assert config["Labels"][f"{label}.title"] == "headgate"
    assert config["Labels"][f"{label}.licenses"] == "Apache-2.0"
    assert re.fullmatch("[0-9a-f]{40}(-dirty)?", config["Labels"][f"{label}.revision"])


def test_the_image_adds_the_installed_wheels_and_nothing_else(image: ContainerImage) -> None:
    added = {name.rstrip("/") for name in image.added}
    assert f"{PREFIX}/share/headgate/examples/scheduler-rights.yaml" in added
    assert {name for name in added if not name.startswith(PREFIX)} <= MOUNT_POINTS
    installed = {name.split("/")[5] for name in added if "/site-packages/" in name}
    tools = {"pip", "hatchling", "setuptools", "wheel", "packaging", "pluggy", "tomlkit", "pytest"}
    assert installed & {"headgate", "numpy", "msgspec"} == {"headgate", "numpy", "msgspec"}
    assert not installed & tools


def test_the_image_has_every_file_of_the_package(image: ContainerImage) -> None:
    (package,) = (image.rootfs / PREFIX / "lib").glob("python3.*/site-packages/headgate")
    assert _files(package) == _files(REPOSITORY / "src" / "headgate")


def _files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_image_has_no_shell_no_pip_and_no_compiler(image: ContainerImage) -> None:
    programs = {
        path.name
        for folder in image.environment()["PATH"].split(":")
        for path in (image.rootfs / folder.lstrip("/")).glob("*")
    }
    assert {"headgate", "python3"} <= programs
    unwanted = re.compile(r"(ba|da|z|k)?sh|pip[\d.]*|gcc.*|cc|c\+\+|g\+\+|clang.*|ld|make|cargo|rustc")
    assert not [name for name in programs if unwanted.fullmatch(name)]


def test_every_module_of_the_package_is_compiled_without_time_stamps(image: ContainerImage) -> None:
    (package,) = (image.rootfs / PREFIX / "lib").glob("python3.*/site-packages/headgate")
    modules = list(package.rglob("*.py"))
    assert len(modules) > 500
    for module in modules:
        (compiled,) = module.parent.glob(f"__pycache__/{module.stem}.cpython-*.pyc")
        assert compiled.read_bytes()[4] == UNCHECKED_HASH, compiled


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["version"], f"headgate {headgate.__version__} "),
        (["--help"], "Usage: headgate"),
        (["run", "--help"], "Usage: headgate run"),
        (["install"], "apiVersion: v1"),
        (["config", "docs"], "headgate.dev/v1alpha1"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, list) else "",
)
def test_commands_work_in_a_container(words: list[str], expected: str, runtime: ContainerRuntime) -> None:
    done = runtime.run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


def test_a_container_can_write_to_its_volume_only_and_has_no_capabilities(runtime: ContainerRuntime) -> None:
    """So a pod that becomes ready needs neither another writable folder nor a capability."""
    done = runtime.run("python3", "-c", WRITABLE, entrypoint=False)
    assert done.stdout.split() == [str(USER), str(USER), "/tmp"], done.stderr
    done = runtime.run("python3", "-c", CAPABILITIES, entrypoint=False)
    values = dict(line.split(":\t") for line in done.stdout.splitlines())
    assert {name: int(value, 16) for name, value in values.items()} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0),
        "NoNewPrivs": 1,
    }
