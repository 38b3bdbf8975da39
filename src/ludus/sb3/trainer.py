"""The Stable-Baselines3 trainer: the runs, envs and loop of the native trainer, with SB3's models as learners."""

from __future__ import annotations

import logging
import warnings
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.registry import find_algorithm
from ludus.config.schema import TrainerConfig
from ludus.envs.vector import pool
from ludus.errors import ConfigError, UserError, require_types
from ludus.runs.directory import RunDirectory
from ludus.tracking.progress import ProgressDisplay
from ludus.training.env_source import require_env
from ludus.training.native import NativeTrainer
from ludus.training.session import Session

_log = logging.getLogger("ludus.training")
MODEL_FILE = "model.zip"


class SB3Trainer(NativeTrainer):
    """Trains with Stable-Baselines3 and sb3-contrib (extra `sb3`).

    In addition to the files of a native run, `model.zip`, SB3's own format, is written into the run directory at the
    end. It is for other programs: Ludus resumes and plays from its checkpoints and never reads it.
    """

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        require_types("SB3Trainer", config=(config, (TrainerConfig,)))
        require_env(env, config)
        super().__init__(env, config.model_copy(update={"engine": "sb3"}), display=display)

    @property
    def model(self) -> Any:
        """The model of SB3."""
        self.create_model()
        learner: Any = self.learner
        return learner.model

    def get_env(self) -> Any:
        return None if self.learner is None else self.model.get_env()

    def _adapt(self, config: TrainerConfig) -> TrainerConfig:
        """Return `config` with what SB3 needs: masks, unscaled rewards for ARS, a backend it can step."""
        changes: dict[str, Any] = {}
        name = config.algorithm_entry().name
        masked = self._source.has_masks()
        if name == "PPO" and masked:
            changes["algorithm"] = "MaskablePPO"
            changes["hyperparams"] = _as_maskable(config)
            _log.info("the env has action masks: PPO becomes MaskablePPO")
        elif name == "MaskablePPO" and not masked:
            raise ConfigError("this env has no action masks", key="algorithm", fix="use PPO")
        elif masked and name != "MaskablePPO":
            _log.warning(
                "%s of Stable-Baselines3 does not support action masks: it will try illegal actions", name
            )
        if name == "ARS" and config.normalize_reward:
            changes["normalize_reward"] = False  # it ranks episodes by their reward, which must not drift
            _log.info("ARS compares whole episodes: normalize_reward is off")
        if config.vector == "envpool":
            raise ConfigError(
                "Stable-Baselines3 cannot step EnvPool's envs",
                key="vector",
                fix="use vector: auto, serial or process",
            )
        if config.vector == "auto" and pool.is_installed():
            backend, _ = self._source.choose_backend("auto")
            changes["vector"] = "serial" if backend == "envpool" else backend
        return config.model_copy(update=changes)

    def _make_envs(self, backend: str) -> VectorEnv[Any, Any, Any]:
        envs = super()._make_envs(backend)
        if envs.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
            raise UserError(
                "Stable-Baselines3 needs envs that are reset in the step in which an episode ends",
                where="create_trainer(env, …)",
                fix="make the vector env with autoreset_mode=AutoresetMode.SAME_STEP",
            )
        return envs

    def _make_session(self, **parts: Any) -> Session:
        learner: Any = self.learner
        collector: Any = self.collector
        learner.total = self.config.total_timesteps
        collector.listener = parts["callback"]
        learner.envs.keeps_infos = parts["callback"] is not None
        return super()._make_session(**parts)

    def _model_for_callbacks(self) -> Any:
        return self.model

    def _write_exports(self, session: Session) -> None:
        super()._write_exports(session)
        self._write_model_file(session.directory)  # in place of the same file as an export

    def _write_model_file(self, directory: RunDirectory) -> None:
        """Write `model.zip` and VecNormalize's statistics, where there are any; the run is complete without them."""
        from ludus.sb3.zip_file import write_model

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                write_model(self.model, directory.path / MODEL_FILE)
        except OSError as error:
            _log.warning("%s could not be written: %s", MODEL_FILE, error)


def _as_maskable(config: TrainerConfig) -> HyperparameterConfig:
    """Return the hyperparameters without those of PPO that MaskablePPO does not have; warn of one that was changed."""
    ppo, maskable = (find_algorithm(name, "sb3").hyperparameters for name in ("PPO", "MaskablePPO"))
    assert ppo is not None and maskable is not None
    given, usual = config.hyperparams.given(), ppo().model_dump()
    for name in given.keys() & ppo.model_fields.keys() - maskable.model_fields.keys():
        if given.pop(name) != usual[name]:
            _log.warning(
                "hyperparams.%s has no effect: MaskablePPO of Stable-Baselines3 does not have it", name
            )
    return HyperparameterConfig(**given)
