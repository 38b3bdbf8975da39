"""Base class of policies: modules that map the env's observations to the env's actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from ludus.envs.masks import first_blocked, mask_size, part_starts, take_mask
from ludus.envs.spaces import space_to_json
from ludus.errors import CheckpointError, ConfigError, UserError
from ludus.policies.extractors import BaseFeaturesExtractor, NatureCNN, ObservationTensor, make_extractor
from ludus.policies.networks import orthogonal_init
from ludus.policies.observations import ObservationNormalizer, check_observation, to_tensor
from ludus.runs.checkpoints import Checkpoint
from ludus.types import Array, BoolArray, Observation


class FastPolicy(ABC):
    """Draws the actions of a policy, from arrays to arrays. A learner sets it as the policy's `fast`."""

    def begin_rollout(self, n_steps: int) -> None:
        """Prepare for `n_steps` calls of `act` before the weights change."""

    @abstractmethod
    def act(self, obs: Observation, masks: BoolArray | None) -> Any:
        """Return actions for observations as the network takes them."""


class FastActorCritic(FastPolicy):
    """A FastPolicy that estimates values as well."""

    @abstractmethod
    def act(self, obs: Observation, masks: BoolArray | None) -> tuple[Array, Array, Array]:
        """Return actions, their log-probabilities and values, each [n, ...]."""

    @abstractmethod
    def values(self, obs: Observation) -> Array:
        """Return the values of observations as the network takes them."""

    def rollout_inputs(self) -> tuple[Any, torch.Tensor | None] | None:
        """Return observations and masks of all `act` calls since `begin_rollout`, flat and on the policy's device.

        None where they are not kept.
        """
        return None


@dataclass(frozen=True)
class NetworkSpec:
    """The shape of a policy's networks, as the config gives it."""

    policy_net_arch: tuple[int, ...]
    value_net_arch: tuple[int, ...]  # of the critics, for SAC; of the value stream, for a dueling DQN
    features_extractor: str = "auto"
    features_dim: int = 512
    features_extractor_kwargs: Mapping[str, Any] = field(default_factory=dict)
    activation: str = "Tanh"
    share_features_extractor: bool = True
    share_net: bool = False
    ortho_init: bool = True
    log_std_init: float = 0.0
    network: str | None = None  # the user's own hidden layers
    network_kwargs: Mapping[str, Any] = field(default_factory=dict)
    normalize_obs: bool = False


class RecurrentActor(ABC):
    """An actor that remembers the episode so far, such as a policy with an LSTM."""

    @abstractmethod
    def predict_with_memory(
        self,
        obs: Observation,
        memories: list[Any],
        mask: BoolArray | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, list[Any]]:
        """Return env-ready actions for a batch, and the new memories. A memory of None starts an episode."""


