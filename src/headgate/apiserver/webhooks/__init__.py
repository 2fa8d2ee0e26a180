"""Admission webhooks: which of them a write concerns, what they are asked, what their answers do to it.

Pure, except for ``shell.py``, which makes the calls. ``apiserver/admission.py`` is the only caller.
"""
