"""Files, lists and watches of recordings."""
