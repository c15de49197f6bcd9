"""Learning: the drivers of a training run."""

from asyncrl.learner.config import LearnerConfig, OffPolicyConfig, OnPolicyConfig
from asyncrl.learner.learner import Learner, RunResult
from asyncrl.learner.off_policy import OffPolicyAlgorithm, OffPolicyLearner
from asyncrl.learner.on_policy import OnPolicyAlgorithm, OnPolicyLearner
from asyncrl.learner.threads import set_threads

__all__ = [
    "Learner",
    "LearnerConfig",
    "OffPolicyAlgorithm",
    "OffPolicyConfig",
    "OffPolicyLearner",
    "OnPolicyAlgorithm",
    "OnPolicyConfig",
    "OnPolicyLearner",
    "RunResult",
    "set_threads",
]
