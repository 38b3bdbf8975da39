"""A pytest plugin that puts a backend of Ludus in the place of a vector env of Gymnasium, in Gymnasium's own tests.

`pytest -p gymnasium_plugin --backend process --outcomes FILE tests/vector`. A test that asks for what only Gymnasium's
class has is skipped with the reason. Tests that never build the replaced class are left out of the outcomes.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode
from outcomes import Outcomes, begin

from ludus.envs.make import EnvSpec
from ludus.envs.vector import batched, pool
from ludus.envs.vector.batched import BatchedVectorEnv
from ludus.envs.vector.pool import EnvPoolVectorEnv
from ludus.envs.vector.process import ProcessVectorEnv
from ludus.envs.vector.remote import RemoteVectorEnv
from ludus.envs.vector.serial import SerialVectorEnv

REPLACES = {
    "serial": "SyncVectorEnv",
    "process": "AsyncVectorEnv",
    "remote": "AsyncVectorEnv",
    "batched": "SyncVectorEnv",
    "envpool": "SyncVectorEnv",
}
FROM_FUNCTIONS = {"serial": SerialVectorEnv, "process": ProcessVectorEnv, "remote": RemoteVectorEnv}
BY_ID = {"batched": (BatchedVectorEnv, batched), "envpool": (EnvPoolVectorEnv, pool)}

# what Gymnasium's classes have beyond `gymnasium.vector.VectorEnv`
_DEFAULTS = {
    "copy": True,
    "context": None,
    "daemon": True,
    "worker": None,
    "observation_mode": "same",
    "max_concurrency": None,
}
_SPLIT_CALLS = {"reset_async", "reset_wait", "step_async", "step_wait", "call_async", "call_wait"}
_ENV_CALLS = {"call", "get_attr", "set_attr", "envs"}
SPLIT = "AsyncVectorEnv's calls in two halves: not part of VectorEnv; `deadline` bounds every wait"
NO_ENVS = "there are no env objects to call: all envs are stepped in compiled code"
BY_NAME = {
    "test_async_vector_subenv_error": "checks the log lines of AsyncVectorEnv's workers",
    "test_custom_space_async_vector_env_shared_memory": "checks a limit of AsyncVectorEnv's shared memory",
    "test_obs_mode_same_different_spaces": "checks the wording of an error that names `observation_mode`",
}
BY_NAME_BY_ID = {
    "test_random_seeds_set_at_retrieval": "checks seeds that the env functions set; they are not called",
    "test_sync_vector_env_seed": "checks a seed that the env function sets; it is not called",
    "test_sync_vector_determinism": "checks a seed that the env function sets; it is not called",
    "test_check_spaces_sync_vector_env": "all envs are the same by construction",
}

OF_ENVPOOL = {"test_vector_env_equal": "EnvPool draws its own random numbers: a seed starts another episode"}


def _begin(options: dict[str, Any], not_applicable: dict[str, str]) -> None:
    """Note that the running test builds the replaced class; skip it if it asks for what only Gymnasium's has."""
    begin(not_applicable)
    for name, value in options.items():
        if name in _DEFAULTS and value != _DEFAULTS[name]:
            pytest.skip(f"option `{name}` of Gymnasium's constructor: not part of VectorEnv")


def _from_functions(base: Any) -> type:
    class InPlace(base):  # type: ignore[misc]
        def __init__(self, env_fns: Any, **options: Any) -> None:
            _begin(options, BY_NAME)
            super().__init__(env_fns, autoreset_mode=options.get("autoreset_mode", AutoresetMode.NEXT_STEP))

        def __getattr__(self, name: str) -> Any:
            if name in _SPLIT_CALLS:
                pytest.skip(SPLIT)
            raise AttributeError(name)

    return InPlace


def _by_id(backend: str) -> type:
    base, module = BY_ID[backend]

    class InPlace(base):  # type: ignore[misc]
        def __init__(self, env_fns: Any, **options: Any) -> None:
            _begin(options, BY_NAME | BY_NAME_BY_ID | (OF_ENVPOOL if backend == "envpool" else {}))
            env = env_fns[0]()
            spec, render_mode = env.spec, env.render_mode
            wrapped = spec is not None and bool(spec.additional_wrappers)
            env.close()
            own = None if spec is None else EnvSpec(spec.id)
            if own is None or render_mode or wrapped or module.unsupported_reason(own) is not None:
                pytest.skip(f"{backend} does not have this env")
            mode = AutoresetMode(options.get("autoreset_mode", AutoresetMode.NEXT_STEP))
            if backend == "envpool" and mode is not AutoresetMode.NEXT_STEP:
                pytest.skip("EnvPool has NEXT_STEP only")
            super().__init__(own, len(env_fns), **({"autoreset_mode": mode} if backend == "batched" else {}))

        def __getattr__(self, name: str) -> Any:
            if name in _ENV_CALLS:
                pytest.skip(NO_ENVS)
            raise AttributeError(name)

    return InPlace


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", choices=sorted(REPLACES))
    parser.addoption("--outcomes")


def pytest_configure(config: pytest.Config) -> None:
    backend = config.getoption("--backend")
    name = REPLACES[backend]
    in_place = _from_functions(FROM_FUNCTIONS[backend]) if backend in FROM_FUNCTIONS else _by_id(backend)
    in_place.__name__ = in_place.__qualname__ = name
    module = {"SyncVectorEnv": gym.vector.sync_vector_env, "AsyncVectorEnv": gym.vector.async_vector_env}
    for place in (gym.vector, module[name]):
        setattr(place, name, in_place)
    config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))
