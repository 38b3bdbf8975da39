"""Rounds, stages, games and episodes of the stand-in's fights, and the states that an engine reports."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ludus.games.diambra.standin.fight import Fight, Fighter
from ludus.games.diambra.standin.opponent import Opponent

TICKS_PER_SECOND = 60
Bounds = tuple[str, int, int]
"""A state's kind (BOX, DISCRETE, BINARY), its lowest and its highest value."""


@dataclass(frozen=True)
class FightRules:
    """Properties of a game, as the client lists them."""

    game_id: str
    title: str
    characters: tuple[str, ...]
    difficulties: int
    rounds: int
    stages: int
    team: int
    moves: int
    attacks: int
    single_attacks: int
    frame_shape: tuple[int, int, int]
    common: dict[str, Bounds]
    player: dict[str, Bounds]

    @classmethod
    def of(cls, listed: dict[str, Any]) -> FightRules:
        """Create the rules from the client's entry of the game."""

        def bounds(states: dict[str, list[Any]]) -> dict[str, Bounds]:
            return {name: (kind, low, high) for name, (kind, low, high) in states.items()}

        moves, attacks, singles = listed["n_actions"]
        return cls(
            game_id=listed["id"],
            title=listed["name"],
            characters=tuple(listed["char_list"]),
            difficulties=listed["difficulty"][1],
            rounds=listed["rounds_per_stage"],
            stages=listed["stages_per_game"],
            team=listed["number_of_chars_per_round"],
            moves=moves,
            attacks=attacks,
            single_attacks=singles,
            frame_shape=tuple(listed["frame_shape"]),
            common=bounds(listed["ram_states"]["common"]),
            player=bounds(listed["ram_states"]["Px"]),
        )

    @property
    def health(self) -> tuple[int, int]:
        """The lowest and the initial health of one fighter."""
        _, low, high = self.player["health" if "health" in self.player else "health_1"]
        return low, high

    @property
    def team_health(self) -> int:
        low, high = self.health
        return (high - low) * self.team

    @property
    def seconds(self) -> int:
        return self.common["timer"][2]


@dataclass(frozen=True)
class FightSeat:
    """A player: its side (0 for P1) and its characters, by their numbers."""

    side: int
    characters: tuple[int, ...]
    super_type: int = 0


@dataclass(frozen=True)
class EpisodeRules:
    """Settings of an episode. `continue_game` is a probability, or minus the number of continues."""

    seed: int
    difficulty: int
    continue_game: float
    players: tuple[FightSeat, ...]


@dataclass
class Done:
    """The events of the last step: the end of a round, stage, game or episode."""

    round: bool = False
    stage: bool = False
    game: bool = False
    episode: bool = False


