"""Traces: JSON lines, the Standard Workload Format, and generated ones."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest

from headgate.simulate.generator import PROFILES, GeneratorOptions, generate
from headgate.simulate.swf import SWFOptions, read_swf, size_class
from headgate.simulate.trace import TraceError, TraceJob, read_trace, shaken, trace_lines

FIRST_SUBMIT, FIRST_RUN = 56.479, 81.116
LINE = (
    b'{"submit": 1.5, "run": 10, "queue": "q", "requests": {"cpu": "500m"}, '
    b'"class": "small", "minPods": 2, "pods": 3}\n'
)


def test_a_line_is_a_job() -> None:
    (job,) = read_trace([b"# a comment\n", b"\n", LINE])
    assert (job.submit, job.pods, job.min_pods, job.class_, job.name) == (1.5, 3, 2, "small", "job-3")


def test_what_is_written_is_read_again() -> None:
    jobs = list(generate(GeneratorOptions(jobs=50), 1))
    assert list(read_trace(trace_lines(jobs))) == jobs


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"{", "line 1"),
        (b'{"run": 1}', "submit"),
        (LINE.replace(b'"run"', b'"runs"'), "runs"),
        (LINE.replace(b'"submit": 1.5', b'"submit": 1e999'), "submit"),
        (LINE.replace(b'"pods": 3', b'"pods": 1'), "minPods 2 is larger than pods 1"),
        (LINE.replace(b"500m", b"a lot"), "requests.cpu"),
        (LINE.replace(b"500m", b"-1"), "requests.cpu: -1 is negative"),
        (LINE.replace(b'"run": 10', b'"run": 1e18'), "at most 3153600000 (100 years)"),
        (LINE.replace(b'"submit": 1.5', b'"submit": 1e18'), "at most 3153600000 (100 years)"),
        (LINE.replace(b'"submit": 1.5', b'"submit": -1e18'), "at most 3153600000 (100 years)"),
        (LINE.replace(b'"pods": 3', b'"pods": 3, "priority": 99999999999'), "$.priority"),
        (LINE.replace(b'"pods": 3', b'"pods": 3, "affinity": ' + b'{"a":' * 3000 + b"1" + b"}" * 3000), "nested"),
        (LINE.replace(b'"q"', b'"' + b"q" * (1 << 20) + b'"'), "more than 1 MiB"),
        (LINE.replace(b'"q"', b'"\xff"'), "line 1"),
        (LINE.replace(b'{"cpu": "500m"}', b"{}"), "requests is empty"),
        (LINE.replace(b'"class": "small"', b'"name": "Not A Name"'), "not a valid Kubernetes name"),
    ],
)
def test_a_wrong_line_is_named(line: bytes, text: str) -> None:
    with pytest.raises(TraceError, match="line 1") as raised:
        list(read_trace([line]))
    assert text in str(raised.value)


def test_a_name_is_used_once_in_a_namespace() -> None:
    first, second = (LINE.replace(b'"run"', b'"name": "a", "namespace": "%s", "run"' % each) for each in (b"x", b"y"))
    assert len(list(read_trace([first, second]))) == 2
    with pytest.raises(TraceError, match="line 3: the name 'a' is used in line 1, too"):
        list(read_trace([first, second, first]))


def test_lines_must_be_in_the_order_of_submission() -> None:
    with pytest.raises(TraceError, match="line 2: submit 1 is before"):
        list(read_trace([LINE, LINE.replace(b"1.5", b"1")]))


def test_a_shaken_trace_has_the_same_jobs_in_the_order_of_submission() -> None:
    jobs = list(generate(GeneratorOptions(jobs=200, days=0.2), 1))
    found = list(shaken(jobs, 5))
    assert {job.name for job in found} == {job.name for job in jobs}
    assert all(before.submit <= after.submit for before, after in pairwise(found))
    by_name = {job.name: job for job in jobs}
    assert all(0 <= job.submit - by_name[job.name].submit <= 30.001 for job in found)
    assert all(abs(job.run / by_name[job.name].run - 1) <= 0.051 for job in found)
    assert list(shaken(jobs, 5)) == found
    assert list(shaken(jobs, 6)) != found


SWF = b"""; Version: 2.2
; MaxNodes: 128
  1  100  5  3600  4 -1 -1  4  7200 -1 1 17 1 -1 2 -1 -1 -1
  2  160  0     0  0 -1 -1 -1   -1 -1 5 17 1 -1 2 -1 -1 -1
  3  200  9  60.5 -1 -1 -1 33  100 -1 0 -1 1 -1 1 -1 -1 -1
