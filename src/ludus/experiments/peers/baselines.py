"""Benchmark script for Stable-Baselines3 and SBX: `python baselines.py sb3|sbx speed|learn|reach '{…}'`.

Prints one JSON object. It does not import Ludus: it runs in the library's own environment. The task is a workload; for
`learn` also with `seed` and `episodes`; for `reach` as in benchmarks/time_to_reach.py. Settings that a library does not
have are documented where its model is built.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time

# Number of threads if not one; at most two, as in Ludus. SB3's SAC was faster with two; for SBX there was no clear
# difference, on a machine that was not idle.
TWO = min(2, len(os.sched_getaffinity(0)))
THREADS = {"sb3": {"SAC": TWO}, "sbx": {"PPO": TWO}}
POINTS = 100


class CompileClock:
    """Seconds that XLA has spent compiling; 0 if nothing compiles."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def listen(self) -> None:
        import jax

        jax.monitoring.register_event_duration_secs_listener(self._add_seconds)

    def _add_seconds(self, event: str, seconds: float, **_: object) -> None:
        if event.startswith("/jax/core/compile/"):  # tracing, lowering and compiling
            self.seconds += seconds


def sb3_model(task: dict, env: object, seed: int) -> tuple[object, str]:
    import stable_baselines3
    import torch

    arch = task["net_arch"]
    kwargs = {
        "net_arch": {"pi": arch, "vf": arch} if task["algorithm"] in {"PPO", "A2C"} else arch,
        "activation_fn": getattr(torch.nn, task["activation"]),
    }
    algorithm = getattr(stable_baselines3, task["algorithm"])
    device = task.get("device", "cpu")
    model = algorithm(
        "MlpPolicy", env, policy_kwargs=kwargs, device=device, seed=seed, verbose=0, **task["hyperparams"]
    )
    return model, stable_baselines3.__version__


def sbx_model(task: dict, env: object, seed: int) -> tuple[object, str]:
    """Make a model like `sb3_model`, with SBX's differences: PPO clips the gradients of policy and value separately and
    initialises only the last layer of the policy orthogonally; SAC updates the targets at every gradient step; DQN
    keeps its initial learning rate.
    """
    import flax.linen as nn
    import optax
    import sbx

    h = dict(task["hyperparams"])
    kwargs = {
        "net_arch": task["net_arch"],
        "activation_fn": {"Tanh": nn.tanh, "ReLU": nn.relu, "ELU": nn.elu}[task["activation"]],
    }
    if task["algorithm"] == "PPO":
        kwargs["ortho_init"] = True
    elif task["algorithm"] == "DQN":
        limit = h.pop("max_grad_norm")
        kwargs["optimizer_class"] = lambda learning_rate: optax.chain(
            optax.clip_by_global_norm(limit), optax.adam(learning_rate)
        )
        if len(set(task["net_arch"])) != 1 or len(task["net_arch"]) != 2:
            raise SystemExit("SBX's DQN needs two hidden layers of the same size")
    elif h.pop("target_update_interval") != 1:
        raise SystemExit("SBX's SAC updates the targets at every gradient step")
    model = getattr(sbx, task["algorithm"])("MlpPolicy", env, policy_kwargs=kwargs, seed=seed, verbose=0, **h)
    return model, sbx.__version__


def fitting(library: str, algorithm: str, hyperparams: dict) -> dict:
    """Return the hyperparameters of a preset that the library has, with schedules as functions."""
    module = __import__({"sb3": "stable_baselines3", "sbx": "sbx"}[library])
    names = {*inspect.signature(getattr(module, algorithm)).parameters}
    if library == "sbx":  # see `sbx_model`
        names |= {"DQN": {"max_grad_norm"}, "SAC": {"target_update_interval"}}.get(algorithm, set())
    return {name: schedule(value) for name, value in hyperparams.items() if name in names}


def schedule(value: object) -> object:
    """Return a constant unchanged, a schedule as a function of the remaining fraction."""
    if not isinstance(value, dict):
        return value
    if list(value) != ["linear"]:
        raise SystemExit(f"expected a linear schedule, got {value}")
    first, last = value["linear"]
    return lambda remaining: last + (first - last) * remaining


def speed(task: dict, model: object, clock: CompileClock) -> dict:
    """Measure steps per second, after a short training of the same model as warm-up."""
    warm = max(2 * task["hyperparams"].get("n_steps", 0) * task["n_envs"], 500)
    model.learn(warm)
    before, compiled, started = model.num_timesteps, clock.seconds, time.monotonic()
    model.learn(task["steps"], reset_num_timesteps=False)
    seconds = time.monotonic() - started - (clock.seconds - compiled)
    return {"fps": (model.num_timesteps - before) / seconds}


