"""Leader election by a Lease: who may write."""
