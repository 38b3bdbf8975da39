"""Envs by name: `EnvSpec` is plain data that builds one fully wrapped env, in this process or in a worker."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec as GymSpec
from gymnasium.wrappers import RecordEpisodeStatistics

from ludus.config.own_modules import Trust
from ludus.config.requests import ConsentRequest, require_all
from ludus.envs.catalog import check_env_exists, env_groups, find_gym_spec, known_env_ids, missing_extra
from ludus.envs.masks import MASK_KEY, ActionMaskWrapper, checked_mask, declares_masks, sample_legal
from ludus.envs.support import EnvSupport, support_for
from ludus.envs.user_code import close_env
from ludus.envs.vector import batched, make_vector
from ludus.envs.wrappers import Env, EpisodeReport, FrameSkip, FrameStack, find_recorder
from ludus.errors import NONE, ConfigError, LudusError, UserError, require_types
from ludus.plugins import load

if TYPE_CHECKING:
    from ludus.envs.wrapper_names import NamedWrapper, WrapperEntry

__all__ = [
    "EnvFactory",
    "EnvSpec",
    "check_env_exists",
    "choose_backend",
    "env_groups",
    "known_env_ids",
    "make_env",
    "make_vectorized_env",
    "missing_extra",
]

EnvFactory = Callable[[], Env]


# Backends that bring the env itself, and so need its name instead of a function that builds it.
_BY_ID = {
    "batched": "ludus.envs.vector.batched:make_batched",
    "envpool": "ludus.envs.vector.pool:EnvPoolVectorEnv",
}
_FEWEST_FOR_ENVPOOL = 4  # with fewer, its threads cost more than they save
_TIMED_STEPS = 50
_SLOW_STEP_S = 1e-3


@dataclass(frozen=True)
class _Resolved:
    """The objects behind the names of a spec, as in the driver; pickled with it for worker processes."""

    names: tuple[Any, ...]
    gym_spec: GymSpec
    wrappers: tuple[NamedWrapper, ...]
    curriculum: NamedWrapper | None


@dataclass(frozen=True)
class EnvSpec:
    """An env as a config names it, and the factory that builds it: `spec()` returns the wrapped env.

    Pickling (with cloudpickle) resolves it first, so a worker that never imported the module which registered
    the env or its wrappers can still build it.
    """

    id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[WrapperEntry, ...] = ()
    frame_stack: int = 1
    frame_skip: int = 1
    max_episode_steps: int | None = None
    curriculum: Mapping[str, Any] | None = None
    render_mode: str | None = None
    trust: Trust | None = field(default=None, repr=False, compare=False)
    """Trust settings for the names in the spec; None uses the settings in effect at the time of use."""
    _resolved: _Resolved | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_types(
            "EnvSpec",
            id=(self.id, (str,)),
            kwargs=(self.kwargs, (Mapping,)),
            wrappers=(self.wrappers, (list, tuple)),
            frame_stack=(self.frame_stack, (Integral,)),
            frame_skip=(self.frame_skip, (Integral,)),
            max_episode_steps=(self.max_episode_steps, (Integral, NONE)),
            curriculum=(self.curriculum, (Mapping, NONE)),
            render_mode=(self.render_mode, (str, NONE)),
            trust=(self.trust, (Trust, NONE)),
        )
        object.__setattr__(self, "wrappers", tuple(self.wrappers))
        if self._resolved is not None and self._resolved.names != self._names:
            object.__setattr__(self, "_resolved", None)  # dataclasses.replace copied it from another spec
        for name in ("frame_stack", "frame_skip", "max_episode_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be 1 or more, not {value}", where=f"env.{name}")
        if self.frame_skip > 1 and self._uses_atari:
            raise ConfigError(
                "the wrapper 'atari' already skips frames",
                where="env.frame_skip",
                fix="remove frame_skip, or the wrapper",
            )

    @property
    def reports_episodes(self) -> bool:
        """True if the env records raw episodes in `info["episode"]`, because wrappers may change rewards."""
        return bool(self.wrappers) or self.frame_skip > 1 or self.curriculum is not None

    @property
    def _names(self) -> tuple[Any, ...]:
        return self.id, self.wrappers, self.curriculum

    @property
    def support(self) -> EnvSupport:
        """The EnvSupport of the plugin that has this env."""
        return support_for(self.id)

    @property
    def is_plain(self) -> bool:
        """True if the spec differs from the registered env by a time limit at most."""
        return not (
            self.kwargs or self.wrappers or self.frame_stack > 1 or self.frame_skip > 1 or self.curriculum
        )

    @property
    def _uses_atari(self) -> bool:
        return any(
            entry == "atari" or (isinstance(entry, Mapping) and "atari" in entry) for entry in self.wrappers
        )

    def resolve(self) -> EnvSpec:
        """Return the spec with its names looked up. Raises the errors of `check_env_exists` and `find_wrapper`."""
        if self._resolved is not None:
            return self
        with self.trusted():
            gym_spec = find_gym_spec(self.id)
            self.support.check(self)
            require_all(self.requests(), "env")
            resolved = _Resolved(
                names=self._names,
                # the backends never step before a reset: the order check is not needed
                gym_spec=replace(_portable(gym_spec), order_enforce=False),
                wrappers=_find_wrappers(self.wrappers),
                curriculum=None if self.curriculum is None else _find_curriculum(self.curriculum),
            )
        return replace(self, _resolved=resolved)

    def requests(self) -> Iterator[ConsentRequest]:
        """Return the parts of this spec that a run may not use without consent. Raises ConfigError."""
        yield from self.support.requests(self)
        if self.wrappers:
            from ludus.envs.wrapper_names import wrapper_requests

            yield from wrapper_requests(self.wrappers)

    def trusted(self) -> AbstractContextManager[None]:
        """Apply `trust` inside the with-block."""
        return nullcontext() if self.trust is None else self.trust.applied()

    @property
    def gym_spec(self) -> GymSpec:
        """The registration in Gymnasium, with the arguments of this spec; it knows nothing of the wrappers."""
        resolved = self.resolve()._resolved
        assert resolved is not None
        spec = resolved.gym_spec
        limit = self.max_episode_steps or spec.max_episode_steps
        return replace(spec, kwargs={**spec.kwargs, **self.kwargs}, max_episode_steps=limit)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.resolve().__dict__)

    def __call__(self) -> Env:
        resolved = self.resolve()._resolved
        assert resolved is not None
        env = self._make(resolved.gym_spec)
        # a second recorder would raise
        if self.reports_episodes and find_recorder(env) is None:
            env = RecordEpisodeStatistics(env)
        if self.frame_skip > 1:
            env = FrameSkip(env, self.frame_skip)
        for wrapper in resolved.wrappers:
            env = wrapper(env)
        if self.reports_episodes:
            env = EpisodeReport(env)
        if resolved.curriculum is not None:
            env = resolved.curriculum(env)
        if declares_masks(env):
            env = ActionMaskWrapper(env)
        if self.frame_stack > 1:
            env = FrameStack(env, self.frame_stack)
        return env

    def _make(self, gym_spec: GymSpec) -> Env:
        with self.trusted():
            return self._make_trusted(gym_spec)

    def _make_trusted(self, gym_spec: GymSpec) -> Env:
        kwargs = dict(self.kwargs)
        if self.render_mode is not None:
            kwargs["render_mode"] = self.render_mode
        if self._uses_atari and "frameskip" in gym_spec.kwargs:
            kwargs.setdefault("frameskip", 1)  # the wrapper skips frames itself, and refuses an env that does
        try:
            return gym.make(
                gym_spec, max_episode_steps=self.max_episode_steps, disable_env_checker=True, **kwargs
            )
        except gym.error.DependencyNotInstalled as error:
            raise UserError(
                str(error), where=f"env '{self.id}'", fix="install what is named above"
            ) from error
        except TypeError as error:
            if "unexpected keyword argument" not in str(error):
                raise
            raise ConfigError(
                str(error).partition(" was raised from")[0],
                where=f"env.kwargs of '{self.id}'",
                fix=f"it accepts: {_accepted_kwargs(gym_spec)}",
            ) from error


def make_env(id_or_spec: str | EnvSpec, **fields: Any) -> Env:
    """Return one wrapped env, from an id or a spec. `fields` of EnvSpec replace those of the spec."""
    require_types("make_env", id_or_spec=(id_or_spec, (str, EnvSpec)))
    if isinstance(id_or_spec, str):
        return EnvSpec(id_or_spec, **fields)()
    return replace(id_or_spec, **fields)()


def choose_backend(env: str | EnvSpec | EnvFactory, n_envs: int) -> tuple[str, str]:
    """The backend that `auto` means, and why, as (backend, reason).

    First the env's own plugin is asked (`EnvSupport.choose_backend`). Then: `batched` where it is written as a batched
    game (`vector/batched.py`). `serial` for one env. `envpool` for 4 envs or more where the
    extra is installed and holds this very env (`vector/pool.py`). `process` when a step of one env takes over 1 ms
    (the median of 50 random steps, measured here on an env built for it). Else `serial`: handing a light step to
    another process costs more than the step.
    """
    spec = EnvSpec(env) if isinstance(env, str) else env if isinstance(env, EnvSpec) else None
    own = None if spec is None else spec.support.choose_backend(spec, n_envs)
    if own is not None:
        return own
    if spec is not None and batched.unsupported_reason(spec) is None:
        return "batched", "all envs in one compiled step"
    if n_envs == 1:
        return "serial", "there is only one env"
    if spec is not None and n_envs >= _FEWEST_FOR_ENVPOOL:
        from ludus.envs.vector import pool

        if pool.is_installed() and pool.unsupported_reason(spec) is None:
            return "envpool", "EnvPool has this env"
    try:
        seconds = _median_step_seconds(_factory(env))
    except LudusError:
        raise
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ):  # the backend will meet the same fault, and reports it with the user's own traceback
        return "serial", "a trial step failed"
    took = f"{seconds * 1e3:.2f} ms a step"
    return ("process", f"heavy: {took}") if seconds > _SLOW_STEP_S else ("serial", f"light: {took}")


def make_vectorized_env(
    env_or_factory: str | EnvSpec | EnvFactory,
    n_envs: int = 8,
    backend: str = "auto",
    seed: int | None = None,
    **options: Any,
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return `n_envs` copies of an env as one vector env; `backend` is a value of the config key `vector`.

    The env is an id, an EnvSpec, or a function that returns a new env at each call. With a `seed` the vector env is
    reset with it, so that a later `reset()` without a seed is reproducible too. `options` are passed to the backend.
    """
    require_types(
        "make_vectorized_env",
        n_envs=(n_envs, (Integral,)),
        backend=(backend, (str,)),
        seed=(seed, (Integral, NONE)),
    )
    factory = _factory(env_or_factory)
    if n_envs < 1:
        raise ConfigError(f"n_envs must be 1 or more, not {n_envs}", where="n_envs")
    if backend == "auto":
        backend, _ = choose_backend(factory, n_envs)
    if isinstance(factory, EnvSpec):
        vector_env = _from_spec(factory, n_envs, backend, options)
    elif backend in _BY_ID:
        raise UserError(f"vector: {backend} needs an env by its id", where="env", fix="give its id")
    else:
        name = getattr(factory, "__name__", "custom")
        vector_env = make_vector([factory] * n_envs, backend=backend, env_id=name, **options)
    if isinstance(factory, EnvSpec):
        vector_env.spec = factory.gym_spec
    if seed is not None or backend in _BY_ID:
        vector_env.reset(seed=seed)
    if seed is not None:
        vector_env.action_space.seed(seed)
    return vector_env


