"""``headgate load``: the objects of a load, and how they are created and removed."""
