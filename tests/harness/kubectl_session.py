"""kubectl sessions as data: commands in order, their results normalised and compared command by command.

Structured output (`-o yaml`, `-o json`) is compared as values, other output as text without ages, addresses and column
widths. A `Watching` command runs beside others and is stopped, by its process id, after enough lines.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.compare import Difference, Seen, differences
from harness.normalise import Normaliser
from harness.server import JSON_TYPE, Result, Server
from harness.server_pair import ServerPair

AGE = re.compile(r"(?<=\s)\d{1,3}(?:ms|s)(?=\s|$)|\(\d{1,3}s ago\)|(?<=\s)\d{1,2}m\d{0,2}s?(?=\s|$)", re.M)
ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b(?!/)")
TEMPORARY = re.compile(r"/[\w./-]*kubectl-edit-[\w.-]+|/tmp/(?:LIVE|MERGED)-\d+")
BLANKS = re.compile(r"[ \t]{2,}|\t")
DIFF_HEADER = re.compile(r"^(diff -u -N|---|\+\+\+) .*$", re.M)
# When kubectl's own time is up over HTTP/1.1, its reflector may notice the watch it closed before it notices the time:
# it says so about the real server too (with DISABLE_HTTP2=1, seven times of twelve), but not over HTTP/2.
REFLECTOR = re.compile(r"^I\d{4} .* \"Warning: watch ended with error\" .*very short watch.*\n", re.M)
# The real server's loop that repairs cluster IPs may meet a new Service between its write and its allocation. It then
# emits this Event about an address that is allocated, and does so no more in its next round.
IP_REPAIR = re.compile(
    r"^Events:\n +Type .*\n +---- .*\n(?: +Warning +ClusterIPNotAllocated .* ipallocator-repair-controller .*\n?)+",
    re.M,
)
LOG_PREFIX = re.compile(r"^([IWE])\d{4} [\d:.]+ +\d+ ", re.M)
REVISION = re.compile(r"(?<=Resource Version:)\s+\d+|(?<=resourceVersion:) \"\d+\"")
NODE_PORT = re.compile(r"\b3[0-2]\d{3}(?=/)|(?<=HealthCheck NodePort:)\s+\d+")
CREATED = re.compile(r"(?<=Created on:)\s+[-\d]+ [:\d]+ \+0000 UTC")
WATCH_LIMIT_S = 15.0


@dataclass(frozen=True)
class Command:
    """A kubectl command line; `{ns}` is the namespace of the session. `only` cuts the output to what is compared.

    `until` repeats it until its output has that word: a real server tells of new kinds a moment after it serves them.
    """

    line: str
    stdin: Any = None
    editor: str = ""
    only: Callable[[str], str] | None = None
    until: str = ""


@dataclass(frozen=True)
class Watching:
    """A command that does not end: `during` runs once the first `before` lines came; `lines` are compared."""

    line: str
    before: int
    lines: int
    during: tuple[Command, ...] = field(default_factory=tuple)


Scripted = Command | Watching


def k(
    line: str, stdin: Any = None, editor: str = "", only: Callable[[str], str] | None = None, until: str = ""
) -> Command:
    return Command(line, stdin, editor, only, until)


def agree(servers: ServerPair, name: str, namespace: str, script: Sequence[Scripted]) -> None:
    left, right = servers.on_each(lambda server: Session(server, namespace).run(script))
    found: list[Difference] = []
    answers: dict[str, tuple[Seen, Seen]] = {}
    for number, (command, one, other) in enumerate(zip(script, left, right, strict=True), 1):
        title = f"{number}. kubectl {command.line}"
        answers[title] = (one, other)
        found += differences(name, title, one, other)
    servers.judge(found, answers)


class Session:
    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._namespace = namespace
        self._normaliser = Normaliser(server.address)

    def run(self, script: Sequence[Scripted]) -> list[Seen]:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
        self._server.request("POST", "/api/v1/namespaces", JSON_TYPE, json.dumps(body).encode())
        return [self._watch(each) if isinstance(each, Watching) else self._once(each) for each in script]

    def _arguments(self, line: str) -> list[str]:
        return ["-n", self._namespace, *shlex.split(line.replace("{ns}", self._namespace))]

    def _run(self, command: Command) -> Result:
        stdin = command.stdin
        if isinstance(stdin, list):
            stdin = "\n---\n".join(json.dumps(each) for each in stdin)
        elif isinstance(stdin, dict):
            stdin = json.dumps(stdin)
        environment = {"KUBE_EDITOR": command.editor} if command.editor else {}
        text = stdin.replace("{ns}", self._namespace) if stdin is not None else None
        return self._server.kubectl(self._arguments(command.line), text, environment)

    def _once(self, command: Command) -> Seen:
        result = self._run(command)
        ends_s = time.monotonic() + WATCH_LIMIT_S
        while command.until not in result.stdout and time.monotonic() < ends_s:
            time.sleep(0.2)
            result = self._run(command)
        output = command.only(result.stdout) if command.only else result.stdout
        return Seen(result.exit, {}, {"stdout": self._read(command.line, output), "stderr": self._text(result.stderr)})

    def _watch(self, watching: Watching) -> Seen:
        command = [*self._server.kubectl_command(), *self._arguments(watching.line)]
        environment = self._server.kubectl_environment()
        lines: list[str] = []
        arrived = threading.Condition()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as child:

            def collect() -> None:
                assert child.stdout is not None
                for line in child.stdout:
                    with arrived:
                        lines.append(line)
                        arrived.notify_all()

            reader = threading.Thread(target=collect)
            reader.start()
            with arrived:
                arrived.wait_for(lambda: len(lines) >= watching.before, WATCH_LIMIT_S)
            for each in watching.during:
                self._run(each)
            with arrived:
                arrived.wait_for(lambda: len(lines) >= watching.lines, WATCH_LIMIT_S)
            child.terminate()
            reader.join()
        kept = [self._text(line) for line in lines[: watching.lines]]
        return Seen(0, {}, {"stdout": kept, "stderr": ""})

    def _read(self, line: str, output: str) -> Any:
        try:
            if output[:1] == "{" or re.search(r"-o[ =]?json\b|--output[ =]json\b", line):
                return self._normaliser.value(json.loads(output))
            if re.search(r"-o[ =]?yaml\b|--output[ =]yaml\b", line):
                return self._normaliser.value(list(yaml.safe_load_all(output)))
        except (ValueError, yaml.YAMLError):
            pass
        return self._text(output)

    def _text(self, text: str) -> str:
        text = TEMPORARY.sub("<file>", DIFF_HEADER.sub("<file header>", text))
        text = IP_REPAIR.sub("Events:  <none>\n", CREATED.sub(" <date>", text))
        text = NODE_PORT.sub("<port>", REVISION.sub(" <revision>", LOG_PREFIX.sub(r"\1 ", REFLECTOR.sub("", text))))
        text = self._normaliser.text(text)
        return BLANKS.sub("  ", ADDRESS.sub("<ip>", AGE.sub("<age>", text)))
