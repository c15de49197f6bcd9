"""Topologies to choose from by name, and topologies from plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from asyncrl.errors import ConfigError
from examples.container_inventory.topology import Port, Route, Topology, Vessel

FOUR_PORTS = Topology(
    ports=(
        # Two ports that send far more than they receive, and two where the boxes pile up.
        Port(
            name="factory-north",
            capacity=1_200,
            empties=700,
            orders=24.0,
            destinations=(("market-east", 0.55), ("market-west", 0.35), ("factory-south", 0.10)),
            season=0.4,
        ),
        Port(
            name="factory-south",
            capacity=1_000,
            empties=500,
            orders=16.0,
            destinations=(("market-east", 0.35), ("market-west", 0.55), ("factory-north", 0.10)),
            season=0.4,
            phase=0.5,
        ),
        Port(
            name="market-east",
            capacity=1_200,
            empties=500,
            orders=6.0,
            destinations=(("factory-north", 0.6), ("factory-south", 0.3), ("market-west", 0.1)),
        ),
        Port(
            name="market-west",
            capacity=1_200,
            empties=500,
            orders=6.0,
            destinations=(("factory-north", 0.3), ("factory-south", 0.6), ("market-east", 0.1)),
        ),
    ),
    routes=(
        Route(
            name="grand-loop",
            stops=("factory-north", "factory-south", "market-east", "market-west"),
            distances=(40.0, 80.0, 40.0, 80.0),
        ),
        Route(name="east-shuttle", stops=("factory-north", "market-east"), distances=(70.0, 70.0)),
        Route(name="west-shuttle", stops=("factory-south", "market-west"), distances=(70.0, 70.0)),
    ),
    vessels=(
        Vessel(route="grand-loop", capacity=600, speed=10.0, first_stop=0, first_arrival=1),
        Vessel(route="grand-loop", capacity=600, speed=10.0, first_stop=2, first_arrival=2),
        Vessel(route="east-shuttle", capacity=450, speed=10.0, first_stop=0, first_arrival=5),
        Vessel(route="west-shuttle", capacity=450, speed=10.0, first_stop=1, first_arrival=4),
    ),
)
"""The default: no more containers than a well-run fleet needs, and trade that is mostly one-way."""


def ring_of(pairs: int) -> Topology:
    """Return a larger world: `pairs` factories and as many markets on overlapping loops.

    Each factory sends to its two nearest markets, which send a quarter as much back; a loop serves
    two neighbouring pairs, with two vessels each.
    """
    if pairs < 2:
        raise ConfigError("pairs", pairs, "less than 2", "give 2 or more")
    ports: list[Port] = []
    for k in range(pairs):
        near = (k + 1) % pairs
        ports += [
            Port(
                name=f"factory-{k}",
                capacity=1_200,
                empties=600,
                orders=20.0,
                destinations=((f"market-{k}", 0.6), (f"market-{near}", 0.4)),
                season=0.4,
                phase=k / pairs,
            ),
            Port(
                name=f"market-{k}",
                capacity=1_200,
                empties=500,
                orders=5.0,
                destinations=((f"factory-{k}", 0.6), (f"factory-{(k - 1) % pairs}", 0.4)),
            ),
        ]
    routes = tuple(
        Route(
            name=f"loop-{k}",
            stops=(
                f"factory-{k}",
                f"factory-{(k + 1) % pairs}",
                f"market-{k}",
                f"market-{(k + 1) % pairs}",
            ),
            distances=(40.0, 80.0, 40.0, 80.0),
        )
        for k in range(pairs if pairs > 2 else 1)
    )
    vessels = tuple(
        Vessel(
            route=route.name,
            capacity=600,
            speed=10.0,
            first_stop=2 * half,
            first_arrival=1 + 2 * half + k,
        )
        for k, route in enumerate(routes)
        for half in range(2)
    )
    return Topology(ports=tuple(ports), routes=routes, vessels=vessels)


def topology_from(described: str | Mapping[str, Any]) -> Topology:
    """Return the topology of a name ("four-ports", "ring-6") or of plain data, as JSON gives it.

    Plain data has the fields of `Topology` and its parts; beside them "base" may name a topology
    whose fields it changes.
    """
    if isinstance(described, str):
        return _named(described)
    fields = dict(described)
    base = fields.pop("base", None)
    for name, kind in (("ports", Port), ("routes", Route), ("vessels", Vessel)):
        if name in fields:
            fields[name] = tuple(kind(**_tuples(each)) for each in fields[name])
    try:
        return Topology(**fields) if base is None else dataclasses.replace(_named(base), **fields)
    except TypeError as error:
        raise ConfigError(
            "topology", sorted(described), str(error), "give the fields of Topology"
        ) from None


def _named(name: str) -> Topology:
    kind, _, number = name.partition("-")
    if name == "four-ports":
        return FOUR_PORTS
    if kind == "ring" and number.isdigit():
        return ring_of(int(number))
    raise ConfigError("topology", name, "unknown", "name four-ports or ring-N, with N pairs")


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` with lists, also those within lists, as tuples."""

    def converted(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return tuple(converted(each) for each in cast("list[Any]", value))

    return {name: converted(value) for name, value in fields.items()}
