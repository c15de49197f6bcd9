"""Pytest plugin and stand-ins for testing systems built on asyncrl."""
