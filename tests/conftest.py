"""Fixtures for suites that talk to running servers; tests that ask for none of them start nothing.

`HEADGATE_COMPARE=real,real` compares a real server with another real one: that must find nothing and shows that the
comparison itself is sound. `HEADGATE_REQUIRE_KUBE=1` turns absent binaries from a skip into a failure, and so do
`HEADGATE_REQUIRE_KARPENTER=1`, `HEADGATE_REQUIRE_KUEUE=1`, `HEADGATE_REQUIRE_HELM=1`, `HEADGATE_REQUIRE_NEWEST=1`,
`HEADGATE_REQUIRE_PROMETHEUS=1`, `HEADGATE_REQUIRE_ROOTFS=1`, `HEADGATE_REQUIRE_CHROMIUM=1` and
`HEADGATE_REQUIRE_TMUX=1`; `.ci/run` sets all of them. Each xdist worker has its own servers. A run prints how often
each allowed difference was met, on all workers together, and fails if one was met too often; a full run also fails if
one was never met (`real/allowed_differences.py`).
"""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.allowances import exceeded, summary_lines, unmet
from harness.browser import HOW_TO_GET_CHROMIUM, chromium_program
from harness.container_image import HOW_TO_GET_THE_ROOTFS, rootfs_folder
from harness.embedded_server import EmbeddedServer
from harness.helm import HOW_TO_GET_HELM, helm_program
from harness.karpenter import HOW_TO_GET_IT, karpenter_folder
from harness.kubernetes_versions import HOW_TO_GET_VERSIONS, NEWEST, VERSIONS, version_folder
from harness.kueue import HOW_TO_GET_KUEUE, kueue_folder
from harness.operators import ABSENT as OPERATORS_ABSENT
from harness.operators import HOW_TO_GET_THEM as HOW_TO_GET_OPERATORS
from harness.operators import operators_folder
from harness.processes import Process
from harness.prometheus import HOW_TO_GET_PROMETHEUS, prometheus_folder
from harness.real_server import HOW_TO_GET_THEM, RealServer, binaries
from harness.server import Server
from harness.server_pair import ServerPair, report_path
from harness.tmux import HOW_TO_GET_TMUX, tmux_program
from real.allowed_differences import ALLOWED, DRAWN

# Less garbage collection in the real programs: a start of kube-apiserver takes 1.2 s of CPU time instead of 1.9 s.
os.environ.setdefault("GOGC", "800")
os.environ.setdefault("GOMEMLIMIT", "1GiB")
# A shell starts background commands with SIGINT ignored, and the programs of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "harness.memory_folder",
    "harness.orphans",
    "harness.tiers",
    "harness.timing",
    "harness.waiting_files",
]
ABSENT = "the real Kubernetes binaries are absent"
KARPENTER_ABSENT = "the real Karpenter is absent"
KUEUE_ABSENT = "the real Kueue is absent"
HELM_ABSENT = "Helm is absent"
PROMETHEUS_ABSENT = "Prometheus is absent"
ROOTFS_ABSENT = "the root file systems for the image are absent"
CHROMIUM_ABSENT = "Chromium is absent"
TMUX_ABSENT = "tmux is absent"
VERSION_ABSENT = "a control plane of Kubernetes is absent"
ALL_ABSENT = (
    *(ABSENT, KARPENTER_ABSENT, KUEUE_ABSENT, HELM_ABSENT, PROMETHEUS_ABSENT, ROOTFS_ABSENT, VERSION_ABSENT),
    *(CHROMIUM_ABSENT, TMUX_ABSENT),
)
HERE = Path(__file__).parent
CONTROLLERS = (
    "resourcequota-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,"
    "persistentvolume-binder-controller"
)
EVENT_TTL = "4s"
MET = pytest.StashKey[Counter[str]]()
COMPLETE = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headgate")
    group.addoption("--patch-pairs", type=int, help="objects and patches to compare on both servers")
    group.addoption("--spoiled-step", type=int, help="try every n-th of the ways to spoil a manifest")
    group.addoption("--random-patches", action="store_true", help="draw other patches on every run")
    group.addoption("--placements", type=int, help="drawn clusters to put to both schedulers")
    group.addoption("--random-placements", action="store_true", help="draw other clusters on every run")
    group.addoption(
        "--kubernetes",
        default=NEWEST,
        help="minor versions for the smoke suite, separated by commas, or all; the default is the newest",
    )
    group.addoption("--placement-case", type=int, help="the number of one drawn cluster, to see it again")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MET] = Counter()


