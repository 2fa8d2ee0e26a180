"""The framework of controllers: watches, watch events, keys, effects, results, and the cache of objects."""
