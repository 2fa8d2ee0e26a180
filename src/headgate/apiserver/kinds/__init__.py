"""The kinds this server serves, as rows of a table: their names, what can be done to them, how they are stored.

``kind.py`` says what a row is, ``table.py`` finds rows, ``rows/`` holds the built-in ones, ``builtin.py`` puts those
together and ``conversion.py`` turns an object of one version of a kind into the form that is stored. Nothing here
validates or defaults; discovery documents are made from the table by ``apiserver/discovery.py``.
"""
