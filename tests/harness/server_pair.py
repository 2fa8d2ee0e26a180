"""Runs a case on two servers at the same time and reports the differences.

Each server has its own thread, its own normaliser and the same names, so only the responses can differ. Objects that a
case created outside its namespace are deleted at the end. `real/allowed_differences.py` says which differences are
allowed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.allowances import Allowance, current_suite
from harness.case_runner import Run
from harness.compare import Difference, Seen, differences
from harness.request_cases import AnyStep, Case, Events, Step, slug
from harness.server import Server


class ServerPair:
    """The two servers of a comparison; the first is always a real one."""

    def __init__(
        self, real: Server, ours: Server, allowances: Sequence[Allowance], report: Path | None, met: Counter[str]
    ) -> None:
        """``met`` counts how often each allowance was met, for all pairs of a run together."""
        self.real, self.ours = real, ours
        self._allowances = allowances
        self._report = report
        self._met = met
        self._threads = ThreadPoolExecutor(2)

    def compare(self, case: Case, attempts: int = 1, prepare: Callable[[Server, str], None] = lambda *_: None) -> None:
        """``attempts``: how often a case runs, each time in a new namespace, while the real server does not reach a
        state that the case waits for. Then the real server lost a race with itself, and there is nothing to compare."""
        unmet, left, right = self._run_on_each(case, namespace_of(case.name), prepare)
        for attempt in range(2, attempts + 1):
            if unmet:
                unmet, left, right = self._run_on_each(case, namespace_of(f"{case.name} {attempt}"), prepare)
        found: list[Difference] = []
        answers: dict[str, tuple[Seen, Seen]] = {}
        for number, (step, one, other) in enumerate(zip(case.steps, left, right, strict=True), 1):
            title = f"{number}. {_title(step)}"
            answers[title] = (one, other)
            found += differences(case.name, title, one, other)
        self.judge(found, answers)

    def _run_on_each(
        self, case: Case, namespace: str, prepare: Callable[[Server, str], None]
    ) -> tuple[bool, list[Seen], list[Seen]]:
        """Whether the real server left something undone, and what both answered."""

        def run_case(server: Server) -> tuple[bool, list[Seen]]:
            prepare(server, namespace)
            run = Run(server, namespace)
            answers = run.run(case)
            return bool(run.unmet), answers

        first, second = self.on_each(run_case)
        return first[0], first[1], second[1]

    def on_each(self, work: Callable[[Server], Any]) -> tuple[Any, Any]:
        """Runs the same work on both servers at the same time."""
        first, second = self._threads.submit(work, self.real), self._threads.submit(work, self.ours)
        return first.result(), second.result()

    def judge(self, found: Sequence[Difference], answers: Mapping[str, tuple[Seen, Seen]] | None = None) -> None:
        """Fails with every difference that is not allowed; `HEADGATE_DIFFERENCES` names a file to collect them in."""
        remaining = [difference for difference in found if not self._allowed(difference)]
        if remaining and self._report:
            with self._report.open("a") as output:
                for step, group in groupby(remaining, key=lambda each: each.step):
                    record = _record(step, list(group), (answers or {}).get(step))
                    output.write(json.dumps(record, default=repr) + "\n")
        if remaining:
            raise AssertionError(self._describe(remaining))

    def _allowed(self, difference: Difference) -> bool:
        for allowance in self._allowances:
            if allowance.allows(current_suite(), difference):
                self._met[allowance.name] += 1
                return True
        return False

    def _describe(self, found: Sequence[Difference]) -> str:
        lines = [f"{self.real.name} and {self.ours.name} differ in {len(found)} places: {found[0].case}"]
        step = ""
        for each in found:
            if each.step != step:
                step = each.step
                lines.append(f"  step {step}")
            lines.append(str(each).replace("{0}", self.real.name, 1).replace("{1}", self.ours.name, 1))
        return "\n".join(lines)

    def close(self) -> None:
        self._threads.shutdown()
        self.real.disconnect()
        self.ours.disconnect()


def namespace_of(name: str) -> str:
    """A readable namespace that no other case has."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{slug(name)[:40].strip('-')}-{digest}"


def report_path() -> Path | None:
    given = os.environ.get("HEADGATE_DIFFERENCES")
    return Path(given) if given else None


def _title(step: AnyStep) -> str:
    if isinstance(step, Step):
        body = "" if step.body is None else f" {str(step.body)[:300]}"
        kind = step.headers.get("Content-Type", "")
        return f"{step.method} {step.path}{f' ({kind})' if kind else ''}{body}"
    if isinstance(step, Events):
        return f"{step.count} events of watch {step.name}"
    return f"WATCH {step.path}"


def _record(step: str, found: Sequence[Difference], answers: tuple[Seen, Seen] | None) -> dict[str, Any]:
    record: dict[str, Any] = {"case": found[0].case, "step": step}
    if answers:
        record["real"], record["ours"] = (asdict(answer) for answer in answers)
    record["differences"] = [{"path": each.where, "real": each.real, "ours": each.ours} for each in found]
    return record
