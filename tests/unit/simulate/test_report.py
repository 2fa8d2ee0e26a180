"""The report: the result in words, plots without scripts, a strict policy, and escaped names."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import msgspec

from headgate.simulate.comparison import VariantResult, compare, verdict_text
from headgate.simulate.generator import GeneratorOptions, generate
from headgate.simulate.report import ReportHeader, report_html
from headgate.simulate.simulation_result import FIGURES, SimulationResult
from headgate.simulate.svg import Axis, Plot, Series, axis_for
from simulated_clusters import machines, simulated, simulation_input, volcano_queue

HOSTILE = "<script>alert(1)</script>\"'&"
VOID = ("meta", "br", "path", "rect")


class TagReader(HTMLParser):
    """All tags, attributes and texts; checks that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID or self.get_starttag_text() == "<rect>":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self._open.pop() == tag, f"{tag} is closed out of order"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def results(seeds: int = 2) -> list[VariantResult]:
    found = []
    for name, cpu in (("small", 3), (HOSTILE, 8)):
        runs: list[SimulationResult] = []
        for seed in range(seeds):
            options = GeneratorOptions(
                jobs=25, days=0.02, unit={"cpu": "1"}, max_pod_size=2, max_run=300.0, queues={"q": 1.0}
            )
            jobs = [msgspec.structs.replace(each, class_=HOSTILE) for each in generate(options, seed) if each.pods == 1]
            given = simulation_input([*machines(2), volcano_queue("q", cpu=cpu)])
            runs.append(simulated(given, jobs)[0])
        found.append(VariantResult(name, tuple(runs)))
    return found


def test_the_report_has_no_script_and_escapes_names() -> None:
    variants = results()
    header = ReportHeader(f"headgate simulate {HOSTILE}", "1.0", {HOSTILE: "00"}, (0, 1))
    text = report_html(header, variants, compare(variants))
    reader = TagReader()
    reader.feed(text)
    assert {"script", "iframe", "object", "embed", "link", "img", "form", "a"}.isdisjoint(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("style", "src", "href")]
    assert "<script" not in text
    assert "javascript:" not in text
    assert any(HOSTILE in each for each in reader.texts)
    assert text.count("<svg") == text.count("</svg>") >= 6


def test_the_policy_allows_only_the_style_of_the_page() -> None:
    variants = results(1)
    text = report_html(ReportHeader("c", "1", {}, (0,)), variants, compare(variants))
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"&#x27;sha256-{digest}&#x27;" in policy[1]
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert "unsafe" not in text


def test_the_verdict_names_differences_with_their_direction() -> None:
    variants = results(10)
    compared = compare(variants)
    waiting = compared[HOSTILE]["waiting mean"]
    assert waiting.difference is not None
    assert waiting.difference.seeds == 10
    assert waiting.difference.high < 0
    assert waiting.verdict == "better"
    assert compared[HOSTILE]["machines bought"].verdict == "no difference"
    assert set(compared["small"]) == {each.name for each in FIGURES}
    assert verdict_text(variants, compared).startswith(f"{HOSTILE} instead of small: waiting p90 ")


def test_axes_have_round_ticks() -> None:
    assert [text for _, text in Axis("", 0, 100).ticks()] == ["0", "20", "40", "60", "80", "100"]
    assert [text for _, text in Axis("", 0, 3 * 86_400, "time").ticks()] == [
        "0",
        "12 h",
        "1 d",
        "1.5 d",
        "2 d",
        "2.5 d",
        "3 d",
    ]
    assert [text for _, text in Axis("", 0.1, 1000, "log").ticks()] == ["0.1 s", "1 s", "10 s", "1 min", "10 min"]


def test_a_line_has_at_most_two_points_per_pixel() -> None:
    xs = [float(each) for each in range(10_000)]
    plot = Plot("many", axis_for("x", xs), axis_for("y", xs))
    plot.lines(xs, [Series("line", xs, 0)])
    text = plot.text()
    assert text.count("L") < 1600
    assert max(len(each.partition(".")[2]) for each in re.findall(r"\d+\.\d+", text)) == 1
