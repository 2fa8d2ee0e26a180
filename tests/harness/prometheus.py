"""Debian's Prometheus beside what it scrapes, and promtool: `make prometheus` gets both.

A test waits for what a query has to answer, never for a time.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from harness.processes import Process, free_ports
from harness.real_server import REPOSITORY
from harness.scheduler_process import wait_for
from harness.server import Result

Object = dict[str, Any]

HOW_TO_GET_PROMETHEUS = "run `make prometheus` (needs apt-get and Go), or set HEADGATE_KUBE_BIN to a folder that has it"
MANIFESTS = "prometheus-operator-manifests"
_PATIENCE_S = 60.0


def prometheus_folder() -> Path | None:
    """What `make prometheus` has got, or None if it did not."""
    command = [sys.executable, str(REPOSITORY / "tools" / "prometheus.py"), "--print-dir"]
    folder = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    needed = (folder / "prometheus", folder / "promtool", folder / MANIFESTS)
    return folder if all(each.exists() for each in needed) else None


def promtool(folder: Path, *words: str, stdin: str = "", place: Path | None = None) -> Result:
    command = [str(folder / "promtool"), *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, cwd=place, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


class Prometheus(Process):
    """``config``: its configuration file; relative paths in it begin at ``folder``."""

    def __init__(self, programs: Path, folder: Path, config: Object) -> None:
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        command = [
            str(programs / "prometheus"),
            *(f"--config.file={file}", f"--storage.tsdb.path={folder / 'samples'}"),
            *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
        ]
        super().__init__(command, folder / "prometheus.log")
        self.wait_until(self._is_ready, _PATIENCE_S)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; an error of a query is an AssertionError with its text."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as refused:
            with refused:
                raise AssertionError(f"{path} {parameters}: {refused.read().decode()}") from None

    def values(self, query: str) -> dict[str, float]:
        """The present values of a query by their labels, without those that are not a number."""
        found = {str(each["metric"]): float(each["value"][1]) for each in self.ask("query", query=query)["result"]}
        return {labels: value for labels, value in found.items() if not math.isnan(value)}

    def until_answered(self, query: str, limit_s: float = _PATIENCE_S) -> dict[str, float]:
        """The values of the query, as soon as there is one."""
        found: dict[str, float] = wait_for(
            lambda: self.values(query), self, limit_s, state=lambda: f"no data: {query}\n{self.problems()}"
        )
        return found

    def problems(self) -> str:
        """Why targets cannot be scraped."""
        targets = self.ask("targets")["activeTargets"]
        return "\n".join(f"{each['scrapeUrl']}: {each['health']} {each['lastError']}" for each in targets)

    def rules(self) -> dict[str, Object]:
        """The state of each alert by its name."""
        return {each["name"]: each for group in self.ask("rules")["groups"] for each in group["rules"]}
