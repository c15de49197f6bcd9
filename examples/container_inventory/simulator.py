"""The world between two decisions: orders, passages, loading, and containers that come back.

Everything random (orders, delays ashore, lengths of passages) is drawn at the start of an episode
from generators of its own, so that it depends on the seed and never on what is decided: policies
that are compared on a seed meet the same orders and the same vessels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from asyncrl.errors import ConfigError
from examples.container_inventory.topology import Topology, Vessel

PURPOSES = ("orders", "sailing", "ashore")
"""What randomness is for; each has a generator of its own."""


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Return the generator of one purpose in the episode of `seed`."""
    key = (PURPOSES.index(purpose),)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


class Demand(Protocol):
    """Where orders come from."""

    def __call__(self, topology: Topology, rng: np.random.Generator) -> np.ndarray:
        """Return int64 [ticks, ports, ports]: containers ordered from (row) to (column)."""
        ...


def seasonal_demand(topology: Topology, rng: np.random.Generator) -> np.ndarray:
    """Return Poisson orders around means that follow the season and are off by some noise."""
    shares = np.zeros((len(topology.ports),) * 2)
    for source, port in enumerate(topology.ports):
        for name, share in port.destinations:
            shares[source, topology.index(name)] = share
    ports = topology.ports
    tick = np.arange(topology.ticks)[:, None] / topology.season_period
    wave = np.sin(2 * np.pi * (tick + np.array([port.phase for port in ports])))
    mean = np.array([p.orders for p in ports]) * (1 + np.array([p.season for p in ports]) * wave)
    mean = mean * (1 + np.array([p.noise for p in ports]) * rng.uniform(-1, 1, mean.shape))
    return rng.poisson(mean[:, :, None] * shares)


class Call(NamedTuple):
    """A vessel's arrival, in the order in which arrivals are handled."""

    tick: int
    vessel: int
    stop: int
    """Which stop of the vessel's route."""


@dataclass(frozen=True)
class Decision:
    """What is to be decided now: how many empties a vessel takes along or leaves behind."""

    tick: int
    port: int
    vessel: int
    upcoming: tuple[tuple[int, float], ...]
    """(port, ticks until this vessel is expected there), each other port of its route once."""
    load: int
    """Most empties that can be loaded: what the yard holds and the vessel has room for."""
    discharge: int
    """Most empties that can be discharged: what the vessel carries and the yard has room for."""


