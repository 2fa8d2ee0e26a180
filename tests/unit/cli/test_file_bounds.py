"""Files that commands read: deep, large or malformed ones are errors that name the file, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.snapshot_files import parse_documents, read_documents

RECORDING = Path(__file__).resolve().parents[3] / "examples" / "bill" / "morning.hgr"
DEEP = {
    "map.json": '{"a":' * 3000 + "1" + "}" * 3000,
    "list.json": "[" * 3000 + "]" * 3000,
    "flow.yaml": "{a: " * 2000 + "1" + "}" * 2000,
    "open.yaml": "[" * 100_000,
    "block.yaml": "\n".join(f"{' ' * level}a:" for level in range(400)),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in DEEP.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "jobs.jsonl").write_text("")
    return tmp_path


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["simulate", "--trace", "jobs.jsonl", "--snapshot"], 1),
        (["simulate", "--recording", str(RECORDING), "--variants"], 1),
        (["audit", str(RECORDING), "--prices"], 2),
        (["config", "check"], 1),
        (["queues", "--kubeconfig"], 1),
        (["run", "--config"], 1),
        (["explain", "--job-kinds"], 2),
        (["install", "--values"], 2),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("folder")
def test_a_deep_file_is_an_error_that_names_it(words: list[str], code: int, name: str) -> None:
    result = CliRunner().invoke(main, [*words, name])
    assert (result.exit_code, type(result.exception)) == (code, SystemExit), result.output
    assert name in result.output
    assert any(text in result.output for text in ("max depth", "levels deep")), result.output


def test_aliases_cannot_grow_without_bound() -> None:
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    lines = [
        "a: &a [x, x, x, x, x, x, x, x, x]",
        *(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in pairs),
    ]
    assert parse_documents("\n".join(lines).encode(), "f.yaml") == (
        "f.yaml: line 5: document contains excessive aliasing"
    )


def test_an_endless_file_is_not_read_whole(tmp_path: Path) -> None:
    assert read_input(Path("/dev/zero"), 1 << 20) == "/dev/zero: it has more than 1 MiB"
    assert read_input(tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"


def test_documents_are_read_as_the_api_server_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: 2024-01-01\nb: yes\n---\n- 010\n---\n")
    assert read_documents(file) == [{"a": "2024-01-01", "b": True}, [8], None]
    file.write_text("a: 1\n---\na: 1\nb: .nan\n")
    assert read_documents(file) == f"{file}: line 4: json: unsupported value: NaN"
    file.write_text("a: 1\na: 2\n")
    assert read_documents(file) == f'{file}: line 2: key "a" already set in map'
    file.write_bytes(b"a: \xff\n")
    assert str(file) in str(read_documents(file))
    (tmp_path / "f.json").write_bytes(b'{"a": "\xff"}')
    assert "f.json" in str(read_documents(tmp_path / "f.json"))
