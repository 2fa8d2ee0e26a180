"""Estimates of the page: one at a time, and one that fails costs itself."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from headgate.capacity.explanation import PodExplanation
from headgate.dashboard.io.expected_starts import Compute, ExpectedStarts, Starts
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.viewers import Viewer, Viewers
from headgate.dashboard.rights import EVERYTHING
from headgate.estimates.estimator import no_basis
from headgate.http.transport import HTTPRequest, HTTPResponse, LineStream, Transport, Unreachable
from headgate.quota.explain.description import WorkloadDescription
from headgate.runtime.health.access_reviews import Verdict
from viewed_clusters import a_pod


class OnePod:
    """A transport of a server that has one pod."""

    async def request(self, request: HTTPRequest) -> HTTPResponse:
        is_pod = request.path == "/api/v1/namespaces/default/pods/p"
        return HTTPResponse(200, {}, json.dumps(a_pod("p")).encode()) if is_pod else HTTPResponse(404, {}, b"{}")

    async def stream(self, request: HTTPRequest, *, idle_s: float) -> LineStream | HTTPResponse:
        raise Unreachable("nothing is watched")

    async def close(self) -> None:
        return None


def asked(name: str, compute: Compute) -> Starts | Verdict:
    async def prepare(
        transport: Transport, pod: PodExplanation | None, workloads: tuple[WorkloadDescription, ...], now_s: float
    ) -> Compute:
        return compute

    async def run() -> Starts | Verdict:
        feed = ViewsFeed(OnePod())
        starts = ExpectedStarts(feed, Viewers(feed.transport, ""), prepare)
        return await starts.find(Viewer(None), EVERYTHING, "pods", "default", name)

    return asyncio.run(run())


def test_the_estimate_of_a_pod_is_answered() -> None:
    assert asked("p", lambda: {"": no_basis("the cluster has no nodes")}) == {"": no_basis("the cluster has no nodes")}


def test_a_replay_that_fails_is_an_answer_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    def compute() -> Starts:
        raise ValueError("secret/b is odd")

    with caplog.at_level(logging.ERROR):
        found = asked("p", compute)
    assert found == Verdict(500, "its start cannot be estimated: ValueError; the log says more")
    assert "pods default/p cannot be estimated" in caplog.text


def test_an_object_that_does_not_exist_is_not_estimated() -> None:
    def compute() -> Starts:
        raise AssertionError("nothing is computed")

    found = asked("absent", compute)
    assert isinstance(found, Verdict)
    assert found.status == 404
