"""The yard of the stand-in: driving, collisions, laser scan, shooting, reaching the target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ludus.games.unity.simulator.tank import STAY, Body, Yard


def action(
    ahead: float = 0.0, turning: float = 0.0, rotation: float = 0.0, fire: bool = False
) -> dict[str, Any]:
    return {
        "target_twist": {"x": 0.0, "y": ahead, "theta": turning},
        "turret_actuator": {"rotation_speed": rotation, "fire": fire},
    }


def empty_yard(use_case: str = "uc1") -> Yard:
    yard = Yard(use_case, n_obstacles=0)
    yard.tank, yard.target = Body(0.0, 0.0), Body(0.0, 8.0)
    return yard


def test_tank_drives_along_y_and_positive_rates_turn_left() -> None:
    yard = empty_yard()
    for _ in range(10):
        yard.step(action(ahead=2.0))
    assert yard.tank.x == pytest.approx(0.0) and 1.5 < yard.tank.y < 2.0
    for _ in range(5):
        yard.step(action(turning=1.0))
    assert 0.0 < yard.tank.heading < 0.6
    assert yard.state()["tank"]["pose"]["theta"] == pytest.approx(math.degrees(yard.tank.heading))


def test_ray_lengths_match_hand_computation() -> None:
    yard = empty_yard()
    yard.tank.x = 4.0
    yard.obstacles = np.array([[4.0, 5.0, 1.0]])
    ranges, tags = yard.scan()
    assert (ranges[0], tags[0]) == (4.0, 2)  # ahead: the obstacle's edge, 5 - 1 away
    assert (ranges[15], tags[15]) == (8.0, 1)  # to the right: the wall at 12
    assert (ranges[5], tags[5]) == (10.0, 0)  # to the left: nothing within range
    assert (ranges[10], tags[10]) == (10.0, 0)


def test_wall_stops_the_tank_and_costs_health() -> None:
    yard = empty_yard()
    for _ in range(40):
        yard.step(action(ahead=5.0))
    assert yard.tank.y < 12.0 and yard.tank.health < 100.0


def test_target_is_reached_by_staying_near_it() -> None:
    yard = empty_yard()
    yard.target = Body(0.0, 1.0)
    for _ in range(2):
        yard.step(action())
    assert yard.timer == pytest.approx(0.2)
    yard.step(action())
    assert yard.state()["target_trigger_sensor"]["timer_count"] >= STAY - 1e-9
    yard.target = Body(0.0, 9.0)
    yard.step(action())
    assert yard.timer == 0.0


def test_shot_hits_the_target_and_has_a_cooldown() -> None:
    yard = empty_yard("uc2")
    yard.step(action(fire=True))
    assert (yard.target.health, yard.fired) == (80.0, True)
    yard.step(action(fire=True))
    assert (yard.target.health, yard.fired) == (80.0, False)
    yard.turret = math.pi / 2
    yard.cooldown = 0.0
    yard.step(action(fire=True))
    assert (yard.target.health, yard.fired) == (80.0, True)  # fired, to the left


def test_obstacle_blocks_a_shot() -> None:
    yard = empty_yard("uc2")
    yard.obstacles = np.array([[0.0, 4.0, 1.0]])
    yard.step(action(fire=True))
    assert yard.target.health == 100.0


def test_target_shoots_back_only_in_uc3() -> None:
    healths = {}
    for use_case in ("uc2", "uc3"):
        yard = empty_yard(use_case)
        for _ in range(200):
            yard.step(action())
        healths[use_case] = yard.tank.health
    assert healths["uc2"] == 100.0 and healths["uc3"] < 100.0


def test_same_seed_gives_the_same_yards() -> None:
    one, two, other = Yard("uc1", seed=3), Yard("uc1", seed=3), Yard("uc1", seed=4)
    one.reset(), two.reset(), other.reset()
    assert one.state()["tank"]["pose"] == two.state()["tank"]["pose"]
    np.testing.assert_array_equal(one.obstacles, two.obstacles)
    assert one.state()["tank"]["pose"] != other.state()["tank"]["pose"]


def test_invalid_actions_keep_the_state_finite() -> None:
    yard = empty_yard()
    yard.step(action(ahead=float("nan"), turning=float("inf"), rotation=1e30))
    assert math.isfinite(yard.tank.y) and abs(yard.tank.turning) <= 5.0