class Match:
    """One episode of a game, for one player against the computer or for two players."""

    def __init__(self, rules: FightRules, episode: EpisodeRules, step_ratio: int) -> None:
        self.rules = rules
        self.episode = episode
        self._step_ratio = step_ratio
        self._chance = random.Random(episode.seed)
        self.stage = 1
        self.wins = [0, 0]
        self.done = Done()
        self.reward = 0
        self._continues = 0
        self.characters: list[tuple[int, ...]] = [(0,), (0,)]
        for player in episode.players:
            self.characters[player.side] = player.characters
        self.supers = [0, 0]
        for player in episode.players:
            self.supers[player.side] = player.super_type
        if len(episode.players) == 1:
            self._draw_rival()
        self._begin_round()

    @property
    def own_side(self) -> int:
        """The side whose reward is reported: that of the first player."""
        return self.episode.players[0].side

    @property
    def timer(self) -> int:
        """The seconds left, as shown."""
        return max(0, self.rules.seconds - self.ticks // TICKS_PER_SECOND)

    def step(self, actions: list[tuple[int, int]]) -> None:
        """Play one step: the first player's action, and the second's if there are two players."""
        own, rival = self.own_side, 1 - self.own_side
        before = [self._points(side) for side in (0, 1)]
        self.done = Done()
        for _ in range(self._step_ratio):
            chosen = [(0, 0), (0, 0)]
            for player, action in zip(self.episode.players, actions, strict=True):
                chosen[player.side] = action
            if len(self.episode.players) == 1:
                chosen[rival] = self._opponent.choose(self.fight, self.ticks)
            self.fight.tick(chosen)
            self.ticks += 1
            if any(fighter.beaten for fighter in self.fight.fighters) or self.timer == 0:
                self.done.round = True
                break
        after = [self._points(side) for side in (0, 1)]
        self.reward = (before[rival] - after[rival]) - (before[own] - after[own])
        if self.done.round:
            self._end_round()

    def states(self, side: int) -> dict[str, int]:
        """Return the reported states of one side, each within its bounds."""
        fighter = self.fight.fighters[side]
        known = self._known_states(side, fighter)
        found = {}
        for name, (_, low, high) in self.rules.player.items():
            value = known.get(name, low)
            if name.endswith("_bar"):
                value = low + round((high - low) * (fighter.dizziness if name == "stun_bar" else fighter.bar))
            found[name] = low if value < low else high if value > high else value
        return found

    def common_states(self) -> dict[str, int]:
        return {"stage": self.stage, "timer": self.timer}

    # Internals

    def _known_states(self, side: int, fighter: Fighter) -> dict[str, int]:
        """Return the states other than bars, by name, for all games."""
        team = self.characters[side]
        known = {
            "side": int(fighter.facing < 0),  # 0: left of the other
            "wins": self.wins[side],
            "character": team[min(fighter.active, len(team) - 1)],
            "health": self._health(fighter.healths[0]),
            "active_character": fighter.active,
            "stunned": int(fighter.dizzy > 0),
            "super_type": self.supers[side],
            "super_count": int(fighter.bar >= 1.0),
            "super_max_count": 1,
        }
        for number, character in enumerate(team, start=1):
            known[f"character_{number}"] = character
        for number, health in enumerate(fighter.healths, start=1):
            known[f"health_{number}"] = self._health(health)
        return known

    def _health(self, part: float) -> int:
        low, high = self.rules.health
        return low + round((high - low) * part)

    def _points(self, side: int) -> int:
        return sum(self._health(part) for part in self.fight.fighters[side].healths)

    def _draw_rival(self) -> None:
        side = 1 - self.own_side
        self.characters[side] = tuple(self._chance.randrange(len(self.rules.characters)) for _ in range(3))

    def _begin_round(self) -> None:
        self.fight = Fight(self.rules.single_attacks, self.rules.team)
        self.ticks = 0
        levels = max(self.rules.difficulties - 1, 1)
        skill = 0.75 * (self.episode.difficulty - 1) / levels + 0.25 * (self.stage - 1) / self.rules.stages
        self._opponent = Opponent(1 - self.own_side, skill, self._chance)

    def _end_round(self) -> None:
        own, rival = self.own_side, 1 - self.own_side
        winner = own if self._points(own) > self._points(rival) else rival
        self.wins[winner] += 1
        if self.wins[winner] >= self.rules.rounds:
            self._end_stage(won=winner == own)
        if not self.done.episode:
            self._begin_round()

    def _end_stage(self, *, won: bool) -> None:
        if len(self.episode.players) == 2:
            self.done.stage = self.done.game = self.done.episode = True
            return
        if won:
            self.done.stage = True
            if self.stage >= self.rules.stages:
                self.done.game = self.done.episode = True
                return
            self.stage += 1
            self._draw_rival()
        else:
            self.done.game = True
            if not self._continues_game():
                self.done.episode = True
                return
        self.wins = [0, 0]

    def _continues_game(self) -> bool:
        chance = self.episode.continue_game
        if chance >= 0:
            return self._chance.random() < chance
        self._continues += 1
        return self._continues <= int(-chance)
