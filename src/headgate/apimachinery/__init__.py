"""What a kind needs in order to be served: defaults, validation, strategies, patches, server-side apply, codecs.

Pure functions over wire dictionaries. The API server imports this package; the engines do not.
"""
