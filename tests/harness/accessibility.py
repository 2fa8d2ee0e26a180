"""What is wrong with a shown page by WCAG 2.2 AA, as far as a program can find it.

The rules are those that checkers such as axe have: names, roles and their parents, references, headings, tables,
landmarks, contrast of texts and of borders of controls, size of targets. The element with the focus must be visible,
not covered, and marked. ``accessibility.js`` runs in the browser.
"""

from __future__ import annotations

from pathlib import Path

from harness.browser import Browser

_SCRIPT = Path(__file__).with_suffix(".js").read_text()


def accessibility_problems(browser: Browser) -> list[str]:
    found: list[str] = browser.evaluate(f"(() => {{ {_SCRIPT}\nreturn accessibilityProblems(); }})()")
    return found


def focus_problems(browser: Browser) -> list[str]:
    """Of the element with the focus."""
    found: list[str] = browser.evaluate(f"(() => {{ {_SCRIPT}\nreturn focusProblems(); }})()")
    return found
