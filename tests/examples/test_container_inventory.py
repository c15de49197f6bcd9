"""The container simulator: computed by hand, conserving, repeatable, in its documented order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncrl.errors import ConfigError
from examples.container_inventory.baselines import Balance, Random, no_op, play
from examples.container_inventory.env import ContainerEnv
from examples.container_inventory.simulator import Decision, Demand, Simulator, generator
from examples.container_inventory.topology import Port, Route, Topology, Vessel
from examples.container_inventory.worlds import FOUR_PORTS, ring_of, topology_from


def port(name: str, empties: int, *, to: str, capacity: int = 100, **changes: Any) -> Port:
    """A port whose cargo takes one tick to be stuffed, and boxes one to come back."""
    options: dict[str, Any] = {"orders": 1.0, "stuffing": (1, 1), "returning": (1, 1), **changes}
    return Port(name=name, capacity=capacity, empties=empties, destinations=((to, 1.0),), **options)


def two_ports(
    *vessels: Vessel, ports: tuple[Port, Port] | None = None, ticks: int = 10
) -> Topology:
    """Ports A and B, two ticks apart for vessels of speed 1."""
    return Topology(
        ports=ports or (port("A", 10, to="B"), port("B", 2, to="A")),
        routes=(Route(name="ferry", stops=("A", "B"), distances=(2.0, 2.0)),),
        vessels=vessels or (ferry(),),
        ticks=ticks,
    )


def ferry(capacity: int = 6, **changes: Any) -> Vessel:
    options: dict[str, Any] = {"speed": 1.0, "noise": 0.0, "first_arrival": 2, **changes}
    return Vessel(route="ferry", capacity=capacity, **options)


def ordered(*orders: tuple[int, int, int, int]) -> Demand:
    """Exactly these orders: (tick, source, destination, containers)."""

    def demand(topology: Topology, rng: np.random.Generator) -> np.ndarray:
        del rng
        ports = len(topology.ports)
        table = np.zeros((topology.ticks, ports, ports), np.int64)
        for tick, source, destination, containers in orders:
            table[tick, source, destination] += containers
        return table

    return demand


def due(simulator: Simulator) -> Decision:
    decision = simulator.advance()
    assert decision is not None
    return decision


def test_a_small_world_is_as_computed_by_hand():
    orders = ordered((0, 0, 1, 4), (1, 0, 1, 8), (6, 1, 0, 3), (9, 0, 1, 2))
    world = Simulator(two_ports(), 0, orders)
    # Tick 0: 4 of 10 empties. Tick 1: 6 are left for 8. Tick 2: all 10 wait, 6 of them board.
    first = due(world)
    assert (first.tick, first.port, first.load, first.discharge) == (2, 0, 0, 0)
    assert first.upcoming == ((1, 3.0),)
    assert world.waiting[0, 1] == 4
    assert world.laden.tolist() == [[0, 6]]
    world.decide(0)
    # One tick at berth and two at sea later, 6 are landed; B still has its first 2 empties.
    second = due(world)
    assert (second.tick, second.port, second.load, second.discharge) == (5, 1, 2, 0)
    assert world.laden.sum() == 0
    world.decide(-1)
    # Tick 6: the 6 are back in B's yard, which then serves 3. Tick 8: in A the last 4 board.
    third = due(world)
    assert (third.tick, third.port, third.load, third.discharge) == (8, 0, 0, 1)
    assert world.laden.tolist() == [[0, 4]]
    assert world.empties.tolist() == [0, 4]
    world.decide(1)
    # Tick 9: A has that one empty for an order of 2.
    assert world.advance() is None
    assert world.over
    assert world.fulfilled.sum(axis=1).tolist() == [4, 6, 0, 0, 0, 0, 3, 0, 0, 1]
    assert world.shortage.sum(axis=1).tolist() == [0, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (world.moved, world.decisions, world.containers) == (2, 3, 12)


def test_in_a_tick_boxes_come_back_then_orders_then_vessels_in_their_order():
    ports = (port("A", 0, to="B", stuffing=(0, 0)), port("B", 0, to="A"))
    vessels = (
        ferry(capacity=5, first_arrival=3),
        ferry(capacity=5, first_arrival=0, first_stop=1, empties=5),
    )
    # The second vessel takes 5 empties to A, lands them there in tick 3, after the first's call.
    world = Simulator(two_ports(*vessels, ports=ports), 0, ordered((3, 0, 1, 4), (4, 0, 1, 4)))
    start = due(world)
    assert (start.tick, start.vessel, start.port) == (0, 1, 1)
    world.decide(0)
    calls = [due(world)]
    world.decide(0)
    calls.append(due(world))
    world.decide(5)
    assert [(call.tick, call.vessel, call.port) for call in calls] == [(3, 0, 0), (3, 1, 0)]
    calls.append(due(world))
    assert world.shortage[:, 0].tolist()[3:5] == [4, 0]
    assert world.waiting[0, 1] == 4  # stuffed at once, but the vessels have left


def test_cargo_stuffed_without_delay_boards_in_the_tick_of_its_order():
    ports = (port("A", 3, to="B", stuffing=(0, 0)), port("B", 0, to="A", returning=(0, 0)))
    world = Simulator(two_ports(ports=ports), 0, ordered((2, 0, 1, 3)))
    due(world)
    assert world.laden.tolist() == [[0, 3]]
    world.decide(0)
    assert due(world).load == 3  # and is an empty box again in the tick of its discharge


def test_laden_containers_come_first_and_land_empties_that_are_in_their_way():
    vessel = ferry(capacity=6, empties=6)
    ports = (port("A", 4, to="B", capacity=4), port("B", 0, to="A"))
    world = Simulator(two_ports(vessel, ports=ports), 0, ordered((0, 0, 1, 4)))
    decision = due(world)
    assert world.laden.tolist() == [[0, 4]]
    assert world.aboard.tolist() == [2]
    assert (decision.load, decision.discharge) == (0, 0)  # the yard of 4 is full again
    assert world.empties.tolist() == [4, 0]


def test_the_next_port_of_call_is_loaded_for_first():
    ports = tuple(
        Port(name=n, capacity=9, empties=9, orders=0.0, destinations=(), stuffing=(0, 0))
        for n in "ABC"
    )
    loop = Route(name="ferry", stops=("A", "C", "B"), distances=(1.0, 1.0, 1.0))
    world = Simulator(
        Topology(ports=ports, routes=(loop,), vessels=(ferry(capacity=5),), ticks=4),
        0,
        ordered((0, 0, 1, 4), (0, 0, 2, 4)),
    )
    assert due(world).upcoming == ((2, 2.0), (1, 4.0))
    assert world.laden.tolist() == [[0, 1, 4]]


def drive(world: Simulator, fractions: Sequence[float]) -> list[tuple[Decision, int]]:
    """Run an episode by fractions of the scope, in turn; check the world at every decision."""
    made: list[tuple[Decision, int]] = []
    while (decision := world.advance()) is not None:
        fraction = fractions[len(made) % len(fractions)]
        quantity = round(fraction * (decision.load if fraction < 0 else decision.discharge))
        check_sound(world)
        world.decide(quantity)
        check_sound(world)
        made.append((decision, quantity))
    return made


def check_sound(world: Simulator) -> None:
    assert world.containers == world.topology.containers
    for place in (world.empties, world.waiting, world.laden, world.aboard):
        assert (place >= 0).all()
    capacities = np.array([vessel.capacity for vessel in world.topology.vessels])
    assert (world.laden.sum(axis=1) + world.aboard <= capacities).all()


@st.composite
def worlds(draw: st.DrawFn) -> Topology:
    base = draw(st.sampled_from([FOUR_PORTS, ring_of(2), ring_of(3)]))
    low = draw(st.integers(0, 3))
    delays = (low, low + draw(st.integers(0, 3)))
    ports = tuple(
        dataclasses.replace(
            each,
            empties=draw(st.integers(0, 400)),
            capacity=draw(st.integers(0, 400)),
            noise=draw(st.sampled_from([0.0, 1.0])),
            stuffing=delays,
            returning=delays,
        )
        for each in base.ports
    )
    capacity = draw(st.integers(0, 300))
    vessels = tuple(
        dataclasses.replace(
            vessel,
            capacity=capacity,
            empties=draw(st.integers(0, capacity)),
            noise=draw(st.sampled_from([0.0, 0.9])),
        )
        for vessel in base.vessels
    )
    return dataclasses.replace(
        base, ports=ports, vessels=vessels, ticks=40, berth=draw(st.integers(0, 2))
    )


@settings(max_examples=60, deadline=None)
@given(worlds(), st.integers(0, 2**32), st.lists(st.floats(-1, 1), min_size=1, max_size=7))
def test_containers_are_never_made_or_lost_and_fit_where_they_are(
    topology: Topology, seed: int, fractions: list[float]
):
    world = Simulator(topology, seed)
    made = drive(world, fractions)
    check_sound(world)
    assert [decision.tick for decision, _ in made] == sorted(d.tick for d, _ in made)
    assert np.array_equal(world.fulfilled + world.shortage, world.orders.sum(axis=2))
    assert world.moved == sum(abs(quantity) for _, quantity in made)


def test_the_same_seed_and_decisions_give_the_same_episode_and_another_seed_another():
    runs = [drive(Simulator(FOUR_PORTS, seed), [-0.7, 0.3, 1.0]) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_orders_and_vessels_do_not_depend_on_what_is_decided():
    one, other = Simulator(FOUR_PORTS, 5), Simulator(FOUR_PORTS, 5)
    calls = [[(d.tick, d.vessel, d.port) for d, _ in drive(one, [0.0])]]
    calls.append([(d.tick, d.vessel, d.port) for d, _ in drive(other, [-1.0, 1.0, 0.5])])
    assert calls[0] == calls[1]
    assert np.array_equal(one.orders, other.orders)
    assert not np.array_equal(one.shortage, other.shortage)


def test_purposes_draw_from_streams_of_their_own():
    drawn = [generator(3, purpose).random(4) for purpose in ("orders", "sailing", "ashore")]
    assert len({array.tobytes() for array in drawn}) == 3
    stormy = dataclasses.replace(
        FOUR_PORTS,
        vessels=tuple(dataclasses.replace(each, noise=0.5) for each in FOUR_PORTS.vessels),
    )
    assert np.array_equal(Simulator(FOUR_PORTS, 3).orders, Simulator(stormy, 3).orders)


def test_orders_follow_the_shares_the_season_and_their_means():
    long = dataclasses.replace(FOUR_PORTS, ticks=12_000)
    orders = Simulator(long, 1).orders
    assert np.allclose(orders.sum(axis=2).mean(axis=0), [24, 16, 6, 6], rtol=0.03)
    assert np.allclose(orders[:, 0].mean(axis=0) / 24, [0, 0.10, 0.55, 0.35], atol=0.01)
    waves = orders[:, 0].sum(axis=1).reshape(100, 120).mean(axis=0)
    assert np.argmax(np.convolve(waves, np.ones(9), "same")) == pytest.approx(30, abs=8)
    assert waves[22:38].mean() / waves[82:98].mean() == pytest.approx(1.4 / 0.6, rel=0.1)


@pytest.mark.parametrize("quantity", [-3, 1])
def test_more_than_the_scope_is_refused(quantity: int):
    world = Simulator(two_ports(ferry(first_stop=1)), 0, ordered())
    assert (due(world).load, world.aboard.sum()) == (2, 0)
    with pytest.raises(ConfigError, match="the scope is -2 to 0"):
        world.decide(quantity)
    world.decide(-2)
    with pytest.raises(ConfigError, match="nothing is to be decided"):
        world.decide(0)


def test_a_pending_decision_cannot_be_passed_over():
    world = Simulator(two_ports(), 0, ordered())
    due(world)
    with pytest.raises(ConfigError, match=r"call decide\(\) first"):
        world.advance()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ticks": 0}, "1 tick or more"),
        ({"berth": -1}, "negative"),
        ({"ports": (port("A", 1, to="B"), port("A", 1, to="B"))}, "two have one name"),
        ({"ports": (port("A", -1, to="B"), port("B", 1, to="A"))}, "a figure is negative"),
        ({"ports": (port("A", 1, to="A"), port("B", 1, to="A"))}, "no destination"),
        ({"ports": (port("A", 1, to="B", stuffing=(3, 2)), port("B", 1, to="A"))}, "no range"),
        ({"ports": (port("A", 1, to="B", season=1.5), port("B", 1, to="A"))}, "could be negative"),
        ({"vessels": (ferry(first_stop=2),)}, "no such first stop"),
        ({"vessels": (ferry(speed=0.0),)}, "cannot sail"),
        ({"vessels": (ferry(empties=7),)}, "do not fit"),
        ({"vessels": (Vessel(route="b", capacity=1, speed=1.0),)}, "unknown route"),
        ({"vessels": ()}, "no vessel sails from there"),
        ({"routes": (Route(name="ferry", stops=("A", "B"), distances=(1.0,)),)}, "give 2"),
        ({"routes": (Route(name="ferry", stops=("A", "C"), distances=(1.0, 1.0)),)}, "no cycle"),
    ],
)
def test_a_world_that_cannot_be_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(two_ports(), **changes)


def test_worlds_are_named_or_given_as_plain_data():
    assert topology_from("four-ports") is FOUR_PORTS
    assert len(topology_from("ring-5").ports) == 10
    plain = dataclasses.asdict(ring_of(3))
    plain["ports"] = [
        {**each, "destinations": list(each["destinations"])} for each in plain["ports"]
    ]
    assert topology_from(plain) == ring_of(3)
    assert topology_from({"base": "four-ports", "berth": 2}).berth == 2
    for wrong in ("five-ports", "ring-x", "ring-1", {"base": "four-ports", "brth": 2}):
        with pytest.raises(ConfigError):
            topology_from(wrong)


def test_the_environment_accounts_for_every_order_once():
    env = ContainerEnv(ticks=80)
    decision, info = env.reset(seed=4)
    assert info == {"seed": 4}
    total, steps, over = 0.0, 0, False
    while not over:
        assert decision is not None
        decision, reward, terminated, over, _ = env.step(-decision.load // 2)
        assert not terminated
        total, steps = total + reward, steps + 1
    assert decision is None
    metrics = env.metrics
    assert total == metrics["order_requirements"] - 2 * metrics["container_shortage"]
    assert metrics["decisions"] == steps
    assert metrics["order_requirements"] == env.simulator.orders.sum()
    assert metrics["fulfilment"] == pytest.approx(
        1 - metrics["container_shortage"] / metrics["order_requirements"]
    )


def test_unseeded_episodes_differ_and_follow_from_the_seed_before():
    env = ContainerEnv(ticks=20)
    seeds = [[env.reset(seed=seed)[1]["seed"] for seed in (1, None, None)] for _ in range(2)]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 3


def test_repositioning_matters():
    env = ContainerEnv()
    rng = np.random.default_rng(0)
    short = [
        sum(play(env, choose, seed)["container_shortage"] for seed in range(3))
        for choose in (no_op, Random(rng), Balance())
    ]
    assert short[1] < 0.85 * short[0]
    assert short[2] < 0.3 * short[1]