@pytest.fixture(scope="session")
def met_allowances(request: pytest.FixtureRequest) -> Counter[str]:
    """How often each allowed difference was met in this process; every pair of servers counts here."""
    return request.config.stash[MET]


def _required(folder: Path | None, variable: str, complaint: str) -> Path:
    """Without Go a newcomer still runs all the rest; where the variable is set nothing is skipped."""
    if folder is None:
        if os.environ.get(variable) == "1":
            pytest.fail(f"{complaint} ({variable}=1)", pytrace=False)
        pytest.skip(complaint)  # never in `.ci/run`, which requires all of them (see above)
    return folder


@pytest.fixture(scope="session")
def kube_binaries() -> Path:
    return _required(binaries(), "HEADGATE_REQUIRE_KUBE", f"{ABSENT}: {HOW_TO_GET_THEM}")


@pytest.fixture(scope="session")
def karpenter_binaries() -> Path:
    return _required(karpenter_folder(), "HEADGATE_REQUIRE_KARPENTER", f"{KARPENTER_ABSENT}: {HOW_TO_GET_IT}")


@pytest.fixture(scope="session")
def kueue_binaries() -> Path:
    return _required(kueue_folder(), "HEADGATE_REQUIRE_KUEUE", f"{KUEUE_ABSENT}: {HOW_TO_GET_KUEUE}")