def _from_spec(
    spec: EnvSpec, n_envs: int, backend: str, options: dict[str, Any]
) -> gym.vector.VectorEnv[Any, Any, Any]:
    with spec.trusted():
        own = spec.support.make_vector(spec, n_envs, backend, **options)
        if own is not None:
            return own
        if backend in _BY_ID:
            envs: gym.vector.VectorEnv[Any, Any, Any] = load(_BY_ID[backend])(spec, n_envs, **options)
            return envs
        copies = spec.support.copies(spec, n_envs)
        return make_vector(copies, backend=backend, env_id=spec.id, **options)


def _factory(env: str | EnvSpec | EnvFactory) -> EnvFactory:
    if isinstance(env, str):
        env = EnvSpec(env)
    if isinstance(env, EnvSpec):
        return env.resolve()
    if callable(env):
        return env
    raise UserError(
        f"one env instance cannot be copied: {env}",
        where="env",
        fix="give its id, an EnvSpec, or a function that returns a new env each time",
    )


def _median_step_seconds(factory: EnvFactory) -> float:
    env = factory()
    try:
        env.action_space.seed(0)
        _, info = env.reset(seed=0)
        seconds = []
        for _ in range(_TIMED_STEPS):
            mask = info.get(MASK_KEY)
            if mask is not None:
                mask = checked_mask(mask, env.action_space, where=f'info["{MASK_KEY}"]')
            action = sample_legal(env.action_space, mask)
            start = time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            seconds.append(time.perf_counter() - start)
            if terminated or truncated:
                _, info = env.reset()
        return statistics.median(seconds)
    finally:
        close_env(env)


def _portable(gym_spec: GymSpec) -> GymSpec:
    """The spec, its entry point loaded when it is in `__main__`: in a worker that is another module."""
    entry = gym_spec.entry_point
    if isinstance(entry, str) and entry.startswith("__main__:"):
        return replace(gym_spec, entry_point=load(entry))
    return gym_spec


def _accepted_kwargs(gym_spec: GymSpec) -> str:
    entry = gym_spec.entry_point
    assert entry is not None  # gym.make has called it
    creator = load(entry) if isinstance(entry, str) else entry
    names = [name for name in inspect.signature(creator).parameters if name != "render_mode"]
    return ", ".join(names) or "no arguments"


def _find_wrappers(entries: tuple[WrapperEntry, ...]) -> tuple[NamedWrapper, ...]:
    if not entries:
        return ()
    from ludus.envs.wrapper_names import find_wrapper

    return tuple(map(find_wrapper, entries))


def _find_curriculum(kwargs: Mapping[str, Any]) -> NamedWrapper:
    from ludus.envs.curriculum import CurriculumWrapper
    from ludus.envs.wrapper_names import NamedWrapper

    return NamedWrapper.checked("CurriculumWrapper", CurriculumWrapper, kwargs, "curriculum")
