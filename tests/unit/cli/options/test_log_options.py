"""Log lines as text and JSON, and which setting of level and format counts."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.commands.run import command
from headgate.cli.options.log_options import JsonFormatter, TextFormatter, say, set_file_settings, set_up, set_up_from
from headgate.kube.decisions import Decision
from headgate.runtime.decision_log import log_decision

DECISION = Decision(
    verb="admitted",
    kind="Workload",
    namespace="ns",
    name="a",
    queue="lq",
    cluster_queue="cq",
    resources={"cpu": "1"},
    message="it fits",
    wait_seconds=1.23456,
)


def written(form: str, level: str = "info") -> io.StringIO:
    """Where log lines go from now on."""
    set_up(level, form)
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    stream = io.StringIO()
    handler.setStream(stream)
    return stream


def test_a_decision_as_json_has_the_keys_of_other_controllers() -> None:
    stream = written("json")
    log_decision(DECISION)
    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("ts"))
    assert re.fullmatch(r"decision_log\.py:\d+", line.pop("caller"))
    assert line == {
        "level": "info",
        "logger": "headgate.decisions",
        "msg": "admitted",
        "kind": "Workload",
        "namespace": "ns",
        "name": "a",
        "queue": "lq",
        "clusterQueue": "cq",
        "resources": {"cpu": "1"},
        "message": "it fits",
        "waitSeconds": 1.235,
    }


def test_a_decision_as_text() -> None:
    stream = written("text")
    log_decision(DECISION)
    time, line = stream.getvalue().split(" ", 1)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", time)
    assert line == (
        "INFO    admitted kind=Workload namespace=ns name=a queue=lq clusterQueue=cq "
        'resources={"cpu":"1"} message="it fits" waitSeconds=1.235\n'
    )


def test_an_error_has_its_stack_trace_in_both_formats() -> None:
    for form in ("text", "json"):
        stream = written(form)
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("headgate.test").exception("it failed")
        assert "ValueError: broken" in (
            stream.getvalue() if form == "text" else json.loads(stream.getvalue())["stacktrace"]
        )


def test_a_value_with_a_line_break_stays_on_its_line() -> None:
    stream = written("text")
    logging.getLogger("headgate.test").info("refused", extra={"fields": {"message": "a\nb", "empty": ""}})
    assert stream.getvalue().endswith('refused message="a\\nb" empty=""\n')


def test_lines_about_the_process_have_the_format_of_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("warning", "text")
    say("headgate schedules pods")
    assert capsys.readouterr().out == "headgate schedules pods\n"
    set_up("warning", "json")
    say("headgate schedules pods")
    line = json.loads(capsys.readouterr().out)
    assert (line["level"], line["msg"], line["logger"]) == ("info", "headgate schedules pods", "headgate")


def settings_now() -> tuple[int, type[logging.Formatter | None]]:
    root = logging.getLogger()
    return root.level, type(root.handlers[0].formatter)


def test_the_command_line_overrides_the_file_and_the_file_the_default() -> None:
    set_up_from({})
    assert settings_now() == (logging.WARNING, TextFormatter)
    set_up_from({"file.log_level": "info", "file.log_format": "json"})
    assert settings_now() == (logging.INFO, JsonFormatter)
    set_up_from({"file.log_level": "info", "log_level": "error"})
    assert settings_now() == (logging.ERROR, TextFormatter)


def test_a_changed_file_changes_what_the_command_line_leaves_open() -> None:
    settings = {"log_format": "json", "file.log_level": "error"}
    set_file_settings(settings, "debug", "text")
    assert settings_now() == (logging.DEBUG, JsonFormatter)
    set_file_settings(settings, None, None)
    assert settings_now() == (logging.WARNING, JsonFormatter)


@pytest.mark.parametrize(
    ("flags", "expected"), [((), logging.INFO), (("--log-level", "error"), logging.ERROR)], ids=["file", "flag"]
)
def test_the_level_of_a_run_is_that_of_its_file_or_flag(flags: tuple[str, ...], expected: int, tmp_path: Path) -> None:
    file = tmp_path / "headgate.yaml"
    file.write_text("apiVersion: headgate.dev/v1alpha1\nkind: Configuration\nlogging: {level: info, format: json}\n")
    with CliRunner().isolation():
        command.make_context("run", ["--config", str(file), *flags])
        assert settings_now() == (expected, JsonFormatter)
