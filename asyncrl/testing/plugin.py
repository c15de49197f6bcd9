"""Fixtures for tests that talk to a real server."""
