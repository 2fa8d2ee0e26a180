"""Who is asking, and what they may do: authentication, impersonation, RBAC.

``entry.py`` is the door that ``apiserver/handle.py`` sends every request through, before it looks at what is asked for.
``authentication.py`` finds the user, ``impersonation.py`` may make another one of them, ``policy.py`` decides by the
cluster's roles. The roles of every cluster are in ``defaults/``.
"""
