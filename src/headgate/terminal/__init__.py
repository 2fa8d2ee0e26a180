"""``headgate top``: a live view of a cluster on a terminal, from the same rows as the page (ADR 0051).

``top_screen.py`` is the state machine: keys and rows go in, lines of styled text come out. It reads no clock and no
terminal; ``io/session.py`` does, and runs it.
"""
