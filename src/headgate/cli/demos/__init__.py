"""Stories that ``headgate demo`` tells, each in clusters of its own that are gone when it ends."""
