"""The page: live views of a cluster for people, filtered by the rights of each viewer.

``rights.py`` decides which rows a viewer may see, ``sessions.py`` who the viewer is, ``stream.py`` what is sent.
``io/`` serves it; ``page/`` has the static files. What is shown comes from ``headgate.views``.
"""
