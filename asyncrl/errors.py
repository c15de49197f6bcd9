"""Every exception asyncrl raises on purpose, as one tree.

    AsyncRLError
    ├── ConfigError (ValueError)         an option is wrong: names field, value and fix
    │   ├── NoRoom                           a limit of the run leaves no room for its results
    │   └── NotAllowed                       a run names code its actor was not started for
    ├── MissingExtraError (ImportError)  an optional package is not installed; names the extra
    ├── StateError (RuntimeError)        a call that the program must not make: a bug
    ├── DataError (ValueError)           numbers or bytes that cannot be used
    │   ├── WireError                        bytes that are not a valid asyncrl message
    │   └── InvalidBatchError                a batch with wrong shapes, dtypes or numbers
    ├── EnvironmentFailure               the user's environment raised; carries its own traceback
    ├── RolloutFailed                    a rollout job failed on an actor, for good
    ├── ActorCrashLoop                   a local actor process cannot be kept running
    ├── WaitTimeout (TimeoutError)       a wait passed its deadline; names what was waited for
    ├── CheckpointError                  a checkpoint cannot be written, read or verified
    └── BrokerError
        ├── BrokerUnavailable (ConnectionError)   Redis cannot be reached (any more)
        ├── BrokerRefused                         Redis said no (password, permissions, settings)
        ├── EmbeddedServerError                   the bundled server did not start or died
        ├── RunNotFound                           no such run on this server
        ├── RunMismatch                           the run on the server is of another kind
        ├── RunStateLost                          the run's keys vanished while it ran
        └── Fenced                                a newer learner took the run over

Errors of other libraries are translated into these at the boundary of the one package that uses
that library.
"""

from __future__ import annotations

from typing import cast


class AsyncRLError(Exception):
    """Base of all errors raised by asyncrl. Catch this to catch them all."""


class ConfigError(AsyncRLError, ValueError):
    """An option or setting is wrong: something a user can set otherwise.

    Attributes:
        field: Name of the option, as the user wrote it.
        value: What was given.
        fix: What to do about it, as an imperative sentence without a full stop.
    """

    def __init__(self, field: str, value: object, problem: str, fix: str) -> None:
        super().__init__(f"{field}={value!r}: {problem}; {fix}")
        self.field = field
        self.value = value
        self.fix = fix


class NoRoom(ConfigError):
    """Results that a learner waits for find no room before it lets go of those that it has.

    One that can let go of some does so and waits again; to any other it is the end.
    """


class NotAllowed(ConfigError):
    """A run names code that the actor was not started for.

    Attributes:
        module: The module that would have to be allowed; None where that cannot be told.
    """

    def __init__(
        self, field: str, value: object, problem: str, fix: str, *, module: str | None
    ) -> None:
        super().__init__(field, value, problem, fix)
        self.module = module


class MissingExtraError(AsyncRLError, ImportError):
    """A package of an optional extra is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed; "
            f"run: pip install 'asyncrl[{extra}]'"
        )
        self.package = package
        self.extra = extra


class StateError(AsyncRLError, RuntimeError):
    """A call at the wrong moment, or with arguments it never takes: a mistake in the program."""


class DataError(AsyncRLError, ValueError):
    """Data that cannot be used: an action, an observation, weights, a batch, a message."""


class WireError(DataError):
    """Bytes that are no valid asyncrl message: malformed, cut off, hostile, of another version."""


class InvalidBatchError(DataError):
    """A trajectory batch whose arrays have wrong shapes or dtypes, or hold non-finite numbers."""


class EnvironmentFailure(AsyncRLError):
    """The user's environment, or a callback of the user's trajectory, raised.

    Attributes:
        where: What was being done, for example ``"step 37 of environment 3"``.
        traceback: The environment's own traceback, formatted.
        seed: Seed of the episode, where known.
    """

    def __init__(self, where: str, cause: str, traceback: str, *, seed: int | None = None) -> None:
        super().__init__(f"{where}: {cause}")
        self.where = where
        self.cause = cause
        self.traceback = traceback
        self.seed = seed

    def __reduce__(
        self,
    ) -> tuple[type[EnvironmentFailure], tuple[str, str, str], dict[str, int | None]]:
        return type(self), (self.where, self.cause, self.traceback), {"seed": self.seed}


class RolloutFailed(AsyncRLError):
    """Rollout jobs failed on every attempt, so that waiting longer cannot help.

    Attributes:
        traceback: The traceback of the last attempt, as the actor reported it ("" when the actor
            just died).
    """

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class ActorCrashLoop(AsyncRLError):
    """A local actor process crashes as often as it is started. Carries the end of its log."""


class WaitTimeout(AsyncRLError, TimeoutError):
    """A wait passed its deadline."""

    def __init__(self, waited_for: str, seconds: float, hint: str) -> None:
        super().__init__(f"waited {seconds:.1f} s for {waited_for}; {hint}")
        self.waited_for = waited_for
        self.seconds = seconds


class CheckpointError(AsyncRLError):
    """A checkpoint cannot be written, read or verified."""


class BrokerError(AsyncRLError):
    """Base of what can go wrong between asyncrl and Redis."""


class BrokerUnavailable(BrokerError, ConnectionError):
    """Redis cannot be reached. Says host, port and what to try, and never a password."""


class BrokerRefused(BrokerError):
    """Redis answered and refused: wrong password, missing permission, or unusable settings."""


class EmbeddedServerError(BrokerError):
    """The bundled server did not start, or died. The message carries the end of its log."""


class RunNotFound(BrokerError):
    """There is no run of this name on the server."""


class RunMismatch(BrokerError):
    """The run on the server speaks another protocol or trains something else."""


class RunStateLost(BrokerError):
    """The run's keys vanished while it ran (flushed, evicted, or restarted without persistence)."""


class Fenced(BrokerError):
    """A newer learner has taken the run over, so this one may change nothing any more.

    Attributes:
        generation: The generation this learner holds.
        newer: The generation that replaced it.
        owner: Host and pid of the newer learner, where known.
    """

    def __init__(self, generation: int, newer: int, owner: str = "") -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(
            f"generation {generation} of this run was taken over{by} (generation {newer}); "
            "only one learner may drive a run, so this one stops"
        )
        self.generation = generation
        self.newer = newer
        self.owner = owner


def sole_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one error of a task group that explains the others: one of ours before all else.

    When one task of a group fails the others are cancelled, or fail because of it, so that one
    error is what a caller wants to catch.
    """
    leaves: list[BaseException] = []
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending += cast("BaseExceptionGroup[BaseException]", error).exceptions
        else:
            leaves.append(error)
    ours = [error for error in leaves if isinstance(error, AsyncRLError)]
    return (ours or leaves)[0]
