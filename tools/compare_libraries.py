"""Compares code that is written by hand with libraries that could replace it: results, speed and size.

The figures of docs/adr/0026 and docs/adr/0028 are from this script. It needs Go, and the libraries beside Headgate:

    python3 -m venv /tmp/libraries
    /tmp/libraries/bin/pip install -e . google-re2 croniter python-jsonpath jsonpath-ng jsonpatch PyJWT
    PYTHONPATH=tests /tmp/libraries/bin/python tools/compare_libraries.py
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from cryptography.hazmat.primitives.asymmetric import ec

from headgate.apimachinery.jsonpath import JsonPath, parse_path
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.apimachinery.structural.patterns import Pattern, compile_pattern
from headgate.apiserver.authn.jwt import SigningKey, unverified
from headgate.kube.cron import next_after
from headgate.kube.timestamps import parse_time
from unit.apimachinery.patch.test_json_patch import DOCUMENT
from unit.kube.test_cron import EXPECTED_TIMES, schedule, zone

PATTERNS: Final = 20_000
SEEDS: Final = (1, 2, 3, 4)
_GO: Final = """package main
import ("bufio"; "encoding/json"; "os"; "regexp")
func main() {
    in := json.NewDecoder(bufio.NewReader(os.Stdin))
    buffer := bufio.NewWriter(os.Stdout)
    defer buffer.Flush()
    out := json.NewEncoder(buffer)
    for {
        var given struct { P string; T []string }
        if in.Decode(&given) != nil { return }
        var found struct { E string; M []bool }
        compiled, err := regexp.Compile(given.P)
        if err != nil { found.E = err.Error() } else {
            for _, text := range given.T { found.M = append(found.M, compiled.MatchString(text)) }
        }
        out.Encode(found)
    }
}
"""
_ATOMS: Final = r"""
a b c x é ß K k S s . ^ $ [a-c] [^a-c] [[:alpha:]] [[:^digit:]] [[:none:]] [z-a] []a] [a [a- [^ { } {2} ] - && #
\d \w \s \D \W \S \b \B \A \z \pL \p{Lu} \P{Greek} \p{^Lu} \p{None} [\d-x] [\pL] \x41 \x{41} \x{110000} \x4 \07 \1 \8
\C \Qa.b\E \Q* \n \t \y \- \_ \é \ [\] [\x{D800}-\x{DFFF}] \u0041 \Z \G \h
"""
_REPEATS: Final = "* + ? *? +? ?? {2} {1,3} {0,2}? {2,} {,2} {1001} {3,1} ** +* {2}{3} {02}"
_OPENS: Final = "( (?: (?i) (?i: (?s: (?m) (?U: (?-s) (?im-s: (?P<n> (?<n> (?P<> (?= (?<! (?- (? (?P<n (?#"
_TEXTS: Final = [
    *("", "a", "b", "ab", "abc", "aab", "x", "é", "É", "ß", "K", "k", "\u212a", "\u017f", "S", "s", "1", "٣", "a\nb"),
    *("\n", "a.b", "A", "_", "-", "λ", "{2}", "aaaa", " ", "\\", "&&", "#"),
]
_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_OBJECT: Final[dict[str, Any]] = {
    "metadata": {"name": "n", "labels": {"app.kubernetes.io/name": "x"}},
    "spec": {"replicas": 3, "a": {"b": 1, "c": 2}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
    "items": [{"n": 1, "t": "1"}, {"n": 2, "t": "2"}, {"n": 3}],
}
_PATHS: Final = (
    ".spec.replicas",
    '.status.conditions[?(@.type=="Ready")].status',
    ".status.conditions[?(@.type == 'Ready')].status",
    r".metadata.labels.app\.kubernetes\.io/name",
    ".metadata.labels['app.kubernetes.io/name']",
    ".spec.a['b','c']",
    ".spec.missing.deeper",
    ".items[-1].n",
    ".items[0:2].n",
    ".items[5].n",
    ".items[*].n",
    ".items[?(@.n>1)].n",
    ".items[?(@.t)].n",
    ".items[?(@.t==1)].n",
    "..n",
    ".spec['replicas']",
    ".items.n",
)


def microseconds(call: Callable[[], Any], times: int = 2_000) -> str:
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, time.perf_counter() - began)
    return f"{best / times * 1e6:.2f} us"


def attempt(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"


# -- regular expressions -----------------------------------------------------------------------------------------------


def a_pattern(draw: random.Random) -> str:
    atoms, repeats, opens = _ATOMS.split(), _REPEATS.split(), _OPENS.split()
    pieces, depth = [], 0
    for _ in range(draw.randint(1, 7)):
        kind = draw.random()
        if kind < 0.16:
            pieces.append(draw.choice(opens))
            depth += not pieces[-1].endswith(")")
        elif kind < 0.24 and depth:
            pieces.append(")")
            depth -= 1
        elif kind < 0.34:
            pieces.append("|")
        else:
            pieces.append(draw.choice(atoms) + (draw.choice(repeats) if draw.random() < 0.35 else ""))
    return "".join(pieces) + (")" * depth if draw.random() < 0.93 else "")


def go_results(patterns: list[str]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "main.go"
        source.write_text(_GO)
        given = "".join(json.dumps({"P": pattern, "T": _TEXTS}) + "\n" for pattern in patterns)
        ran = subprocess.run(["go", "run", source], input=given, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def compare_patterns() -> None:
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    for seed in SEEDS:
        draw = random.Random(seed)
        patterns = [a_pattern(draw) for _ in range(PATTERNS)]
        for pattern, expected in zip(patterns, go_results(patterns), strict=True):
            ours[_against_go(_with_headgate(pattern), expected)] += 1
            theirs[_against_go(_with_re2(re2, options, pattern), expected)] += 1
    print("patterns: headgate", dict(ours))
    print("patterns: google-re2", dict(theirs))
    compiled, engine = compile_pattern(_SUBDOMAIN), re2.compile(_SUBDOMAIN, options)
    assert isinstance(compiled, Pattern)
    text = "kueue.x-k8s.io"
    in_bytes = re2.compile(_SUBDOMAIN.encode(), options)
    print("match: headgate", microseconds(lambda: compiled.matches(text)))
    print("match: google-re2, str", microseconds(lambda: engine.search(text)))
    print("match: google-re2, bytes", microseconds(lambda: in_bytes.search(text.encode())))
    print("compile: headgate", microseconds(lambda: compile_pattern.__wrapped__(_SUBDOMAIN), 200))
    print("compile: google-re2", microseconds(lambda: re2._Regexp(_SUBDOMAIN, options), 200))


def _with_headgate(pattern: str) -> tuple[str, list[bool]]:
    compiled = compile_pattern(pattern)
    return (compiled, []) if isinstance(compiled, str) else ("", [compiled.matches(text) for text in _TEXTS])


def _with_re2(re2: Any, options: Any, pattern: str) -> tuple[str, list[bool]]:
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        return error.args[0].decode(), []
    return "", [compiled.search(text) is not None for text in _TEXTS]


def _against_go(found: tuple[str, list[bool]], expected: Any) -> str:
    if bool(found[0]) != bool(expected["E"]):
        return "refuses what Go accepts" if found[0] else "accepts what Go refuses"
    if not found[0]:
        return "same matches" if found[1] == expected["M"] else "other matches"
    if found[0] == expected["E"]:
        return "same error"
    named = (
        f"`{found[0].partition(': ')[2]}`" == expected["E"].removeprefix("error parsing regexp: ").partition(": ")[2]
    )
    return "error in other words about the same part" if named else "error about another part"


# -- cron, JSONPath, JSON Patch, JWT -----------------------------------------------------------------------------------


def compare_cron() -> None:
    croniter = import_module("croniter").croniter

    def found(text: str, began: datetime) -> str:
        following: datetime = croniter(text, began).get_next(datetime)
        return following.astimezone(ZoneInfo("UTC")).strftime("%Y-%m-%dT%H:%M:%SZ")

    for where, text, after, expected in EXPECTED_TIMES:
        theirs = attempt(found, text, datetime.fromisoformat(after).astimezone(ZoneInfo(where)))
        if theirs != expected:
            print(f"cron: {where}: {text!r} after {after}: {expected}, croniter: {theirs}")
    rule, berlin, after_s = schedule("30 2 * * *"), zone("Europe/Berlin"), parse_time("2024-10-26T23:00:00Z")
    assert isinstance(after_s, int)
    began = datetime.fromisoformat("2024-10-26T23:00:00Z").astimezone(ZoneInfo("Europe/Berlin"))
    print("cron: headgate", microseconds(lambda: next_after(rule, after_s, berlin), 200))
    print("cron: croniter", microseconds(lambda: croniter("30 2 * * *", began).get_next(datetime), 200))


def compare_jsonpath() -> None:
    parse_ng, jsonpath = import_module("jsonpath_ng.ext").parse, import_module("jsonpath")

    def with_headgate(text: str) -> tuple[Any, ...]:
        path = parse_path(text)
        if isinstance(path, str):
            raise ValueError(path)
        return path.first(_OBJECT)

    def with_ng(text: str) -> tuple[Any, ...]:
        return tuple(each.value for each in parse_ng(f"${text}").find(_OBJECT))[:1]

    def with_python(text: str) -> tuple[Any, ...]:
        return tuple(jsonpath.findall(f"${text}", _OBJECT))[:1]

    for text in _PATHS:
        ours, *theirs = (attempt(each, text) for each in (with_headgate, with_ng, with_python))
        if any(each != ours for each in theirs):
            print(f"jsonpath: {text}: {ours}, jsonpath-ng: {theirs[0]}, python-jsonpath: {theirs[1]}")
    text = '.status.conditions[?(@.type=="Ready")].status'
    path, ng, python = parse_path(text), parse_ng(f"${text}"), jsonpath.compile(f"${text}")
    assert isinstance(path, JsonPath)
    print("jsonpath: headgate", microseconds(lambda: path.first(_OBJECT)))
    print("jsonpath: jsonpath-ng", microseconds(lambda: ng.find(_OBJECT), 200))
    print("jsonpath: python-jsonpath", microseconds(lambda: python.findall(_OBJECT), 200))
    tree: Any = 1
    for _ in range(9):
        tree = {"a": tree, "b": json.loads(json.dumps(tree))}
    descents, text = parse_path("..a" * 3), "$" + "..a" * 3
    assert isinstance(descents, JsonPath)
    print("jsonpath, ..a..a..a: headgate", microseconds(lambda: descents.first(tree), 1))
    print("jsonpath, ..a..a..a: jsonpath-ng", microseconds(lambda: parse_ng(text).find(tree), 1))
    print("jsonpath, ..a..a..a: python-jsonpath", microseconds(lambda: jsonpath.findall(text, tree), 1))


def compare_json_patch() -> None:
    jsonpatch = import_module("jsonpatch")
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": "/n"},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/a/b/-1", "value": 9},
        {"op": "remove", "path": "/a/b/-1"},
        {"op": "add", "path": "junk/new", "value": 1},
        {"op": "replace", "path": "/a/new", "value": 1},
        {"op": "replace", "path": "", "value": "text"},
        {"op": "copy", "from": "/nowhere", "path": "/b"},
        {"op": "test", "path": "/missing", "value": None},
        {"op": "test", "path": "/missing"},
        {"op": "replace", "path": "/a/b/-", "value": 1},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "replace", "path": "/x~1y/~0", "value": 2},
        {"op": "move", "from": "/a/b", "path": "/b"},
    ]
    for operation in operations:
        patched = apply_json_patch(DOCUMENT, [operation])
        ours = patched.value if isinstance(patched, PatchResult) else "refused"
        theirs = attempt(jsonpatch.apply_patch, DOCUMENT, [operation])
        if ours != theirs and not (ours == "refused" and isinstance(theirs, str)):
            print(f"json patch: {operation}: {ours}, jsonpatch: {theirs}")
    pod = {"metadata": {"uid": "u"}, "spec": {"containers": [{"env": [{"name": str(i)} for i in range(200)]}]}}
    steps = [{"op": "test", "path": "/metadata/uid", "value": "u"}, {"op": "add", "path": "/spec/x", "value": 1}]
    print("json patch: headgate", microseconds(lambda: apply_json_patch(pod, steps)))
    print("json patch: jsonpatch", microseconds(lambda: jsonpatch.apply_patch(pod, steps), 200))


def compare_jwt() -> None:
    jwt = import_module("jwt")
    private = ec.derive_private_key(7, ec.SECP256R1())
    public, key, claims = private.public_key(), SigningKey(private), {"sub": "a", "aud": ["x"], "exp": 4_000_000_000}
    is_same = jwt.encode(claims, private, "ES256") == jwt.encode(claims, private, "ES256")
    print("jwt: same token twice: headgate", key.sign(claims) == key.sign(claims), "PyJWT", is_same)
    token = key.sign(claims)
    for name, forged in (("padding", f"{token}=="), ("unused bits that are set", token[:-1] + chr(ord(token[-1]) + 1))):
        found = attempt(partial(jwt.decode, audience="x"), forged, public, ["ES256"])
        print(f"jwt: token with {name}: headgate {key.has_signed(forged)}, PyJWT {found!r}")
    print("jwt: headgate", microseconds(lambda: key.has_signed(token) and unverified(token), 200))
    print("jwt: PyJWT", microseconds(lambda: jwt.decode(token, public, ["ES256"], audience="x"), 200))


def main() -> None:
    steps = {
        "patterns": compare_patterns,
        "cron": compare_cron,
        "jsonpath": compare_jsonpath,
        "json-patch": compare_json_patch,
        "jwt": compare_jwt,
    }
    for name in sys.argv[1:] or steps:
        steps[name]()


if __name__ == "__main__":
    main()
