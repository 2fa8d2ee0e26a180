"""The rules of CustomResourceDefinitions, as kube-apiserver v1.35 checks them, with its words and paths.

``definition.py`` is the door; ``layout.py`` lays a definition out as the real server does before it looks;
``names.py``, ``versions.py`` and ``conversion.py`` check the frame, ``schemas.py`` what a schema may contain,
``structural.py`` that it is structural and ``defaults.py`` that its defaults are good. CEL rules are checked for their
form only.
"""
