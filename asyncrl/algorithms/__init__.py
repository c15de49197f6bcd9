"""The learning side, in torch: returns, networks, losses; one file an algorithm."""

from asyncrl.errors import MissingExtraError

try:
    import torch

    torch.__version__  # noqa: B018  (imported only to say in our words that it is missing)
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtraError("torch", "learner", "learning") from error

from asyncrl.algorithms.dqn import DQN, DQNUpdater
from asyncrl.algorithms.ppo import PPO, PPOUpdater
from asyncrl.algorithms.protocol import Algorithm, Updater
from asyncrl.algorithms.returns import gae, lambda_returns, n_step_returns

__all__ = [
    "DQN",
    "PPO",
    "Algorithm",
    "DQNUpdater",
    "PPOUpdater",
    "Updater",
    "gae",
    "lambda_returns",
    "n_step_returns",
]
