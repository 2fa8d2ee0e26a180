"""What a scheduler is told to run: a ``KubeSchedulerConfiguration`` (v1), read and checked.

``parsing.py`` is the way in: a decoded document goes in, a frozen :class:`~.values.Configuration` or every complaint
with the path of its field comes out. ``registry.py`` is the table of plugins; ``form.py`` reads shapes strictly,
``args.py`` the arguments of plugins, ``plugins.py`` says which plugin runs at which point. Plugins are made of
the result by ``scheduling/profile.py``.
"""
