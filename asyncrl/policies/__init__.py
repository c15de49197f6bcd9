"""The acting side, in NumPy alone: an actor never imports torch to act."""

from asyncrl.data.params import initial_params
from asyncrl.policies.mlp import MLPPolicy, make_policy
from asyncrl.policies.protocol import Acted, Policy

__all__ = ["Acted", "MLPPolicy", "Policy", "initial_params", "make_policy"]
