"""Plug-ins for Lily, a page each."""
