"""The plugins, one module each: its reasons, its verdict, and the events that may change it."""
