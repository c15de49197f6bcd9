"""Who trades with whom, on which routes, with which vessels: the scenario as plain data."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from asyncrl.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port, its yard and the cargo that leaves it."""

    name: str
    capacity: int
    """Empty containers up to which decisions may fill the yard."""
    empties: int
    """Empty containers in the yard at the start."""
    orders: float
    """Mean number of containers that shippers ask for in one tick."""
    destinations: tuple[tuple[str, float], ...]
    """(port, share of the orders); the shares sum to 1."""
    noise: float = 0.2
    """The mean of one tick is off by up to this fraction, uniformly; orders are Poisson around
    it."""
    season: float = 0.0
    """Amplitude of the wave of the orders, as a fraction of their mean."""
    phase: float = 0.0
    """Where in that wave tick 0 is, as a fraction of the period."""
    stuffing: tuple[int, int] = (1, 2)
    """Fewest and most ticks from an order until its containers wait for a vessel, laden."""
    returning: tuple[int, int] = (2, 4)
    """Fewest and most ticks from a discharge until the containers are back in the yard, empty."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """A cycle of ports that vessels sail for ever."""

    name: str
    stops: tuple[str, ...]
    """Ports in the order of call; after the last comes the first."""
    distances: tuple[float, ...]
    """Distance from each stop to the next, one a stop."""


@dataclass(frozen=True, kw_only=True)
class Vessel:
    """A vessel and where it begins."""

    route: str
    capacity: int
    """Containers it carries, laden and empty together."""
    speed: float
    """Distance sailed in one tick."""
    noise: float = 0.1
    """A passage is longer or shorter by up to this fraction, uniformly."""
    first_stop: int = 0
    """Stop of the route that it calls at first."""
    first_arrival: int = 0
    """Tick of that call."""
    empties: int = 0
    """Empty containers aboard at the start."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A whole scenario. Every figure may be changed; see `worlds.topology_from` for plain data."""

    ports: tuple[Port, ...]
    routes: tuple[Route, ...]
    vessels: tuple[Vessel, ...]
    ticks: int = 360
    """Length of an episode."""
    season_period: int = 120
    """Ticks of one wave of the orders."""
    berth: int = 1
    """Ticks from a vessel's arrival to its departure."""

    def __post_init__(self) -> None:
        for name in ("ticks", "season_period"):
            if getattr(self, name) < 1:
                raise ConfigError(name, getattr(self, name), "less than 1", "give 1 tick or more")
        if self.berth < 0:
            raise ConfigError("berth", self.berth, "negative", "give 0 ticks or more")
        _no_twins("ports", [port.name for port in self.ports])
        _no_twins("routes", [route.name for route in self.routes])
        for port in self.ports:
            self._check_port(port)
        for route in self.routes:
            self._check_route(route)
        for vessel in self.vessels:
            self._check_vessel(vessel)
        self._check_trade_can_sail()

    def index(self, port: str) -> int:
        """Return the place of a port among `ports`."""
        return self.port_names.index(port)

    @property
    def port_names(self) -> tuple[str, ...]:
        """Names of the ports, in order."""
        return tuple(port.name for port in self.ports)

    @property
    def containers(self) -> int:
        """Containers in the world; there are as many at any time."""
        return sum(port.empties for port in self.ports) + sum(v.empties for v in self.vessels)

    def route_of(self, vessel: Vessel) -> Route:
        """Return the route a vessel sails."""
        return next(route for route in self.routes if route.name == vessel.route)

    def _check_port(self, port: Port) -> None:
        field = f"ports[{port.name}]"
        if min(port.capacity, port.empties, port.orders, port.noise, port.season) < 0:
            raise ConfigError(field, port, "a figure is negative", "give 0 or more")
        if port.noise > 1 or port.season > 1:
            raise ConfigError(field, port, "orders could be negative", "give noise, season <= 1")
        for low, high in (port.stuffing, port.returning):
            if not 0 <= low <= high:
                raise ConfigError(field, (low, high), "no range of ticks", "give fewest, then most")
        for name, share in port.destinations:
            if name not in self.port_names or name == port.name or share < 0:
                raise ConfigError(
                    field, (name, share), "no destination", "name another port and a share >= 0"
                )
        shares = sum(share for _, share in port.destinations)
        if port.orders and abs(shares - 1) > 1e-6:
            raise ConfigError(field, shares, "the shares do not sum to 1", "divide by their sum")

    def _check_route(self, route: Route) -> None:
        field = f"routes[{route.name}]"
        unknown = [stop for stop in route.stops if stop not in self.port_names]
        if unknown or len(set(route.stops)) < 2:
            raise ConfigError(field, route.stops, "no cycle of known ports", "name two or more")
        if any(a == b for a, b in itertools.pairwise((*route.stops, route.stops[0]))):
            raise ConfigError(field, route.stops, "a passage leads nowhere", "name a port once")
        if len(route.distances) != len(route.stops) or min(route.distances) <= 0:
            raise ConfigError(
                field, route.distances, "not one distance > 0 a stop", f"give {len(route.stops)}"
            )

    def _check_vessel(self, vessel: Vessel) -> None:
        routes = {route.name: route for route in self.routes}
        if vessel.route not in routes:
            raise ConfigError("vessels", vessel, "unknown route", f"name one of {sorted(routes)}")
        if not 0 <= vessel.first_stop < len(routes[vessel.route].stops):
            raise ConfigError("vessels", vessel, "no such first stop", "count stops from 0")
        if vessel.speed <= 0 or not 0 <= vessel.noise < 1 or vessel.first_arrival < 0:
            raise ConfigError(
                "vessels", vessel, "it cannot sail so", "give speed > 0, 0 <= noise < 1, ticks >= 0"
            )
        if not 0 <= vessel.empties <= vessel.capacity:
            raise ConfigError("vessels", vessel, "empties do not fit", "give 0 to its capacity")

    def _check_trade_can_sail(self) -> None:
        """Raise `ConfigError` for cargo that no vessel ever carries to where it is bound."""
        sailed = {vessel.route for vessel in self.vessels}
        served = [set(route.stops) for route in self.routes if route.name in sailed]
        for port in self.ports:
            for name, share in port.destinations:
                if port.orders and share and not any({port.name, name} <= each for each in served):
                    raise ConfigError(
                        f"ports[{port.name}]",
                        name,
                        "no vessel sails from there to this destination",
                        "put both ports on a route that has a vessel",
                    )


def _no_twins(field: str, names: list[str]) -> None:
    if not names:
        raise ConfigError(field, names, "empty", "describe at least one")
    if len(set(names)) != len(names):
        raise ConfigError(field, names, "two have one name", "give each a name of its own")
