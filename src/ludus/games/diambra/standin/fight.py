"""The fight of the stand-in: two fighters on a line, blows with a wind-up, blocking, knock-outs; 60 ticks per second.

Positions and reaches are fractions of the arena's width, damage is a fraction of a full health bar.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# (left or right, up or down) of each move, in the engine's order.
MOVES = ((0, 0), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
MOVE_NAMES = ("NoMove", "Left", "UpLeft", "Up", "UpRight", "Right", "DownRight", "Down", "DownLeft")

_WALK = 0.009
_NEAREST = 0.09
_JUMP_TICKS = 24
_BLOCKED_TICKS = 6
_BLOCKED_PART = 0.1
_PUSH = 0.05
_DIZZY_TICKS = 60
_DIZZY_AT = 0.6
_START = (0.32, 0.68)
_LEFT_WALL, _RIGHT_WALL = 0.06, 0.94


@dataclass(frozen=True)
class Blow:
    """Ticks of wind-up, active phase and recovery; reach; damage; ticks that the other fighter is hurt."""

    windup: int
    active: int
    recovery: int
    reach: float
    damage: float
    hurts: int


LIGHT = Blow(4, 3, 8, 0.15, 0.05, 9)
MEDIUM = Blow(8, 3, 14, 0.19, 0.10, 14)
HEAVY = Blow(15, 4, 26, 0.23, 0.17, 20)
SUPER = Blow(5, 6, 24, 0.28, 0.30, 30)
_BY_BUTTON = (LIGHT, MEDIUM, HEAVY)
FULL_BAR = 1.0


@dataclass
class Fighter:
    """One side. `healths` has one entry per team member; the first with health left fights."""

    x: float
    facing: int
    healths: list[float]
    move: tuple[int, int] = (0, 0)
    blow: Blow | None = None
    since: int = 0
    landed: bool = False
    hurt: int = 0
    air: int = 0
    bar: float = 0.0
    dizziness: float = 0.0
    dizzy: int = 0

    @property
    def active(self) -> int:
        """The index of the team member that fights."""
        return next((i for i, health in enumerate(self.healths) if health > 0), len(self.healths) - 1)

    @property
    def beaten(self) -> bool:
        return all(health <= 0 for health in self.healths)

    @property
    def busy(self) -> bool:
        return self.blow is not None or self.hurt > 0 or self.dizzy > 0

    @property
    def winding_up(self) -> bool:
        return self.blow is not None and self.since < self.blow.windup

    @property
    def striking(self) -> bool:
        return self.blow is not None and 0 <= self.since - self.blow.windup < self.blow.active

    @property
    def recovering(self) -> bool:
        return self.blow is not None and self.since >= self.blow.windup + self.blow.active

    @property
    def guarding(self) -> bool:
        """True if the fighter blocks: it holds back and does nothing else."""
        return not self.busy and self.air == 0 and self.move[0] == -self.facing


@dataclass
class Fight:
    """One round. `tick` advances it by a sixtieth of a second."""

    singles: int
    """Attack numbers below this are single buttons, the others combinations: with a full bar, a super."""
    team: int = 1
    fighters: list[Fighter] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fighters = [
            Fighter(x, facing, [1.0] * self.team) for x, facing in zip(_START, (1, -1), strict=True)
        ]

    @property
    def distance(self) -> float:
        left, right = self.fighters
        return abs(left.x - right.x)

    def tick(self, actions: list[tuple[int, int]]) -> None:
        """Advance by one tick with a (move, attack) for each side."""
        for fighter, action in zip(self.fighters, actions, strict=True):
            self._begin(fighter, *action)
        for index, fighter in enumerate(self.fighters):
            self._walk(fighter, self.fighters[1 - index])
        left, right = self.fighters
        if left.x != right.x:
            left.facing = 1 if left.x < right.x else -1
            right.facing = -left.facing
        landing = [self._landing(side) for side in (0, 1)]  # computed first: two blows in one tick both land
        for side, blow in enumerate(landing):
            if blow is not None:
                self._land(blow, self.fighters[side], self.fighters[1 - side])
        for fighter in self.fighters:
            self._pass_time(fighter)

    def _begin(self, fighter: Fighter, move: int, attack: int) -> None:
        fighter.move = MOVES[move] if 0 <= move < len(MOVES) else MOVES[0]
        if fighter.busy:
            return
        if attack > 0:
            fighter.blow = _BY_BUTTON[(attack - 1) % 3]
            if attack >= self.singles:
                fighter.blow = MEDIUM
                if fighter.bar >= FULL_BAR:
                    fighter.blow, fighter.bar = SUPER, 0.0
            fighter.since, fighter.landed = 0, False
        elif fighter.move[1] > 0 and fighter.air == 0:
            fighter.air = _JUMP_TICKS

    def _walk(self, fighter: Fighter, other: Fighter) -> None:
        if fighter.busy and fighter.air == 0:
            return
        if fighter.move[1] < 0 and fighter.air == 0:
            return  # crouching
        x = fighter.x + _WALK * fighter.move[0] * (1.5 if fighter.air else 1.0)
        if fighter.air == 0 and other.air == 0 and abs(x - other.x) < _NEAREST:
            return
        fighter.x = min(max(x, _LEFT_WALL), _RIGHT_WALL)

    def _landing(self, side: int) -> Blow | None:
        """Return the blow of this side that hits the other one in this tick, if any."""
        attacker, other = self.fighters[side], self.fighters[1 - side]
        blow = attacker.blow
        if blow is None or not attacker.striking or attacker.landed or self.distance > blow.reach:
            return None
        jumps_over = other.air > 0 and attacker.air == 0 and blow is not SUPER
        ducks_under = other.move[1] < 0 and not other.busy and blow is HEAVY
        return None if jumps_over or ducks_under else blow

    def _land(self, blow: Blow, attacker: Fighter, other: Fighter) -> None:
        blocked = other.guarding
        damage = blow.damage * (_BLOCKED_PART if blocked else 1.0)
        attacker.landed = True
        attacker.bar = min(FULL_BAR, attacker.bar + damage)
        active = other.active
        other.healths[active] = max(0.0, other.healths[active] - damage)
        other.x = min(max(other.x - _PUSH * other.facing, _LEFT_WALL), _RIGHT_WALL)
        other.hurt = _BLOCKED_TICKS if blocked else blow.hurts
        if not blocked:
            other.blow = None
            other.dizziness += damage
            if other.dizziness >= _DIZZY_AT and other.dizzy == 0:
                other.dizzy, other.dizziness = _DIZZY_TICKS, 0.0

    def _pass_time(self, fighter: Fighter) -> None:
        fighter.hurt = max(0, fighter.hurt - 1)
        fighter.dizzy = max(0, fighter.dizzy - 1)
        fighter.air = max(0, fighter.air - 1)
        fighter.dizziness = max(0.0, fighter.dizziness - 0.0008)
        if fighter.blow is not None:
            fighter.since += 1
            if fighter.since >= fighter.blow.windup + fighter.blow.active + fighter.blow.recovery:
                fighter.blow = None
