"""The controller that feeds the engine and writes what it decides."""
