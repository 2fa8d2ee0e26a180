"""The built-in kinds, one module per family. ``row.py`` is the shorthand that they are written in."""
