"""What the command line takes beside the options of the library's own parts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from asyncrl.data import check_name
from asyncrl.errors import ConfigError

URL_VARIABLE = "ASYNCRL_REDIS_URL"
"""Environment variable with the Redis URL, so that its password is on no command line."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What to train, where, and with whom."""

    env: str = "CartPole-v1"
    """Gymnasium id, or import path module:attr of a factory, of the environment."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keyword arguments of the environment's factory, as JSON."""
    trajectory: str | None = None
    """Import path module:attr of the Trajectory subclass that holds the scenario's logic."""
    trajectory_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keyword arguments of the trajectory, as JSON."""
    algo: Literal["ppo", "dqn"] = "ppo"
    """Learning algorithm."""
    actors: int = 2
    """Local actor processes to start; 0 to wait for actors that others start."""
    envs: int = 0
    """Environments stepped side by side in each actor; 0 for what suits the algorithm."""
    redis: str | None = None
    """URL of a Redis or Valkey server (redis://, rediss://, unix://). Without one, a bundled server
    starts for this run alone. Default: the environment variable ASYNCRL_REDIS_URL."""
    listen: str | None = None
    """HOST:PORT on which the bundled server lets actors of other machines join, for example
    0.0.0.0:7379, or PORT alone for this machine; port 0 is a free one. The URL, with a generated
    password, is then in the run folder's redis.url."""
    run: str | None = None
    """Name of the run. An existing run is resumed. Default: a new one from environment and time."""
    runs_dir: str = "runs"
    """Folder that holds one folder a run: config, metrics, checkpoints, logs."""
    threads: int = 1
    """Threads of one update on the CPU."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """Least severe log lines shown. Events of the run are shown in any case."""

    def __post_init__(self) -> None:
        if self.actors < 0:
            raise ConfigError("actors", self.actors, "negative", "give 0 or more")
        if self.envs < 0:
            raise ConfigError("envs", self.envs, "negative", "give 1 or more, or 0 for the default")
        if self.threads < 1:
            raise ConfigError("threads", self.threads, "less than 1", "give 1 or more")
        if self.run is not None:
            check_name("run", self.run)
        _ = self.address
        if self.listen is not None and self.url is not None:
            raise ConfigError(
                "listen",
                self.listen,
                "it is about the bundled server, but a Redis URL is given as well",
                "leave one of them out",
            )

    @property
    def url(self) -> str | None:
        """The server to use; None for the bundled one."""
        return self.redis or os.environ.get(URL_VARIABLE) or None

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port the bundled server listens on; the port is None for no port."""
        if self.listen is None:
            return "127.0.0.1", None
        host, _, port = self.listen.rpartition(":")
        if not port.isdigit():
            raise ConfigError("listen", self.listen, "no port", "write HOST:PORT or PORT")
        return host or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True)
class ActorOptions:
    """Where to work."""

    redis: str | None = None
    """URL of the run's server (redis://, rediss://, unix://). Default: the environment variable
    ASYNCRL_REDIS_URL, which keeps a password off the command line."""
    run: str = ""
    """Name of the run to work for; everything else comes from there."""
    allow: tuple[str, ...] = ()
    """Module, with all below it, whose code the run may name as its environment or trajectory; once
    for each. Without any, a run may name what is registered with Gymnasium."""
    name: str | None = None
    """Name of this actor; a fresh one by default."""
    supervised: bool = False
    """Leave when standard input ends: how a learner's own actors notice that it is gone."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe log lines shown."""

    def __post_init__(self) -> None:
        if not self.run:
            raise ConfigError("run", self.run, "no run is named", "give the name of the learner's")
        check_name("run", self.run)
        if self.name is not None:
            check_name("name", self.name)
        if self.url is None:
            raise _no_server()

    @property
    def url(self) -> str | None:
        """The run's server."""
        return self.redis or os.environ.get(URL_VARIABLE) or None


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Whose runs."""

    redis: str | None = None
    """URL of the server (redis://, rediss://, unix://). Default: the environment variable
    ASYNCRL_REDIS_URL, which keeps a password off the command line."""

    def __post_init__(self) -> None:
        _ = self.url

    @property
    def url(self) -> str:
        """The server."""
        url = self.redis or os.environ.get(URL_VARIABLE)
        if not url:
            raise _no_server()
        return url


@dataclass(frozen=True, kw_only=True)
class DeleteOptions(RunsOptions):
    """Where the run is, and how sure you are."""

    force: bool = False
    """Delete it also while its learner or actors are at work; they stop with an error."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """A server for runs whose learner and actors are started by hand."""

    port: int = 0
    """TCP port to listen on; 0 for a free one."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in, with the generated password."""
    data: str | None = None
    """Folder in which the server keeps data and password over restarts; by default it keeps
    none."""
    url_file: str | None = None
    """File (readable by its owner alone) to write the URL with its password to, besides printing
    it."""


def _no_server() -> ConfigError:
    return ConfigError("redis", None, "no server is given", f"give a URL, or set {URL_VARIABLE}")