def learn(task: dict, model: object, clock: CompileClock) -> dict:
    """Train for the whole budget; return the curve, and the rewards of the final policy."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Curve(BaseCallback):
        """Records steps, seconds without compilation, and the mean reward of the last 100 episodes, `POINTS` times."""

        def _on_training_start(self) -> None:
            self.points: list[tuple[int, float, float]] = []
            self.began, self.due = time.monotonic(), task["steps"] / POINTS

        def _on_step(self) -> bool:
            if self.num_timesteps >= self.due and self.model.ep_info_buffer:
                self.due = self.num_timesteps + task["steps"] / POINTS
                recent = [episode["r"] for episode in self.model.ep_info_buffer]
                self.points.append((self.num_timesteps, self.elapsed(), sum(recent) / len(recent)))
            return True

        def elapsed(self) -> float:
            return time.monotonic() - self.began - clock.seconds

    clock.seconds = 0.0  # compilation before the first step is not part of `elapsed`
    curve = Curve()
    model.learn(task["steps"], callback=curve)
    seconds = curve.elapsed()
    return {
        "steps": model.num_timesteps,
        "seconds": seconds,
        "compile_seconds": clock.seconds,
        "curve": curve.points,
        "rewards": play(task["env"], model, task["episodes"]),
    }


def reach(task: dict, model: object, clock: CompileClock) -> dict:
    """Train until an evaluation reaches the target, the steps are done or the time limit is over."""
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import sync_envs_normalization

    seed = 1_000_000
    envs = make_envs(task, task["episodes"], seed, training=False)

    class Evaluations(BaseCallback):
        def _on_training_start(self) -> None:
            self.found: list[tuple[int, float, float]] = []
            self.began, self.due = time.monotonic(), task["evaluate_every"]

        def _on_step(self) -> bool:
            if self.num_timesteps >= self.due:
                self.due += task["evaluate_every"]
                sync_envs_normalization(self.training_env, envs)
                envs.seed(seed)  # the same episodes every time
                mean, _ = evaluate_policy(self.model, envs, n_eval_episodes=task["episodes"])
                self.found.append((self.num_timesteps, self.elapsed(), float(mean)))
            return self.elapsed() < task["limit"] and all(mean < task["aim"] for *_, mean in self.found)

        def elapsed(self) -> float:
            return time.monotonic() - self.began - clock.seconds

    clock.seconds = 0.0
    evaluations = Evaluations()
    model.learn(task["steps"], callback=evaluations)
    return {
        "steps": model.num_timesteps,
        "seconds": evaluations.elapsed(),
        "compile_seconds": clock.seconds,
        "evaluations": evaluations.found,
    }


def make_envs(task: dict, n_envs: int, seed: int, *, training: bool = True) -> object:
    """Make the envs of the task, normalised if it asks for that.

    `render_mode` is None, because make_vec_env enables rendering by default. LunarLander then collects particles that
    nobody draws, and its longer episodes take several times as long.
    """
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    envs = make_vec_env(task["env"], n_envs=n_envs, seed=seed, env_kwargs={"render_mode": None})
    if not (task.get("normalize_obs") or task.get("normalize_reward")):
        return envs
    return VecNormalize(
        envs,
        training=training,
        norm_obs=task["normalize_obs"],
        norm_reward=training and task["normalize_reward"],
        gamma=task["hyperparams"]["gamma"],
    )


def play(env_id: str, model: object, episodes: int, at_once: int = 100) -> list[float]:
    """Return the rewards of the episodes with seeds 0, 1, …, with deterministic actions."""
    import gymnasium as gym
    import numpy as np

    rewards = np.zeros(episodes)
    for first in range(0, episodes, at_once):
        # The batch keeps its size, because every other size would be compiled again.
        envs = {index: gym.make(env_id) for index in range(first, min(first + at_once, episodes))}
        obs = {index: env.reset(seed=index)[0] for index, env in envs.items()}
        playing = set(envs)
        while playing:
            actions, _ = model.predict(np.stack(list(obs.values())), deterministic=True)
            for index, action in zip(envs, actions, strict=True):
                if index in playing:
                    obs[index], reward, terminated, truncated, _ = envs[index].step(action)
                    rewards[index] += float(reward)
                    if terminated or truncated:
                        playing.discard(index)
        for env in envs.values():
            env.close()
    return rewards.tolist()


def main(library: str, mode: str, task: dict) -> None:
    threads = THREADS[library].get(task["algorithm"], 1)
    if library == "sbx" and threads == 1:  # XLA reads it when jax is imported
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if task.get("device", "cpu") == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    import torch

    torch.set_num_threads(threads)
    clock = CompileClock()
    if library == "sbx":
        clock.listen()
    seed = task.get("seed", 0)
    env = make_envs(task, task["n_envs"], seed)
    if mode == "reach":
        task["hyperparams"] = fitting(library, task["algorithm"], task["hyperparams"])
    model, version = {"sb3": sb3_model, "sbx": sbx_model}[library](task, env, seed)
    answer = {"speed": speed, "learn": learn, "reach": reach}[mode](task, model, clock)
    print(json.dumps({"threads": threads, "version": version, "compile_seconds": clock.seconds} | answer))


if __name__ == "__main__":
    from lifeline import exit_with_parent

    exit_with_parent()
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