@pytest.fixture(scope="session")
def operator_binaries() -> Path:
    return _required(operators_folder(), "HEADGATE_REQUIRE_OPERATORS", f"{OPERATORS_ABSENT}: {HOW_TO_GET_OPERATORS}")


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    return _required(helm_program(), "HEADGATE_REQUIRE_HELM", f"{HELM_ABSENT}: {HOW_TO_GET_HELM}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubernetes_binaries" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--kubernetes")
        metafunc.parametrize("kubernetes_binaries", VERSIONS if asked == "all" else asked.split(","), indirect=True)


@pytest.fixture(scope="session")
def kubernetes_binaries(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with the control plane of a version of Kubernetes, and etcd and kubectl of `make kube`."""
    folder = version_folder(request.param, kube_binaries, tmp_path_factory.mktemp("programs"))
    return _required(folder, "HEADGATE_REQUIRE_NEWEST", f"{VERSION_ABSENT}, {request.param}: {HOW_TO_GET_VERSIONS}")


@pytest.fixture(scope="session")
def prometheus_programs() -> Path:
    folder = prometheus_folder()
    return _required(folder, "HEADGATE_REQUIRE_PROMETHEUS", f"{PROMETHEUS_ABSENT}: {HOW_TO_GET_PROMETHEUS}")


@pytest.fixture(scope="session")
def image_rootfs() -> Path:
    return _required(rootfs_folder(), "HEADGATE_REQUIRE_ROOTFS", f"{ROOTFS_ABSENT}: {HOW_TO_GET_THE_ROOTFS}")


@pytest.fixture(scope="session")
def chromium() -> Path:
    return _required(chromium_program(), "HEADGATE_REQUIRE_CHROMIUM", f"{CHROMIUM_ABSENT}: {HOW_TO_GET_CHROMIUM}")


@pytest.fixture(scope="session")
def tmux() -> Path:
    return _required(tmux_program(), "HEADGATE_REQUIRE_TMUX", f"{TMUX_ABSENT}: {HOW_TO_GET_TMUX}")


@pytest.fixture(scope="session")
def real_server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    server = RealServer(tmp_path_factory.mktemp("real"), kube_binaries)
    yield server
    server.disconnect()
    server.stop()


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder = binaries()
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"), folder / "kubectl" if folder else None)
    yield server
    server.disconnect()
    server.stop()


@pytest.fixture(scope="session")
def servers(
    real_server: RealServer,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    met_allowances: Counter[str],
) -> Iterator[ServerPair]:
    second: Server
    twin: RealServer | None = None
    if os.environ.get("HEADGATE_COMPARE") == "real,real":
        folder: Path = request.getfixturevalue("kube_binaries")
        second = twin = RealServer(tmp_path_factory.mktemp("twin"), folder, "real again")
    else:
        second = request.getfixturevalue("embedded_server")
    pair = ServerPair(real_server, second, () if twin else ALLOWED, report_path(), met_allowances)
    yield pair
    pair.close()
    if twin:
        twin.stop()


@pytest.fixture(scope="session")
def governed(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]
) -> Iterator[ServerPair]:
    """Another pair, in which more happens: controllers keep quotas, containers may be privileged, events expire."""
    folder = tmp_path_factory.mktemp("governed")
    real = RealServer(folder / "real", kube_binaries, flags=("--allow-privileged=true", f"--event-ttl={EVENT_TTL}"))
    manager = Process(
        [
            str(kube_binaries / "kube-controller-manager"),
            *(f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", "--secure-port=0"),
            *(f"--controllers={CONTROLLERS}", "--use-service-account-credentials=false", f"--root-ca-file={real.ca}"),
            *("--kube-api-qps=500", "--kube-api-burst=500", f"--flex-volume-plugin-dir={folder}"),
        ],
        folder / "kube-controller-manager.log",
    )
    flags = ("--components", "apiserver,controllers", "--allow-privileged=true", "--event-ttl", EVENT_TTL)
    ours = EmbeddedServer(folder / "ours", kube_binaries / "kubectl", flags)
    pair = ServerPair(real, ours, ALLOWED, report_path(), met_allowances)
    yield pair
    pair.close()
    manager.stop()
    real.stop()
    ours.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    because = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if any(absent in because for absent in ALL_ABSENT):
        # One place for all of them, so that the summary says it in one line.
        report.longrepr = (str(HERE / "conftest.py"), 1, because)
    servers = getattr(item, "funcargs", {})
    if report.failed and not isinstance(getattr(call.excinfo, "value", None), AssertionError):
        for name in ("real_server", "embedded_server"):
            if name in servers:
                report.sections.append((f"log of {name}", servers[name].log()))
    return report


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items[:1]:
        item.config.stash[COMPLETE] = False


def pytest_collection_finish(session: pytest.Session) -> None:
    """A run is complete if it holds every comparing file, whole: only then can an unused allowance be called stale."""
    wanted = {path for folder in ("real", "wire") for path in (HERE / folder).rglob("test_*.py")}
    present = {item.path for item in session.items}
    named = any("::" in argument for argument in session.config.args)
    complete = wanted <= present and not named and session.config.stash.get(COMPLETE, True)
    session.config.stash[COMPLETE] = complete and os.environ.get("HEADGATE_COMPARE") != "real,real"
    # What was collected stays until the end of the run: without
    # this, tests/unit/jobs takes a sixth more CPU time.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        met = session.config.stash[MET]
        output["met_allowances"] = dict(met)
        output["complete"] = session.config.stash.get(COMPLETE, False)
        return
    if _complaints(session.config) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_testnodedown(node: Any, error: Any) -> None:
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    config: pytest.Config = node.config
    met = config.stash[MET]
    counted: dict[str, int] = output.get("met_allowances", {})
    met.update(counted)
    config.stash[COMPLETE] = bool(output.get("complete"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if met := summary_lines(ALLOWED, config.stash[MET]):
        terminalreporter.section("allowed differences, met and at most")
        for line in met:
            terminalreporter.write_line(line)
    for complaint in _complaints(config):
        terminalreporter.write_line(f"FAILED: {complaint}", red=True)


def _complaints(config: pytest.Config) -> list[str]:
    met = config.stash[MET]
    drawn = (
        config.getoption("--patch-pairs") / DRAWN["patch_pairs"],
        DRAWN["spoiled_step"] / config.getoption("--spoiled-step"),
    )
    found = [f"an allowed difference was met too often: {each}" for each in exceeded(ALLOWED, met, max(1, *drawn))]
    if config.stash.get(COMPLETE, False) and met and min(drawn) >= 1:  # a smaller draw need not meet all of them
        found += [f"an allowed difference was met by no case: {each}" for each in unmet(ALLOWED, met)]
    return found
