"""The shells around engines: they watch, wait, make the requests that an engine asks for, and feed answers back.

``shell.py`` serves every controller of ``owners/`` at once: one watch per resource, one queue of keys (``queue.py``), a
few workers, one recorder of Events (``recorder.py``). Nothing here decides what is done.
"""
