"""Who waits for room, by which limit, and when nothing can come any more."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from asyncrl.broker import Backlog, RunLimits
from asyncrl.proxy.room import Room, RoomLook

LIMITS = RunLimits(max_results=4, max_result_bytes=1000)


def seen(
    waiting: Mapping[str, int] | None = None,
    *,
    results: int = 1,
    nbytes: int = 900,
    queued: int = 0,
    busy: bool = False,
) -> RoomLook:
    backlog = Backlog(queued=queued, results=results, nbytes=nbytes)
    return RoomLook({"1-0": 200} if waiting is None else waiting, busy, backlog)


@pytest.mark.parametrize(
    ("look", "limit"),
    [
        (seen({}), None),
        (seen(), "max_result_bytes"),
        (seen(results=4, nbytes=4), "max_results"),
        (seen(nbytes=800), None),  # 200 more are exactly what may be held
        (seen(results=0, nbytes=0), None),
        (seen({"1-0": 5000}, results=0, nbytes=0), None),  # the only one may be larger
        (seen({"1-0": 5000}, nbytes=1), "max_result_bytes"),
        (seen({"1-0": 5000, "2-0": 100}), None),  # one of the two fits, and comes next
        (seen(results=3, nbytes=3), None),  # it is the memory of the server that is full
    ],
)
def test_the_limit_that_keeps_results_waiting_is_known_exactly(look: RoomLook, limit: str | None):
    room = Room(LIMITS, 10)
    room.look(look, 0)
    assert room.waiting == len(look.waiting)
    assert (room.shortage.limit if room.shortage else None) == limit


def test_a_shortage_is_said_once_when_it_lasts_and_once_when_it_is_over():
    room = Room(LIMITS, 10)
    said = [(now, text) for now in range(30) if (text := room.look(seen(), now)) is not None]
    ((when, text),) = said
    assert when == 10
    assert re.search("1 finished result waits.* 1 result of 900 bytes.*max_result_bytes=1000", text)
    assert room.look(seen(nbytes=0), 30) is None  # there is room, but not all have found it yet
    over = room.look(seen({}), 31)
    assert over is not None
    assert "no finished result waits" in over
    assert room.look(seen({}), 32) is None
    assert [room.look(seen(), now) is not None for now in (40, 49, 50)] == [False, False, True]


def test_a_short_wait_for_room_is_not_worth_a_word():
    room = Room(LIMITS, 10)
    looks = [seen() if now % 9 else seen({}) for now in range(100)]
    assert [room.look(look, now) for now, look in enumerate(looks)] == [None] * 100


def test_only_what_stands_still_for_three_looks_is_a_standstill():
    room = Room(LIMITS, 10)
    found: list[bool] = []
    for look in [seen(), seen(), seen(), seen(), seen(queued=1), seen(queued=1), seen(queued=1)]:
        room.look(look, 0)
        found.append(room.standstill is not None)
    assert found == [False, False, True, True, False, False, True]


@pytest.mark.parametrize(
    "look", [seen(busy=True), seen(nbytes=0), seen({}), seen(results=2, nbytes=2)]
)
def test_where_something_still_runs_or_fits_nothing_stands_still(look: RoomLook):
    room = Room(LIMITS, 10)
    for now in range(10):
        room.look(look, now)
    assert room.standstill is None
