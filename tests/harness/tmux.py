"""A terminal that a test looks at: tmux with a shell, keys that are typed, and the screen as text.

`HEADGATE_TMUX` names another program. Each terminal is a tmux server of its own, whose socket is in a short folder,
because the path of a socket has at most 107 bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.orphans import marked

HOW_TO_GET_TMUX = "run `make tmux`, or name it in HEADGATE_TMUX"
PATIENCE_S = 60.0
RETRY_S = 0.05
PROMPT = "prompt>"


def tmux_program() -> Path | None:
    """None if there is none."""
    found = os.environ.get("HEADGATE_TMUX", "") or shutil.which("tmux")
    return Path(found) if found else None


class TmuxTerminal:
    """One window with bash. `environment`: added to that of this process."""

    def __init__(
        self, program: Path, environment: Mapping[str, str] | None = None, columns: int = 100, rows: int = 30
    ) -> None:
        self._program = program
        self._folder = Path(tempfile.mkdtemp(prefix="hgt"))
        self._environment = {**os.environ, **(environment or {})}
        self._environment.pop("TMUX", None)
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "test",
            *size,
            f"env PS1='{PROMPT} ' bash --norc --noprofile -i",
        )
        self.wait_for(PROMPT)

    def _tmux(self, *arguments: str) -> str:
        command = [str(self._program), "-u", "-S", str(self._folder / "socket"), *arguments]
        done = subprocess.run(command, env=marked(self._environment), capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, text: str) -> None:
        """The characters of a text."""
        self._tmux("send-keys", "-t", "test", "-l", text)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `Escape`, `Down`, `C-c`."""
        self._tmux("send-keys", "-t", "test", *keys)

    def run(self, command: str) -> None:
        self.type(command)
        self.press("Enter")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "test")

    def styled_screen(self) -> str:
        """With the control sequences of its styles."""
        return self._tmux("capture-pane", "-p", "-e", "-t", "test")

    def fact(self, name: str) -> str:
        """A format of tmux, such as `pane_title` or `alternate_on`."""
        return self._tmux("display-message", "-p", "-t", "test", f"#{{{name}}}").strip()

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "test", "-x", str(columns), "-y", str(rows))

    def wait_for(self, *texts: str, without: str = "", timeout_s: float = PATIENCE_S) -> str:
        """The screen, when it has all texts, and not the other one."""
        return self.wait_until(
            lambda screen: all(each in screen for each in texts) and not (without and without in screen), timeout_s
        )

    def wait_until(self, is_wanted: Callable[[str], bool], timeout_s: float = PATIENCE_S) -> str:
        deadline_s = time.monotonic() + timeout_s
        while not is_wanted(screen := self.screen()):
            assert time.monotonic() < deadline_s, f"the screen did not come; it is:\n{screen}"
            time.sleep(RETRY_S)
        return screen

    def close(self) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._folder, ignore_errors=True)
