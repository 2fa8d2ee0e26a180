"""The vocabulary: Kubernetes' objects, names, amounts, selectors, patches, rules and errors, as pure functions.

Objects are wire dictionaries; what is wrong with them is a value (``errors.py``, ``status.py``). Everything else in
Headgate stands on this room, and it stands on nothing.
"""
