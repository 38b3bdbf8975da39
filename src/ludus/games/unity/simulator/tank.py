"""The tank tasks: a tank in a walled yard with round obstacles, and a target to reach (uc1), hunt (uc2) or duel (uc3).

Units are metres and seconds; angles are degrees in messages and radians in the code; y is ahead. One seed sets all
random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ludus.types import Array

YARD = 12.0  # distance from the centre to each wall
RADIUS = 0.8
RAYS = 20
RANGE = 10.0
MAX_HEALTH = 100.0
BUMP = 5.0  # health lost per step of driving into something
REACH = 1.5  # distance at which the target counts as reached
STAY = 0.3  # seconds to stay there
SHOT_RANGE, SHOT_DAMAGE, FIRE_RATE = 20.0, 20.0, 2.0
ENEMY_RANGE, ENEMY_DAMAGE, ENEMY_RATE, ENEMY_AIM = 12.0, 10.0, 0.7, 0.4
_RAY_ANGLES = np.arange(RAYS) * (2.0 * math.pi / RAYS)


@dataclass
class Body:
    """A tank or a target that drives."""

    x: float = 0.0
    y: float = 0.0
    heading: float = 0.0
    speed: float = 0.0
    turning: float = 0.0
    health: float = MAX_HEALTH

    def pose(self) -> dict[str, float]:
        return {"x": self.x, "y": self.y, "theta": math.degrees(self.heading)}

    def twist(self) -> dict[str, float]:
        return {"x": 0.0, "y": self.speed, "theta": self.turning}

    def health_info(self) -> dict[str, float]:
        return {"max_health": MAX_HEALTH, "health": max(0.0, self.health)}

    def distance(self, other: Body) -> float:
        return math.hypot(other.x - self.x, other.y - self.y)


@dataclass
class Yard:
    """The state of one simulator."""

    use_case: str
    seed: int = 0
    n_obstacles: int = 4
    dt: float = 0.1
    tank: Body = field(default_factory=Body)
    target: Body = field(default_factory=Body)
    turret: float = 0.0
    cooldown: float = 0.0
    fired: bool = False
    timer: float = 0.0

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self.obstacles: Array = np.zeros((0, 3))  # x, y, radius
        self._goal = (0.0, 0.0)
        self._enemy_cooldown = 0.0
        self.reset()

    def reset(self) -> None:
        """Create a new yard: tank, target, then obstacles that keep away from both."""
        rng = self._rng
        self.tank = Body(*self._random_position(), heading=float(rng.uniform(-math.pi, math.pi)))
        self.target = Body(*self._random_position(), heading=float(rng.uniform(-math.pi, math.pi)))
        while self.tank.distance(self.target) < 4.0:
            self.target.x, self.target.y = self._random_position()
        circles: list[tuple[float, float, float]] = []
        for _ in range(50 * self.n_obstacles):
            if len(circles) == self.n_obstacles:
                break
            x, y = self._random_position()
            radius = float(rng.uniform(0.7, 1.5))
            clear = radius + RADIUS + 1.0
            if all(math.hypot(x - body.x, y - body.y) > clear for body in (self.tank, self.target)):
                circles.append((x, y, radius))
        self.obstacles = np.array(circles).reshape(-1, 3)
        self.turret = self.cooldown = self.timer = self._enemy_cooldown = 0.0
        self.fired = False
        self._goal = self._random_position()

    def step(self, action: dict[str, Any]) -> None:
        """Drive, turn the turret and shoot for one sample time, as a TankAction describes."""
        wanted, gun = action["target_twist"], action["turret_actuator"]
        if not self._drive(self.tank, _limited(wanted["y"], 5.0), _limited(wanted["theta"], 5.0)):
            self.tank.health -= BUMP
        self.turret = _wrapped(self.turret + _limited(gun["rotation_speed"], 5.5) * self.dt)
        self.cooldown = max(0.0, self.cooldown - self.dt)
        self.fired = bool(gun["fire"]) and self.cooldown == 0.0 and self.use_case != "uc1"
        if self.fired:
            self.cooldown = 1.0 / FIRE_RATE
            if self._on_target():
                self.target.health -= SHOT_DAMAGE
        if self.use_case == "uc1":
            self.timer = self.timer + self.dt if self.tank.distance(self.target) < REACH else 0.0
        else:
            self._target_acts()

    def state(self) -> dict[str, Any]:
        """Return the AgentState message."""
        ranges, tags, ahead = self._scan_with_turret()
        turret = {
            "current_angle": math.degrees(self.turret),
            "max_laser_range": SHOT_RANGE,
            "laser_range": min(SHOT_RANGE, ahead),
            "fire_rate": FIRE_RATE,
            "cooldown": self.cooldown,
            "has_fired": self.fired,
        }
        tank = {
            "pose": self.tank.pose(),
            "twist": self.tank.twist(),
            "health_info": self.tank.health_info(),
            "smart_laser_scan": {
                "angle_min": 0.0,
                "angle_max": 360.0,
                "angle_increment": 360.0 / RAYS,
                "range_min": 0.0,
                "range_max": RANGE,
                "ranges": ranges,
                "tags": tags,
            },
            "turret_sensor": turret,
        }
        if self.use_case == "uc1":
            trigger = {"timer_count": self.timer, "max_timer_count": STAY}
            return {"tank": tank, "target_pose": self.target.pose(), "target_trigger_sensor": trigger}
        target = {
            "pose": self.target.pose(),
            "twist": self.target.twist(),
            "health_info": self.target.health_info(),
        }
        return {"tank": tank, "target_tank": target}

    def scan(self) -> tuple[Array, Array]:
        """Return the length of each ray, and what it hits: 0 nothing, 1 a wall, 2 an obstacle."""
        return self._scan_with_turret()[:2]

    def _scan_with_turret(self) -> tuple[Array, Array, float]:
        """Return `scan` and the free distance along the turret."""
        walls, circles = self._cast(self.tank.heading + np.append(_RAY_ANGLES, self.turret))
        free = np.minimum(walls, circles)
        ranges = np.minimum(free[:RAYS], RANGE)
        tags = np.where(ranges >= RANGE, 0, np.where(circles[:RAYS] < walls[:RAYS], 2, 1)).astype(np.int32)
        return ranges.astype(np.float32), tags, float(free[RAYS])

    def _cast(self, angles: Array) -> tuple[Array, Array]:
        """Return the distances along `angles` from the tank to the walls and to the nearest obstacle."""
        across, ahead = -np.sin(angles), np.cos(angles)
        with np.errstate(divide="ignore"):
            walls = np.minimum(
                (np.where(across > 0, YARD, -YARD) - self.tank.x) / across,
                (np.where(ahead > 0, YARD, -YARD) - self.tank.y) / ahead,
            )
        if not len(self.obstacles):
            return walls, np.full(len(angles), np.inf)
        x, y = self.obstacles[:, 0] - self.tank.x, self.obstacles[:, 1] - self.tank.y
        along = np.outer(across, x) + np.outer(ahead, y)
        inside = along**2 - (x**2 + y**2 - self.obstacles[:, 2] ** 2)
        way = along - np.sqrt(np.maximum(inside, 0.0))
        hits = np.where((inside > 0) & (along > 0), np.maximum(way, 0.0), np.inf)
        return walls, hits.min(axis=1)

    def _free_way(self, angle: float) -> float:
        walls, circles = self._cast(np.array([angle]))
        return float(min(walls[0], circles[0]))

    def _drive(self, body: Body, speed: float, turning: float) -> bool:
        """Move for one sample time; speeds change half way to the given ones. Returns False if it is blocked."""
        body.speed += 0.5 * (speed - body.speed)
        body.turning += 0.5 * (turning - body.turning)
        body.heading = _wrapped(body.heading + body.turning * self.dt)
        x = body.x - math.sin(body.heading) * body.speed * self.dt
        y = body.y + math.cos(body.heading) * body.speed * self.dt
        edge = YARD - RADIUS
        blocked = abs(x) > edge or abs(y) > edge
        for cx, cy, radius in self.obstacles.tolist():
            blocked = blocked or math.hypot(x - cx, y - cy) < radius + RADIUS
        if blocked:
            body.speed = 0.0
            return False
        body.x, body.y = x, y
        return True

    def _on_target(self) -> bool:
        distance = self.tank.distance(self.target)
        bearing = math.atan2(self.tank.x - self.target.x, self.target.y - self.tank.y)
        aim = self.tank.heading + self.turret
        off = abs(_wrapped(bearing - aim))
        near = distance < SHOT_RANGE and off < math.atan2(RADIUS + 0.4, distance)
        return near and self._free_way(bearing) >= distance - RADIUS

    def _target_acts(self) -> None:
        """Drive the target between random points; in uc3 it also shoots."""
        target = self.target
        if math.hypot(self._goal[0] - target.x, self._goal[1] - target.y) < 1.0:
            self._goal = self._random_position()
        bearing = math.atan2(target.x - self._goal[0], self._goal[1] - target.y)
        turn = _wrapped(bearing - target.heading)
        speed = (2.0 if self.use_case == "uc2" else 3.0) * max(0.0, math.cos(turn))
        if not self._drive(target, speed, _limited(3.0 * turn, 3.0)):
            self._goal = self._random_position()
        self._enemy_cooldown = max(0.0, self._enemy_cooldown - self.dt)
        near = target.distance(self.tank) < ENEMY_RANGE
        if self.use_case == "uc3" and near and self._enemy_cooldown == 0.0:
            self._enemy_cooldown = 1.0 / ENEMY_RATE
            if self._rng.random() < ENEMY_AIM:
                self.tank.health -= ENEMY_DAMAGE

    def _random_position(self) -> tuple[float, float]:
        x, y = self._rng.uniform(2.0 - YARD, YARD - 2.0, 2)
        return float(x), float(y)


def _limited(value: float, most: float) -> float:
    return max(-most, min(most, float(value))) if math.isfinite(value) else 0.0


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % (2.0 * math.pi) - math.pi