class Simulator:
    """One episode. `advance` runs to the next decision, `decide` carries it out.

    In a tick come, in this order: containers that are stuffed or back in the yard, the orders of
    all ports, then one vessel after the other in the order of `Topology.vessels`. A vessel first
    discharges the laden containers bound for the port, then loads laden ones in the order of its
    next calls (landing empties where it has no room otherwise), then waits for a decision.

    An order that finds no empties is lost: it counts as shortage. Among the orders of one port and
    tick, those for the first port of the topology are served first.
    """

    def __init__(self, topology: Topology, seed: int, demand: Demand = seasonal_demand) -> None:
        self.topology = topology
        ports, vessels, ticks = len(topology.ports), len(topology.vessels), topology.ticks
        self.orders = demand(topology, generator(seed, "orders"))
        """[ticks, ports, ports] int64: those of the whole episode; the future is hidden in them."""
        if self.orders.shape != (ticks, ports, ports) or (self.orders < 0).any():
            raise ConfigError(
                "demand", self.orders.shape, "not orders >= 0", f"give {(ticks, ports, ports)}"
            )
        self.tick = -1
        """The current tick; `topology.ticks` once the episode is over."""
        self.empties = np.array([port.empties for port in topology.ports], np.int64)
        """[ports]: empties in the yards."""
        self.waiting = np.zeros((ports, ports), np.int64)
        """[ports, ports]: laden containers at (row) that wait for a vessel to (column)."""
        self.laden = np.zeros((vessels, ports), np.int64)
        """[vessels, ports]: laden containers aboard, by destination."""
        self.aboard = np.array([vessel.empties for vessel in topology.vessels], np.int64)
        """[vessels]: empties aboard."""
        self.shortage = np.zeros((ticks, ports), np.int64)
        """[ticks, ports]: containers ordered in vain."""
        self.fulfilled = np.zeros((ticks, ports), np.int64)
        """[ticks, ports]: containers ordered and given."""
        self.moved = 0
        """Empties that decisions loaded or discharged."""
        self.decisions = 0
        rng = generator(seed, "ashore")
        self._stuffing_ticks = _delays(rng, ticks, [port.stuffing for port in topology.ports])
        self._returning_ticks = _delays(rng, ticks, [port.returning for port in topology.ports])
        longest = 1 + int(max(self._stuffing_ticks.max(), self._returning_ticks.max()))
        self._stuffed_at = np.zeros((ticks + longest, ports, ports), np.int64)
        self._returned_at = np.zeros((ticks + longest, ports), np.int64)
        self._routes = [
            tuple(topology.index(stop) for stop in topology.route_of(vessel).stops)
            for vessel in topology.vessels
        ]
        self._passages = [_passages(topology, vessel) for vessel in topology.vessels]
        self._calls = _calls(topology, generator(seed, "sailing"))
        self._next_call = 0
        self._pending: Decision | None = None

    @property
    def over(self) -> bool:
        """Whether all ticks have passed."""
        return self.tick == self.topology.ticks

    @property
    def containers(self) -> int:
        """All containers, wherever they are; the same number at any time."""
        places = (self.empties, self.waiting, self.laden, self.aboard)
        moving = (self._stuffed_at, self._returned_at)
        return int(sum(place.sum() for place in (*places, *moving)))

    def advance(self) -> Decision | None:
        """Run to the next decision and return it; None when the episode ends before one."""
        if self._pending is not None:
            raise ConfigError("decision", self._pending, "not decided yet", "call decide() first")
        while not self.over:
            if self._next_call < len(self._calls):
                call = self._calls[self._next_call]
                if call.tick == self.tick:
                    self._next_call += 1
                    self._pending = self._arrive(call)
                    return self._pending
            self.tick += 1
            if not self.over:
                self._begin_tick()
        return None

    def decide(self, quantity: int) -> None:
        """Load (negative) or discharge (positive) empties for the pending decision.

        Raises `ConfigError` for more than its scope allows.
        """
        pending = self._pending
        if pending is None:
            raise ConfigError("quantity", quantity, "nothing is to be decided", "call advance()")
        if not -pending.load <= quantity <= pending.discharge:
            raise ConfigError(
                "quantity",
                quantity,
                f"the scope is {-pending.load} to {pending.discharge}",
                "load (negative) or discharge no more than that",
            )
        self._pending = None
        self.empties[pending.port] += quantity
        self.aboard[pending.vessel] -= quantity
        self.moved += abs(quantity)
        self.decisions += 1

    def _begin_tick(self) -> None:
        tick = self.tick
        self.waiting += self._stuffed_at[tick]
        self._stuffed_at[tick] = 0
        self.empties += self._returned_at[tick]
        self._returned_at[tick] = 0
        wanted = self.orders[tick]
        served = np.minimum(np.cumsum(wanted, axis=1), self.empties[:, None])
        served[:, 1:] -= served[:, :-1].copy()
        self.fulfilled[tick] = served.sum(axis=1)
        self.shortage[tick] = wanted.sum(axis=1) - self.fulfilled[tick]
        self.empties -= self.fulfilled[tick]
        for port, delay in enumerate(self._stuffing_ticks[tick].tolist()):
            place = self._stuffed_at[tick + delay] if delay else self.waiting
            place[port] += served[port]

    def _arrive(self, call: Call) -> Decision:
        """Discharge and load laden containers; return the decision about the empties."""
        vessel, capacity = call.vessel, self.topology.vessels[call.vessel].capacity
        port = self._routes[vessel][call.stop]
        landed = int(self.laden[vessel, port])
        self.laden[vessel, port] = 0
        delay = int(self._returning_ticks[call.tick, port])
        if delay:
            self._returned_at[call.tick + delay, port] += landed
        else:
            self.empties[port] += landed
        upcoming = self._upcoming(vessel, call.stop)
        free = capacity - int(self.laden[vessel].sum())
        for destination, _ in upcoming:
            loaded = min(free, int(self.waiting[port, destination]))
            self.waiting[port, destination] -= loaded
            self.laden[vessel, destination] += loaded
            free -= loaded
        in_the_way = max(0, int(self.aboard[vessel]) - free)
        self.aboard[vessel] -= in_the_way
        self.empties[port] += in_the_way
        aboard, ashore = int(self.aboard[vessel]), int(self.empties[port])
        return Decision(
            tick=call.tick,
            port=port,
            vessel=vessel,
            upcoming=upcoming,
            load=min(ashore, free - aboard),
            discharge=min(aboard, max(0, self.topology.ports[port].capacity - ashore)),
        )

    def _upcoming(self, vessel: int, stop: int) -> tuple[tuple[int, float], ...]:
        """Return (port, expected ticks until there) of each other port, in the order of call."""
        route, passages = self._routes[vessel], self._passages[vessel]
        found: dict[int, float] = {}
        ticks = 0.0
        for ahead in range(len(route)):
            here = (stop + ahead) % len(route)
            ticks += self.topology.berth + passages[here]
            following = route[(here + 1) % len(route)]
            if following != route[stop]:
                found.setdefault(following, ticks)
        return tuple(found.items())


def _delays(rng: np.random.Generator, ticks: int, ranges: list[tuple[int, int]]) -> np.ndarray:
    """Return int64 [ticks, ports]: how long what begins in a tick takes in a port."""
    low, high = np.array(ranges).T
    return rng.integers(low, high, size=(ticks, len(ranges)), endpoint=True)


def _passages(topology: Topology, vessel: Vessel) -> tuple[float, ...]:
    """Return the expected ticks at sea after each stop."""
    return tuple(distance / vessel.speed for distance in topology.route_of(vessel).distances)


def _calls(topology: Topology, rng: np.random.Generator) -> list[Call]:
    """Return all arrivals of the episode: by tick, then by vessel. A passage takes a tick or more.

    Lengths of passages are drawn for as many as a vessel could at most make, so that those of one
    vessel do not depend on how many another makes.
    """
    calls: list[Call] = []
    for index, vessel in enumerate(topology.vessels):
        passages = _passages(topology, vessel)
        tick, stop = vessel.first_arrival, vessel.first_stop
        errors = 1 + vessel.noise * rng.uniform(-1, 1, topology.ticks)
        for error in errors.tolist():
            if tick >= topology.ticks:
                break
            calls.append(Call(tick, index, stop))
            tick += topology.berth + max(1, round(passages[stop] * error))
            stop = (stop + 1) % len(passages)
    return sorted(calls)
