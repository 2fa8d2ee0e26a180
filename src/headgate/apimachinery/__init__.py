"""The functions of a kind that the API server calls: defaults, validation, strategies, patches, apply, codecs.

They are pure functions on objects, which are dictionaries as in JSON. The API server imports this package; the engines
(scheduler, queues, controllers) do not.
"""
