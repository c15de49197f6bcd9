"""The Lua scripts: every change to a run's state is one of them, and each says what it guarantees.

Plain EVAL scripts for Redis 6.2 and later and Valkey; their sources are in `lua/`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import resources

from asyncrl.broker.limits import limits_in_lua

_SOURCES = resources.files("asyncrl.broker") / "lua"


def _read(name: str) -> str:
    return (_SOURCES / f"{name}.lua").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Script:
    """One script, whole: default limits, `names.lua`, its own body, between guard and after."""

    name: str
    guarded: bool = True
    """Refuses to run for another incarnation of the run, or for a learner that was replaced."""
    source: str = field(init=False, repr=False)
    sha: str = field(init=False, repr=False)
    """SHA-1 of the source, by which the server knows it."""

    def __post_init__(self) -> None:
        body = _read(self.name)
        if self.guarded:
            wrapped = f"local function body()\n{body}\nend"
            body = "\n".join((_read("guard"), wrapped, _read("after")))
        source = "\n".join((limits_in_lua(), _read("names"), body))
        object.__setattr__(self, "source", source)
        # Redis names scripts by SHA-1; nothing here is a secret.
        object.__setattr__(self, "sha", hashlib.sha1(source.encode()).hexdigest())  # noqa: S324


CREATE_RUN = Script("create_run", guarded=False)
READ_RUN = Script("read_run", guarded=False)
FINISH_RUN = Script("finish_run")
CHECK = Script("check")

SUBMIT = Script("submit")
CANCEL = Script("cancel")
PENDING = Script("pending")
COUNTS = Script("counts")
REASSIGN = Script("reassign")
FAIL = Script("fail")
RELEASE = Script("release")
TAKE = Script("take")
OWN = Script("own")
BEGIN = Script("begin")
ADMIT = Script("admit")
COMPLETE = Script("complete")

ACK = Script("ack")
REJECT = Script("reject")
LEDGER = Script("ledger")
PUBLISH = Script("publish")

BEAT = Script("beat")
ACTORS = Script("actors")
LEAVE = Script("leave")
RETIRE = Script("retire")
REPORT = Script("report")
