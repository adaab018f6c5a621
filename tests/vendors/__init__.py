"""Vendors on loopback: they speak the real wire format and enforce the real limits."""
