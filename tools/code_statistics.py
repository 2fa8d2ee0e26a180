"""Figures that describe the code: modules, lines, public class names, folders, and the modules that one walk crosses.

    python tools/code_statistics.py                                count modules, lines and names
    python tools/code_statistics.py --walk tests/unit/x.py::test   also run a test and count the modules whose
                                                                   functions it calls

The figures say nothing about quality by themselves; they show how a change of structure moves them.
"""

from __future__ import annotations

import argparse
import ast
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "headgate"


def public_classes() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, path


def counted() -> Iterator[tuple[str, Any]]:
    modules = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    lines = [len(path.read_text().splitlines()) for path in modules]
    names = Counter(name for name, _ in public_classes())
    folder, most = Counter(path.parent for path in modules).most_common(1)[0]
    yield "modules", len(modules)
    yield "lines", sum(lines)
    yield "lines of a module, median", sorted(lines)[len(lines) // 2]
    yield "lines of the longest module", max(lines)
    yield "public classes", names.total()
    yield "public class names that exist twice or more", sum(count > 1 for count in names.values())
    yield "packages", len(list(SOURCE.rglob("__init__.py")))
    yield "modules of the largest folder", f"{most} ({folder.relative_to(SOURCE)})"


class Walk:
    """Which modules of Headgate have a function that is called."""

    def __init__(self) -> None:
        self.crossed: set[Path] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            path = Path(frame.f_code.co_filename)
            if SOURCE in path.parents:
                self.crossed.add(path.relative_to(SOURCE))

    def run(self, test: str) -> int:
        import pytest

        class Plugin:
            @pytest.hookimpl(wrapper=True)
            def pytest_runtest_call(_self) -> Any:
                threading.setprofile(self)
                sys.setprofile(self)
                try:
                    return (yield)
                finally:
                    sys.setprofile(None)
                    threading.setprofile(None)

        return int(pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", test], plugins=[Plugin()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walk", metavar="TEST", help="run this test and count the modules that it crosses")
    parser.add_argument("--below", default="", help="of the crossed modules, name those of this package")
    options = parser.parse_args()
    for name, value in counted():
        print(f"{name:45} {value}")
    if options.walk:
        walk = Walk()
        status = walk.run(options.walk)
        packages = Counter(path.parts[0] for path in walk.crossed)
        print(f"{'modules that the test crosses':45} {len(walk.crossed)}")
        for package, count in packages.most_common():
            print(f"  {package:43} {count}")
        if options.below:
            print("\n".join(sorted(str(path) for path in walk.crossed if path.parts[0] == options.below)))
        sys.exit(status)


if __name__ == "__main__":
    main()
