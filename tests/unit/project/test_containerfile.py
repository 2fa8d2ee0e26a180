"""deploy/Containerfile as text: locked requirements, pinned base, and a context without surprises.

`tests/real/test_image.py` builds and runs it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "deploy" / "Containerfile").read_text())
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]


def versions(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.M))


def test_pip_installs_locked_wheels_only() -> None:
    installs = [part for _, step in STEPS for part in step.split("&&") if "pip" in part and " install " in part]
    assert len(installs) == 3
    for each in installs:
        locked = "--require-hashes" in each and "--only-binary=:all:" in each
        assert locked or ("--no-index" in each and "--no-deps" in each), each


def test_the_tools_that_build_the_wheel_are_those_of_the_developers() -> None:
    build, dev = versions("build.txt"), versions("dev.txt")
    assert "hatchling" in build
    assert {name: dev.get(name) for name in build} == build


def test_the_last_stage_needs_no_shell() -> None:
    last = STEPS[max(number for number, (name, _) in enumerate(STEPS) if name == "FROM") :]
    assert last[0][1] == "${BASE}"
    for name, step in last:
        assert name not in ("RUN", "ENTRYPOINT", "CMD") or step.startswith("["), step


def test_the_default_base_has_a_version() -> None:
    (base,) = (step for name, step in STEPS if name == "ARG" and step.startswith("BASE="))
    assert re.fullmatch(r"BASE=python:3\.\d+-slim-\w+", base)


def test_the_context_has_what_is_copied_and_nothing_else() -> None:
    copied = {
        source.split("/")[0]
        for name, step in STEPS
        if name == "COPY" and not step.startswith("--from")
        for source in step.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
