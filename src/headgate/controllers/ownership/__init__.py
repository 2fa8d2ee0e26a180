"""Objects and the objects that they control: selectors, adoption, release, and pods by owner."""
