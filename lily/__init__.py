"""Lily: a near-real-time metadata plane."""

__version__ = "0.1.0"