class Policy(nn.Module, ABC):
    """A policy for one pair of spaces. Its weights are drawn from torch's global generator.

    `state_dict` is all there is to save: the networks and, with `normalize_obs`, the running statistics.
    """

    scales_actions = False
    """If True, the network's Box actions are in [-1, 1] and `to_env` scales them to the bounds."""
    adds_start = True
    """If True, `to_env` adds the `start` of a Discrete or MultiDiscrete space."""
    takes_network = False
    """If True, `policy.network` can replace the hidden layers."""
    uses_masks: bool | None = None
    """True if the policy uses action masks, False if not; None if it uses them when the env gives them."""

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], network: NetworkSpec
    ) -> None:
        super().__init__()
        if network.network is not None and not self.takes_network:
            raise ConfigError(
                f"policy.network is for PPO and A2C; a {type(self).__name__} has other parts",
                key="policy.network",
                fix="use policy.features_extractor for a network of your own",
            )
        self.observation_space = observation_space
        self.action_space = action_space
        self.network = network
        self.obs_normalizer = ObservationNormalizer(observation_space) if network.normalize_obs else None
        self.fast: FastPolicy | None = (
            None  # acts on this policy's memory while collecting; set by its learner
        )
        self.half_features = False  # whether features are extracted in bfloat16

    def description(self) -> dict[str, Any]:
        """Return the part of `state.json` from which the policy can be built without its env."""
        return {
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
        }

    @property
    def device(self) -> torch.device:
        """Device of the networks."""
        return next(self.parameters()).device

    @abstractmethod
    def act(
        self,
        obs: ObservationTensor,
        mask: Tensor | None = None,
        *,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The network's actions, one per row of `obs`; `mask` is True where an action is legal."""

    @abstractmethod
    def to_env(self, actions: Array) -> Array:
        """Convert a batch of the network's actions to actions of the env's space."""

    def prepare(self, obs: Observation) -> ObservationTensor:
        """Return env observations as tensors on the policy's device, normalised without updating the statistics."""
        if self.obs_normalizer is not None:
            obs = self.obs_normalizer.normalize(obs)
        return to_tensor(obs, self.device)

    @torch.inference_mode()
    def predict(
        self,
        obs: Observation,
        mask: BoolArray | None = None,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
    ) -> Array:
        """Env-ready actions for raw env observations: a batch for a batch, one for one.

        A mask inside `obs` (`obs["action_mask"]`) counts as `mask` where none is given.
        """
        obs, found = take_mask(obs, self.observation_space)
        mask = found if mask is None else mask
        single = check_observation(self.observation_space, obs)
        axes: Any = None if single else ...
        obs = (
            {key: np.asarray(value)[axes] for key, value in obs.items()}
            if isinstance(obs, dict)
            else np.asarray(obs)[axes]
        )
        if mask is not None:
            mask = np.asarray(mask, dtype=bool)[axes]
            self._check_mask(mask)
        legal = None if mask is None else torch.as_tensor(mask, dtype=torch.bool, device=self.device)
        actions = self.act(self.prepare(obs), legal, deterministic=deterministic, generator=generator)
        for_env = self.to_env(actions.cpu().numpy())
        return for_env[0] if single else for_env

    def _check_mask(self, masks: BoolArray) -> None:
        """Raise UserError for masks that do not fit the action space, or leave no legal action."""
        space = self.action_space
        if not isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            return  # this space cannot be masked: the mask is ignored
        problem = ""
        if masks.ndim != 2 or masks.shape[1] != mask_size(space):
            problem = f"has shape {masks.shape[1:]}; expected ({mask_size(space)},) for each observation"
        elif first_blocked(masks, part_starts(space)) is not None:
            problem = "leaves no legal action"
        if problem:
            raise UserError(
                f"the action mask {problem}",
                where="predict(obs, mask)",
                fix="one entry per action, True where it is legal (MultiDiscrete: the parts joined)",
            )

    def _features(self, extractor: BaseFeaturesExtractor, obs: ObservationTensor) -> Tensor:
        """Return the extractor's output for `obs`, in float32."""
        if not self.half_features:
            return cast(Tensor, extractor(obs))
        with torch.autocast(self.device.type, torch.bfloat16):
            return cast(Tensor, extractor(obs)).float()

    def _make_extractor(self) -> BaseFeaturesExtractor:
        """A new feature extractor as the network spec describes it."""
        network = self.network
        extractor = make_extractor(
            network.features_extractor,
            self.observation_space,
            network.features_dim,
            network.features_extractor_kwargs,
        )
        if network.ortho_init:
            for module in extractor.modules():
                if isinstance(
                    module, NatureCNN
                ):  # other extractors, and the user's own, initialise themselves
                    orthogonal_init(module)
        return extractor


def load_policy_tensors(policy: Policy, checkpoint: Checkpoint) -> None:
    """Copy a checkpoint's weights into `policy`. CheckpointError when shapes or types differ, or one is not finite."""
    tensors = checkpoint.tensors("policy")
    own = policy.state_dict()
    for name, tensor in tensors.items():
        problem = ""
        if name in own and tensor.dtype != own[name].dtype and not tensor.is_floating_point():
            problem = f"is of {tensor.dtype}, not of {own[name].dtype}"
        elif tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            problem = "holds NaN or infinity"
        if problem:
            raise CheckpointError(
                f"the weights of checkpoint '{checkpoint.name}' cannot be used: {name} {problem}",
                where=str(checkpoint.path),
                fix="take another checkpoint of the run",
            )
    try:
        policy.load_state_dict(tensors)
    except RuntimeError as error:
        detail = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise CheckpointError(
            f"the checkpoint's network has another shape: {detail}",
            where=str(checkpoint.path),
            fix="use the same env, policy_net_arch, value_net_arch and policy section as the run it came from",
        ) from None
