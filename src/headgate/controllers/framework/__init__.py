"""What a controller is: watches, events, keys, effects, results, and the cache that counts own writes as seen."""
