"""The version of the package, readable without importing torch."""

__version__ = "0.1.0"
