from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.envs.masks import ActionMaskWrapper, has_masks, mask_size, sample_legal
from ludus.errors import UserError

BOX = spaces.Box(0, 1, (2,), np.float32)
OBS = np.zeros(2, np.float32)


class Bare(gym.Env[Any, Any]):
    observation_space: spaces.Space[Any] = BOX
    action_space: spaces.Space[Any] = spaces.Discrete(3)
    mask: Any = (1, 0, 1)
    over = False

    def _obs(self) -> Any:
        return OBS

    def _info(self) -> dict[str, Any]:
        return {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._obs(), self._info()

    def step(self, action: Any) -> Any:
        return self._obs(), 0.0, self.over, False, self._info()


class ByMethod(Bare):
    def action_masks(self) -> Any:
        return self.mask


class ByInfo(Bare):
    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array(self.mask, np.int8)}


class ByObservation(Bare):
    observation_space = spaces.Dict({"observation": BOX, "action_mask": spaces.MultiBinary(3)})

    def _obs(self) -> Any:
        return {"observation": OBS, "action_mask": np.array(self.mask, np.int8)}


@pytest.mark.parametrize("custom", [ByMethod, ByInfo, ByObservation])
def test_every_convention_yields_a_bool_mask_in_info_at_reset_and_step(custom: type[Bare]) -> None:
    env = ActionMaskWrapper(custom())
    assert has_masks(custom())
    obs, info = env.reset(seed=0)
    for seen in (info, env.step(0)[4]):
        assert seen["action_mask"].dtype == bool
        assert seen["action_mask"].tolist() == [True, False, True]
    assert env.observation_space == BOX
    assert obs.tolist() == [0, 0]


def test_a_method_is_found_through_wrappers() -> None:
    env = ActionMaskWrapper(gym.wrappers.TimeLimit(ByMethod(), 10))
    assert env.reset()[1]["action_mask"].tolist() == [True, False, True]


def test_the_mask_leaves_a_dict_of_several_parts() -> None:
    class Several(ByObservation):
        observation_space = spaces.Dict({"hand": BOX, "deck": BOX, "action_mask": spaces.MultiBinary(3)})

        def _obs(self) -> Any:
            return {"hand": OBS, "deck": OBS, "action_mask": np.array(self.mask, np.int8)}

    env = ActionMaskWrapper(Several())
    obs, _ = env.reset()
    assert set(obs) == set(env.observation_space.spaces) == {"hand", "deck"}  # type: ignore[attr-defined]


def test_taxi_gives_its_masks_in_info() -> None:
    env = gym.make("Taxi-v4")
    assert has_masks(env)
    assert ActionMaskWrapper(env).reset(seed=0)[1]["action_mask"].shape == (6,)


def test_cartpole_has_no_masks() -> None:
    assert not has_masks(gym.make("CartPole-v1"))
    with pytest.raises(UserError, match="no action mask"):
        ActionMaskWrapper(gym.make("CartPole-v1")).reset()


def test_multidiscrete_masks_are_the_parts_joined() -> None:
    space = spaces.MultiDiscrete([2, 3])
    assert mask_size(space) == 5
    assert mask_size(spaces.Discrete(7)) == 7
    with pytest.raises(UserError, match="cannot be masked"):
        mask_size(BOX)
    space.seed(0)
    drawn = {tuple(sample_legal(space, np.array([0, 1, 1, 0, 1], bool)).tolist()) for _ in range(40)}
    assert drawn == {(1, 0), (1, 2)}


@pytest.mark.parametrize(
    ("action_space", "mask", "message"),
    [
        (spaces.Discrete(3), [1, 1], "has 2 entries, but Discrete.3. needs 3"),
        (spaces.Discrete(3), [0, 0, 0], "leaves no legal action"),
        (spaces.MultiDiscrete([2, 2]), [1, 1, 0, 0], "no legal action for component 1"),
    ],
)
def test_a_wrong_mask_says_what_is_wrong(action_space: Any, mask: Any, message: str) -> None:
    bare = ByMethod()
    bare.action_space, bare.mask = action_space, mask
    with pytest.raises(ValueError, match=message):
        ActionMaskWrapper(bare).reset()


def test_an_empty_mask_after_the_end_is_no_fault() -> None:
    bare = ByMethod()
    env = ActionMaskWrapper(bare)
    env.reset()
    bare.mask, bare.over = [0, 0, 0], True
    assert env.step(0)[4]["action_mask"].all()
