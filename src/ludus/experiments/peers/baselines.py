"""Stable-Baselines3 or SBX, which share one interface: `python baselines.py sb3|sbx speed|learn|reach '{…}'`.

Prints one JSON object. Imports nothing of Ludus: it runs in the peer's own environment. The task is a workload,
for `learn` with `seed` and `episodes` too, for `reach` as benchmarks/time_to_reach.py gives it. What a library does
not let one set is written where it is built.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time

# Threads where it is not one; two at most, as Ludus takes. SB3's SAC was measured to be faster so; for SBX one and
# two did not differ clearly, on a machine that was not idle.
TWO = min(2, len(os.sched_getaffinity(0)))
THREADS = {"sb3": {"SAC": TWO}, "sbx": {"PPO": TWO}}
POINTS = 100


class CompileClock:
    """Seconds that XLA has spent compiling; zero for ever where nothing compiles."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def listen(self) -> None:
        import jax

        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: object) -> None:
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
    """As `sb3_model`. SBX's PPO clips the gradients of policy and value apart, and makes only the policy's last
    layer orthogonal; its SAC moves the targets at every gradient step; its DQN keeps the learning rate it begins with.
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
            raise SystemExit("SBX's DQN has two hidden layers of one size")
    elif h.pop("target_update_interval") != 1:
        raise SystemExit("SBX's SAC moves the targets at every gradient step")
    model = getattr(sbx, task["algorithm"])("MlpPolicy", env, policy_kwargs=kwargs, seed=seed, verbose=0, **h)
    return model, sbx.__version__


def fitting(library: str, algorithm: str, hyperparams: dict) -> dict:
    """Of a preset's hyperparameters those that the peer has, with schedules as it calls them."""
    module = __import__({"sb3": "stable_baselines3", "sbx": "sbx"}[library])
    names = {*inspect.signature(getattr(module, algorithm)).parameters}
    if library == "sbx":  # see `sbx_model`
        names |= {"DQN": {"max_grad_norm"}, "SAC": {"target_update_interval"}}.get(algorithm, set())
    return {name: schedule(value) for name, value in hyperparams.items() if name in names}


def schedule(value: object) -> object:
    """A hyperparameter as it is; of one that changes, what these libraries call with the part that remains."""
    if not isinstance(value, dict):
        return value
    if list(value) != ["linear"]:
        raise SystemExit(f"only linear schedules are known here: {value}")
    first, last = value["linear"]
    return lambda remaining: last + (first - last) * remaining


def speed(task: dict, model: object, clock: CompileClock) -> dict:
    """Steps per second once everything is warm, which the same model is trained a moment for."""
    warm = max(2 * task["hyperparams"].get("n_steps", 0) * task["n_envs"], 500)
    model.learn(warm)
    before, compiled, started = model.num_timesteps, clock.seconds, time.monotonic()
    model.learn(task["steps"], reset_num_timesteps=False)
    seconds = time.monotonic() - started - (clock.seconds - compiled)
    return {"fps": (model.num_timesteps - before) / seconds}


def learn(task: dict, model: object, clock: CompileClock) -> dict:
    """Train for the whole budget: the curve on the way, and the final policy's rewards."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Curve(BaseCallback):
        """Steps, seconds without compiling, and the mean reward of the last 100 episodes, `POINTS` times."""

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

    clock.seconds = 0.0  # what was compiled before the first step is not in `elapsed`
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
    """Train until an evaluation is at or above the aim, the steps are done or the time is over."""
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
    """The task's envs, normalised where it asks for that.

    They are made to be drawn unless one says otherwise, and LunarLander then gathers sparks that nobody draws: its
    longer episodes take several times as long.
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
    """The rewards of the episodes seeded 0, 1, …, with deterministic actions."""
    import gymnasium as gym
    import numpy as np

    rewards = np.zeros(episodes)
    for first in range(0, episodes, at_once):
        # The batch keeps its size, because every other size would be compiled anew.
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
    if library == "sbx" and threads == 1:  # which XLA reads when jax is imported
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
