"""The chart in `deploy/helm/headgate` is what `tools/render_chart.py` makes, and its values are the options."""

from __future__ import annotations

import json

import pytest
import yaml
from tools.chart_template import ChartTemplate, escaped, scalar
from tools.render_chart import CHART, render

from headgate.install.options import InstallOptions, read_values
from headgate.install.template import Either, Merged, Setting, TemplateObject, When, text, when


def test_the_committed_chart_is_a_fresh_rendering() -> None:
    committed = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    assert committed == render(), "run: python tools/render_chart.py"


def test_the_values_file_has_the_default_options() -> None:
    assert read_values(yaml.safe_load((CHART / "values.yaml").read_text())) == InstallOptions()


def test_the_schema_refuses_unknown_values() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["definitions"]["InstallOptions"]["additionalProperties"] is False


def test_a_tree_is_written_with_actions_in_place_of_its_nodes() -> None:
    chart = ChartTemplate({"on": True, "count": 2, "name": "x", "labels": {}})
    body = {
        "kind": "Example",
        "count": Setting("count"),
        "name": Setting("name"),
        "joined": text("--name=", Setting("name")),
        "maybe": When(when("on"), ["a", {"b": 1}]),
        "either": Either(when("on"), {"c": 1}, "d"),
        "labels": Merged({"own": "1"}, "labels"),
    }
    assert chart.document(TemplateObject(body, when("on"))) == (
        "{{- if .Values.on }}\n"
        "---\n"
        "kind: Example\n"
        "count: {{ .Values.count }}\n"
        "name: {{ .Values.name | quote }}\n"
        'joined: "--name={{ .Values.name }}"\n'
        "{{- if .Values.on }}\n"
        "maybe:\n"
        "  - a\n"
        "  - b: 1\n"
        "{{- end }}\n"
        "{{- if .Values.on }}\n"
        "either:\n"
        "  c: 1\n"
        "{{- else }}\n"
        "either: d\n"
        "{{- end }}\n"
        "labels:\n"
        '  {{- toYaml (merge (deepCopy .Values.labels) (dict "own" "1")) | nindent 2 }}\n'
        "{{- end }}\n"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [("plain", "plain"), ("true", '"true"'), ("1", '"1"'), ("a: b", '"a: b"'), (True, "true"), ({}, "{}"), ([], "[]")],
)
def test_text_is_quoted_where_yaml_would_read_something_else(value: object, written: str) -> None:
    assert scalar(value) == written
    assert yaml.safe_load(written) == value


def test_braces_of_other_templates_are_text_for_helm() -> None:
    assert escaped("{{ $labels.gate }}") == '{{ "{{" }} $labels.gate {{ "}}" }}'
