"""Events that tell people what happened: written once, counted when they come again, never in the way."""