"""


def test_jobs_of_the_standard_workload_format() -> None:
    left_out: list[str] = []
    options = SWFOptions("rest", {"2": "batch"}, {"cpu": "1", "memory": "2Gi"}, processors_per_pod=8)
    first, second = read_swf(SWF.splitlines(), options, left_out.append)
    assert (first.name, first.submit, first.run, first.queue, first.pods, first.user) == (
        *("swf-1", 0.0, 3600.0),
        *("batch", 1, "user-17"),
    )
    assert first.requests == {"cpu": "4", "memory": str(8 << 30)}
    assert (second.queue, second.pods, second.min_pods, second.submit) == ("rest", 5, 5, 100.0)
    assert (second.requests["cpu"], second.class_, second.user) == ("8", "size 33-64", "")
    assert left_out == ["line 4: job 2 has no processors, run time or submission"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [(b"1 2 3", "line 1: 3 fields"), (b" ".join([b"1"] * 17 + [b"x"]), "line 1: could not convert")],
)
def test_a_wrong_line_of_the_standard_workload_format_is_named(text: bytes, problem: str) -> None:
    with pytest.raises(TraceError, match=problem):
        list(read_swf([text]))


def test_a_job_of_the_standard_workload_format_that_is_in_two_lines_is_simulated_once() -> None:
    line = b"1234567 0 -1 10 2 -1 -1 2 -1 -1 1 -1 -1 -1 1 -1 -1 -1\n"
    left_out: list[str] = []
    (job,) = read_swf([line, line], SWFOptions(), left_out.append)
    assert (job.name, left_out) == ("swf-1234567", ["line 2: job 1234567 is in an earlier line, too"])


@pytest.mark.parametrize("text", [b"nan", b"inf", b"1e400"])
def test_numbers_of_the_standard_workload_format_are_finite(text: bytes) -> None:
    with pytest.raises(TraceError, match="line 1: the fields must be finite numbers"):
        list(read_swf([b"1 0 -1 10 " + text + b" -1 -1 2 -1 -1 1 -1 -1 -1 1 -1 -1 -1\n"]))


def test_size_classes_are_powers_of_two() -> None:
    assert [size_class(size) for size in (0, 1, 2, 3, 4, 5, 64)] == [
        *("size 1", "size 1", "size 2", "size 3-4", "size 3-4", "size 5-8", "size 33-64")
    ]


@pytest.mark.parametrize(("profile", "median_s", "mean_gpus"), [("helios", 206, 3.67), ("philly", 874, 1.90)])
def test_generated_jobs_have_the_published_medians(profile: str, median_s: float, mean_gpus: float) -> None:
    jobs = list(generate(GeneratorOptions(profile=profile, jobs=20_000, max_run=1e9), 1))
    runs = [job.run for job in jobs]
    assert statistics.median(runs) == pytest.approx(median_s, rel=0.08)
    spread = statistics.stdev(math.log(run) for run in runs if run > 1)
    assert spread == pytest.approx(PROFILES[profile].sigma, rel=0.08)
    gpus = [job.pods * int(job.requests["nvidia.com/gpu"]) for job in jobs]
    assert statistics.median(gpus) == 1
    assert statistics.mean(gpus) == pytest.approx(mean_gpus, rel=0.06)


def test_generated_jobs_arrive_at_the_wanted_rate_with_a_daily_cycle() -> None:
    jobs = list(generate(GeneratorOptions(jobs=20_000, days=28, queues={"a": 3.0, "b": 1.0}), 2))
    assert jobs[-1].submit / 86_400 == pytest.approx(28, rel=0.15)
    by_hour = [0] * 24
    for job in jobs:
        by_hour[int(job.submit % 86_400 // 3600)] += 1
    assert 1.6 < max(by_hour) / min(by_hour) < 4.0
    weekend = sum(job.submit // 86_400 % 7 >= 5 for job in jobs)
    assert weekend / 2 < 0.85 * (len(jobs) - weekend) / 5
    assert sum(job.queue == "a" for job in jobs) / len(jobs) == pytest.approx(0.75, abs=0.05)


def test_a_job_without_gpus_has_no_extended_resources() -> None:
    jobs = list(generate(GeneratorOptions(profile="openb", jobs=2000), 1))
    plain = [job for job in jobs if "nvidia.com/gpu" not in job.requests]
    assert len(plain) / len(jobs) == pytest.approx(0.133, abs=0.03)
    assert plain[0].requests == {"cpu": "4", "memory": "16Gi"}


def test_the_same_seed_gives_the_same_jobs() -> None:
    options = GeneratorOptions(jobs=100)
    assert list(generate(options, 7)) == list(generate(options, 7))
    assert list(generate(options, 7)) != list(generate(options, 8))
    # Fixed values: the numbers do not depend on the version of Python.
    first: TraceJob = next(iter(generate(options, 7)))
    assert (first.submit, first.run) == (FIRST_SUBMIT, FIRST_RUN)
