"""Events go when nobody has written them for a while: a decision (``events.py``) and its hands (``shell.py``)."""
