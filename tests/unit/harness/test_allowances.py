"""The differences that a comparison of two servers allows, and that a run counts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.allowances import Allowance, Form
from harness.compare import ABSENT, Difference
from real.allowed_differences import ALLOWED

TESTS = Path(__file__).parents[2]
SERVED = [{"name": "apps"}, {"name": "batch"}]
REAL = [{"name": "apiregistration.k8s.io"}, *SERVED]
POD = "/api/v1/namespaces/{namespace}/pods/{name}"
DIFF = 'Forbidden: no: \n@@ -1,3 +1,3 @@\n {\n- "Name": "a",\n+ "Name": "b",\n }\n'
OUR_DIFF = 'Forbidden: no: \n {\n-  "name": "a",\n+  "name": "b",\n }\n'


def allowed(suite: str, case: str, path: str, real: Any, ours: Any, step: str = "1. GET /") -> list[str]:
    found = Difference(case, step, tuple(path.split("/")), real, ours)
    return [each.name for each in ALLOWED if each.allows(suite, found)]


@pytest.mark.parametrize(
    ("name", "suite", "case", "path", "real", "ours"),
    [
        ("groups", "test_http_bad_input", "the path /apis/", "body/groups", REAL, SERVED),
        (
            "parameters of exec and logs",
            "test_http_discovery",
            "the operations of v1",
            f"body/get {POD}/portforward/query",
            ["ports"],
            [],
        ),
        ("diffs in texts", "test_kind_differential", "spoiled Pod v1", "body/message", DIFF, OUR_DIFF),
        ("deep nesting", "test_http_bad_input", "a patch that nests deeply", "body/code", ABSENT, 400),
        (
            "schema hints",
            "test_http_discovery",
            "the schemas of authorization.k8s.io/v1",
            "body/io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
            ABSENT,
            {"type": "object"},
        ),
    ],
)
def test_a_difference_that_is_meant_is_allowed(
    name: str, suite: str, case: str, path: str, real: Any, ours: Any
) -> None:
    assert allowed(suite, case, path, real, ours) == [name]


@pytest.mark.parametrize(
    ("suite", "case", "path", "real", "ours"),
    [
        # groups: those of a user are no API groups, and no other API group may be missing
        ("test_http_impersonation", "an account", "body/status/userInfo/groups", ["a", "b"], ["b"]),
        ("test_http_bad_input", "the path /apis/", "body/status/userInfo/groups", REAL, SERVED),
        ("test_http_bad_input", "the path /apis/", "body/groups", REAL, SERVED[1:]),
        ("test_http_bad_input", "the path /apis/", "body/groups", REAL, []),
        ("test_http_impersonation", "the path /apis/", "body/groups", REAL, SERVED),
        # parameters: of these endpoints only, and only theirs
        ("test_http_discovery", "the operations of v1", f"body/get {POD}/query", ["pretty"], []),
        ("test_http_discovery", "the operations of v1", f"body/get {POD}/exec/query", ["ports"], []),
        # diffs: the words before and after them are the same, and ours has one
        ("test_kind_differential", "spoiled Pod v1", "body/message", DIFF, OUR_DIFF.replace("no", "yes")),
        ("test_kind_differential", "spoiled Pod v1", "body/message", DIFF + ", more", OUR_DIFF),
        ("test_kind_differential", "spoiled Pod v1", "body/message", DIFF, "Forbidden: no: "),
        ("test_kind_differential", "spoiled Pod v1", "body/reason", DIFF, OUR_DIFF),
        ("test_http_writing", "an update", "body/message", DIFF, OUR_DIFF),
        # decoders: a text of Go excuses no other text of ours
        (
            "test_patch_differential",
            "patches of pods: p1",
            "body/message",
            "patch: Invalid value: x: json: cannot unmarshal bool into Go struct field A.b of type string",
            "patch: Invalid value: x: anything",
        ),
        (
            "test_http_custom_conversion",
            "a webhook that answers with a response that is a list",
            "body/message",
            "conversion webhook for test.example.com/v1, Kind=Box failed: json: cannot unmarshal array into Go struct"
            " field ConversionReview.response of type v1.ConversionResponse",
            "conversion webhook for test.example.com/v1, Kind=Box failed: exceeded max depth",
        ),
        # deep nesting: only these answers of these cases
        ("test_http_bad_input", "a patch that nests deeply", "body/code", ABSENT, 500),
        ("test_http_bad_input", "a patch of a list", "body/code", ABSENT, 400),
        ("test_http_bad_input", "a patch that nests deeply", "status", 200, 413),
        ("test_http_bad_input", "a patch that nests deeply", "body/metadata/labels", {"a": "b"}, ABSENT),
        # schema hints: only these components, and whatever the real server has is served
        (
            "test_http_discovery",
            "the schemas of authorization.k8s.io/v1",
            "body/io.k8s.api.authorization.v1.SubjectAccessReview",
            ABSENT,
            {"type": "object"},
        ),
        (
            "test_http_discovery",
            "the schemas of v1",
            "body/io.k8s.api.core.v1.Pod",
            ABSENT,
            {"type": "object"},
        ),
        (
            "test_http_discovery",
            "the schemas of networking.k8s.io/v1",
            "body/io.k8s.api.networking.v1.IngressRule/properties/http/type",
            "object",
            ABSENT,
        ),
    ],
)
def test_a_difference_that_only_resembles_one_is_not_allowed(
    suite: str, case: str, path: str, real: Any, ours: Any
) -> None:
    assert allowed(suite, case, path, real, ours) == []


def test_what_both_patterns_capture_under_one_name_has_to_be_the_same() -> None:
    form = Form("test_x", "body/message", r"(?P<same>\w+) in Go", r"(?P<same>\w+) in Python")
    found = Difference("case", "step", ("body", "message"), "text in Go", "text in Python")
    assert form.matches("test_x", found)
    assert not form.matches("test_xy", found)
    assert not form.matches("test_x", Difference("case", "step", ("body", "message"), "text in Go", "word in Python"))


def test_every_allowance_was_recorded_in_five_runs_and_names_its_suites() -> None:
    for each in ALLOWED:
        assert len(each.met) >= 5, each.name
        assert min(each.met) > 0, each.name
        assert each.at_most == 2 * max(each.met)
        assert all(form.suites != ".*" for form in each.forms), each.name


def _run(folder: Path, times: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """Two modules that each meet one allowance so many times, in a run of their own."""
    for number in (1, 2):
        (folder / f"test_part{number}.py").write_text(
            f"def test_it(met_allowances):\n    met_allowances[{GROUPS.name!r}] += {times}\n"
        )
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    environment = {"PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}  # as `pythonpath` in pyproject.toml
    return subprocess.run([*command, *flags, str(folder)], cwd=folder, env=environment, capture_output=True, text=True)


(GROUPS,) = (each for each in ALLOWED if each.name == "groups")


@pytest.mark.parametrize("flags", [(), ("-n", "2", "--dist", "loadfile")], ids=["one process", "two workers"])
def test_a_run_prints_how_often_an_allowance_was_met_and_fails_above_the_bound(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    half = GROUPS.at_most // 2
    within = _run(tmp_path, half, *flags)
    assert within.returncode == 0, within.stdout
    assert f"{GROUPS.at_most:5} of {GROUPS.at_most:5}  groups" in within.stdout
    above = _run(tmp_path, half + 1, *flags)
    assert above.returncode == 1, above.stdout
    said = f"an allowed difference was met too often: groups: {GROUPS.at_most + 2} times, at most {GROUPS.at_most}"
    assert said in above.stdout


def test_an_allowance_without_a_form_allows_nothing() -> None:
    assert not Allowance("x", "y", (1,), ()).allows("test_x", Difference("c", "s", ("body",), 1, 2))
