"""The high-water mark: how far the store has to reach, kept outside of the files that it speaks of."""
