"""Play in a window, by a policy or by hand, on SDL's dummy screen."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from ludus.envs.human import key_bindings
from ludus.errors import UserError
from ludus.evaluation.load import RandomBot
from ludus.evaluation.play import play_by_hand, watch

pygame = pytest.importorskip("pygame")


@pytest.fixture(autouse=True)
def unseen_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


class Typist(gym.Wrapper[Any, Any, Any, Any]):
    """Types a script while the env is drawn: one entry per picture, `+key` pressed or `-key` released.

    `actions` are those that arrived at the env.
    """

    def __init__(self, env: gym.Env[Any, Any], script: list[str]) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "render_fps": 1000}
        self._script = list(script)
        self.actions: list[Any] = []

    def render(self) -> Any:
        for word in self._script.pop(0).split() if self._script else ["+escape"]:
            kind = pygame.KEYDOWN if word[0] == "+" else pygame.KEYUP
            pygame.event.post(pygame.event.Event(kind, key=pygame.key.key_code(word[1:])))
        return self.env.render()

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return self.env.step(action)


def by_hand(env_id: str, script: list[str], episodes: int = 1) -> tuple[list[Any], list[float]]:
    """Return the actions of the keys in `script`, and the rewards of the finished episodes."""
    env = Typist(gym.make(env_id, render_mode="rgb_array"), script)
    bindings = key_bindings(env)
    assert bindings is not None
    records = play_by_hand(env, bindings, list(range(episodes)), say=lambda text: None)
    env.close()
    return env.actions, [record.reward for record in records]


def test_game_without_an_idle_action_waits_for_a_key_and_repeats_the_last() -> None:
    actions, _ = by_hand("CartPole-v1", ["+right", "", "-right", "+left", "-left", ""])
    assert actions == [1, 1, 1, 0, 0, 0]


def test_game_with_an_idle_action_runs_in_real_time() -> None:
    pytest.importorskip("Box2D")
    actions, _ = by_hand("LunarLander-v3", ["", "+up", "", "+left", "-left", "-up", ""])
    # up and left together have no action here: the newest key counts
    assert actions == [0, 2, 2, 1, 2, 0, 0]


def test_turn_based_game_moves_once_per_key_press() -> None:
    actions, rewards = by_hand(
        "CliffWalking-v1", ["+up -up", "+right", "-right +right", "-right +down -down"]
    )
    assert actions == [0, 1, 1, 2]
    assert rewards == []  # ended by Escape, in the middle


def test_every_episode_is_played_to_its_end_and_counted() -> None:
    path = ["+up -up"] + ["+right -right"] * 11 + ["+down -down"]
    # the last picture of the first episode is drawn again before the second begins
    _, rewards = by_hand("CliffWalking-v1", [*path, "", *path], episodes=2)
    assert rewards == [-13.0, -13.0]


def test_a_policy_plays_in_the_window_until_it_is_closed() -> None:
    env = gym.make("CartPole-v1", render_mode="human")
    env.unwrapped.metadata = {**env.metadata, "render_fps": 1000}
    assert len(watch(RandomBot(env.action_space), env, [0, 1])) == 2

    class Closing(RandomBot):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            pygame.event.post(pygame.event.Event(pygame.QUIT))
            return super().predict(*args, **kwargs)

    assert watch(Closing(env.action_space), env, [0, 1]) == []
    env.close()


def test_missing_screen_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame.display.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "no-such-driver")
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    with pytest.raises(UserError, match="cannot open a window"):
        play_by_hand(env, {("left",): 0}, [0])
    env.close()


def test_env_without_pictures_raises() -> None:
    class Blind(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return np.zeros(1, np.float32), {}

    with pytest.raises(UserError, match="does not render pictures"):
        play_by_hand(Blind(), {(): 0}, [0])
