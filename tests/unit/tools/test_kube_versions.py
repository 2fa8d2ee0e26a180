"""The pinned versions of Kubernetes: one Go module for each, named in the harness and in the documentation."""

from __future__ import annotations

import re

import pytest
from tools.kube.build import HERE, KUBERNETES, NEWEST, SETS, SKEWED, Module, pinned

from harness import kubernetes_versions
from harness.real_server import REPOSITORY

MODULES = [KUBERNETES, *SKEWED.values()]


def minor_of(module: Module) -> str:
    return pinned(module).removeprefix("v").rsplit(".", 1)[0]


def test_the_smoke_suite_knows_every_version_that_can_be_built() -> None:
    built = sorted(map(minor_of, MODULES))
    assert list(kubernetes_versions.VERSIONS) == built
    assert kubernetes_versions.NEWEST == NEWEST == built[-1]
    assert {minor: minor_of(module) for minor, module in SKEWED.items()} == {minor: minor for minor in SKEWED}
    assert {f"kube-{minor}" for minor in SKEWED} <= SETS.keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.folder))
def test_all_staging_modules_have_the_version_of_their_kubernetes(module: Module) -> None:
    text = (HERE / module.folder / "go.mod").read_text()
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (v\S+)$", text, re.M)
    assert len(replaced) > 30
    staging = pinned(module).replace("v1.", "v0.", 1)
    assert {(left == right, version) for left, right, version in replaced} == {(True, staging)}
    assert (HERE / module.folder / "go.sum").exists()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.folder))
def test_the_page_about_upgrades_lists_the_version(module: Module) -> None:
    page = (REPOSITORY / "docs" / "upgrade.md").read_text()
    assert f"\n| {pinned(module)} | passes" in page


def test_make_skew_builds_every_version() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    assert f"tools/kube/build.py {' '.join(f'kube-{minor}' for minor in SKEWED)}\n" in makefile
