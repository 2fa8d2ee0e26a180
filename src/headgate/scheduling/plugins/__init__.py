"""The built-in plugins, one module or one package each: filter and score, the reasons, and the wake-up events.

``registry.py`` lists them with their factories.
"""
