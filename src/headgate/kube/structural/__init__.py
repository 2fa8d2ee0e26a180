"""Structural schemas: the shape that a CustomResourceDefinition gives to its objects, and all that follows from it.

``node.py`` reads a schema once into a tree. By that tree ``pruning.py`` drops what it does not know, ``defaulting.py``
fills gaps, ``embedded.py`` and ``list_types.py`` check what JSON Schema cannot say, ``shapes.py`` tells server-side
apply which parts have owners; ``validating.py`` is JSON Schema proper, with the words of the real server. Whether a
schema *is* structural is asked when its definition is written: ``kube/validation/definitions/``.
"""
