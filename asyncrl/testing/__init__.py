"""Pytest plugin and stand-ins for testing systems built on asyncrl.

Loading it is cheap: pytest does so in every project. Fixtures are in `asyncrl.testing.plugin`, fake
environments in `asyncrl.testing.envs`.
"""

from asyncrl.testing.cancelling import CancelAt
from asyncrl.testing.proxy import Fault, FaultyProxy
from asyncrl.testing.recording import Recorder
from asyncrl.testing.waiting import wait_until, wait_until_sync

__all__ = ["CancelAt", "Fault", "FaultyProxy", "Recorder", "wait_until", "wait_until_sync"]
