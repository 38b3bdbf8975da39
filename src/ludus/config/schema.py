"""`TrainerConfig`: the root of every run, as a strict model. The YAML is this model, flat at the top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from ludus.config.hyperparameters import (
    SHARED_FIELDS,
    HyperparameterConfig,
    Hyperparameters,
    LearningHyperparameters,
)
from ludus.config.language import (
    GamesConfig,
    GuardConfig,
    LanguageConfig,
    LeagueConfig,
    RewardsConfig,
    WarmupConfig,
)
from ludus.config.registry import LANGUAGE, Algorithm, engine_names, find_algorithm
from ludus.config.schedule import MAX_REWARD, MAX_STEPS
from ludus.config.sections import MirrorConfig, ScaleConfig, Section
from ludus.config.when import When
from ludus.errors import ConfigError, UnknownName
from ludus.plugins import references


class EnvConfig(Section):
    """The environment, and the wrappers around each copy of it."""

    id: str = Field(description="a Gymnasium id, or module:Id to import its module first")
    kwargs: dict[str, Any] = Field(default={}, description="keyword arguments for the env's constructor")
    wrappers: list[str | dict[str, dict[str, Any]]] = Field(
        default=[], description="names, module:Class, or {name: {kwargs}}, innermost first"
    )
    frame_stack: int = Field(default=1, ge=1, le=1_000)
    frame_skip: int = Field(default=1, ge=1, le=1_000)
    max_episode_steps: int | None = Field(default=None, ge=1, le=10**9)


class PolicyConfig(Section):
    """The network around the hidden layers given in hyperparams."""

    features_extractor: str = Field(
        default="auto",
        description="auto, FlattenExtractor, NatureCNN, CombinedExtractor, ResnetMLP, module:Class",
    )
    features_dim: int = Field(
        default=512, ge=1, le=65_536, description="output size of extractors that have one"
    )
    features_extractor_kwargs: dict[str, Any] = Field(default={})
    activation: str = Field(
        default="auto", description="Tanh ReLU ELU GELU SiLU LeakyReLU; auto: Tanh for PPO and A2C, else ReLU"
    )
    share_features_extractor: bool = Field(default=True, description="one extractor for policy and value")
    share_net: bool = Field(default=False, description="one trunk of hidden layers for policy and value")
    ortho_init: bool | Literal["auto"] = Field(default="auto", description="auto: yes for PPO and A2C")
    log_std_init: float = Field(default=0.0, ge=-20, le=10)
    network: str | None = Field(
        default=None,
        description="module:Class that replaces the hidden layers (PPO, A2C), as SB3's `mlp_extractor`",
    )
    network_kwargs: dict[str, Any] = Field(default={}, description="more arguments for that class")


class CheckpointConfig(Section):
    every: When | None = When(100_000)
    keep: int = Field(
        default=5, ge=0, le=1_000_000, description="newest ones kept besides best and pinned; 0 keeps all"
    )
    best_metric: str = Field(
        default="eval/mean_reward", description="the metric that makes a checkpoint best"
    )


class EvaluationConfig(Section):
    every: When | None = When(50_000)
    episodes: int = Field(
        default=10, ge=1, le=1_000_000, description="of each evaluation; language runs: league.eval_games"
    )
    deterministic: bool = Field(
        default=True, description="take the likeliest action; language runs: false, they sample"
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="of the episodes played; null: follows from seed"
    )
    max_steps: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="maximum steps of an episode; null: 27,000 on envs without a time limit",
    )


class VideoConfig(Section):
    """Videos of the current policy, recorded while training."""

    every: When | None = None
    length: int = Field(default=500, ge=1, le=1_000_000, description="maximum number of frames")
    overlay: bool = Field(
        default=True,
        description="next to the picture: step, reward, value, actions, the env's signals, live plots",
    )


class WandbConfig(Section):
    """Weights & Biases (extra `wandb`). `ludus sync wandb RUN` uploads what is missing there."""

    project: str = "ludus"
    entity: str | None = Field(default=None, description="user or team; null: the login's own")
    group: str | None = Field(default=None, description="W&B shows runs of a group together")
    tags: list[str] = Field(default=[], description="in addition to the run's own")
    mode: Literal["online", "offline"] | None = Field(
        default=None, description="null: online, unless WANDB_MODE says otherwise"
    )
    checkpoints: Literal["policy", "whole"] | None = Field(
        default="policy",
        description="artifacts: policy (enough to play), whole (enough to resume) or null (none)",
    )


class TrackingConfig(Section):
    every: int = Field(
        default=2_000, ge=1, le=MAX_STEPS, description="env steps between two metric rows, at least"
    )
    tensorboard: bool = True
    tensorboard_dir: str | None = Field(
        default=None, description="event files go to <this>/<run>; null: into the run's own folder"
    )
    monitor_dir: str | None = Field(
        default=None, description="also write <this>/<run>/monitor.csv, as Stable-Baselines3's Monitor does"
    )
    wandb: WandbConfig | None = None


class EarlyStoppingConfig(Section):
    """End the run before its total. Any one condition suffices."""

    reward_threshold: float | None = Field(
        default=None, ge=-MAX_REWARD, le=MAX_REWARD, description="stop once eval/mean_reward reaches it"
    )
    patience: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="stop after this number of evaluations without a new best",
    )
    time: When | None = Field(default=None, description='stop after this long: "30 min"')


class CurriculumConfig(Section):
    """Difficulty raised when the success rate over a window of episodes passes a threshold."""

    initial: float = Field(default=0.0, ge=-1e9, le=1e9)
    increment: float = Field(default=1.0, gt=0, le=1e9)
    maximum: float | None = Field(default=None, ge=-1e9, le=1e9)
    success_threshold: float = Field(default=0.8, gt=0, le=1)
    window: int = Field(default=20, ge=1, le=1_000_000)
    success: float | None = Field(
        default=None,
        ge=-MAX_REWARD,
        le=MAX_REWARD,
        description="a return that counts as success, if info says nothing",
    )

    def held(self) -> dict[str, Any]:
        """The curriculum of evaluations: the hardest level where one is named, else the first, kept there.

        Results taken while the difficulty moves could not be compared with each other.
        """
        level = self.initial if self.maximum is None else self.maximum
        return self.model_dump() | {"initial": level, "maximum": level}


# The second seed's flat fields, and where each lives now.
FIELD_ALIASES: dict[str, tuple[str, ...]] = {
    "env_id": ("env", "id"),
    "checkpoint_freq": ("checkpoint", "every"),
    "eval_freq": ("evaluation", "every"),
    "feature_extractor_type": ("policy", "features_extractor"),
    "wandb_project": ("tracking", "wandb", "project"),
}
FIELD_SWITCHES = ("use_curriculum", "use_feature_extractor", "use_wandb")
_NO_EXTRACTOR = "FlattenExtractor"
UNUSED_BY_LANGUAGE = frozenset(
    {
        "curriculum",
        "deterministic",
        "env",
        "kernels",
        "n_envs",
        "normalize_obs",
        "normalize_reward",
        "policy",
        "precision",
        "vector",
        "video",
    }
)
"""Keys that have no effect in a config with a `language` section."""


class TrainerConfig(Section):
    """Configuration of a run. See docs/reference/configuration.md for each key with an example."""

    name: str | None = Field(default=None, description="the run's name; default: env and algorithm")
    algorithm: str = Field(
        default="PPO",
        description="PPO A2C DQN SAC, or anything registered; REINFORCE A2C PPO GRPO with a language section",
    )
    engine: str = Field(
        default="native", description="algorithms of native, or of sb3 (Stable-Baselines3, extra `sb3`)"
    )
    env: EnvConfig | None = None
    n_envs: int = Field(default=8, ge=1, le=1_000_000)
    vector: Literal["auto", "serial", "process", "batched", "envpool", "endpoint"] = Field(
        default="auto", description="what steps the envs; auto: the fastest that is correct"
    )
    total_timesteps: When = When(1_000_000)
    seed: int = Field(default=42, ge=0, lt=2**31)
    device: str = Field(default="auto", description="auto, cpu, cuda, cuda:1, mps")
    threads: Annotated[int, Field(ge=1, le=1_024)] | Literal["auto"] = Field(
        default="auto", description="torch threads; auto: 1 for small networks"
    )
    kernels: bool = Field(
        default=True,
        description="fused kernels on a CPU where they cover the policy, CUDA graphs on a GPU; false: plain torch",
    )
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = Field(
        default="auto",
        description="of matrix products; auto: float32 on a CPU; on a GPU tf32, bfloat16 for image features",
    )
    deterministic: bool = Field(
        default=False, description="deterministic GPU kernels, for exact resume there"
    )
    hyperparams: HyperparameterConfig = HyperparameterConfig()
    policy: PolicyConfig = PolicyConfig()
    normalize_obs: bool = True
    normalize_reward: bool = True  # algorithms with a replay buffer: false where it is not given
    curriculum: CurriculumConfig | None = None
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    early_stopping: EarlyStoppingConfig = EarlyStoppingConfig()
    callbacks: list[str | dict[str, dict[str, Any]]] = Field(
        default=[], description="module:Class, or {module:Class: {kwargs}}: callbacks of your own"
    )
    video: VideoConfig = VideoConfig()
    tracking: TrackingConfig = TrackingConfig()
    exports: list[str] = Field(
        default=[],
        description="also write the policy into the run's folder at its end, as `ludus export --to` does: [onnx, sb3]",
    )
    mirror: MirrorConfig | None = Field(
        default=None, description="copy the run there while it trains (extra `cloud`): a URL, or a section"
    )
    scale: ScaleConfig | None = Field(
        default=None, description="run on several processes or machines (extra `ray`)"
    )
    pretrained_model: str | None = Field(default=None, description="start from this policy: RUN, RUN@best, …")
    language: LanguageConfig | None = Field(
        default=None, description="a language model that learns text games; replaces env and policy"
    )
    games: GamesConfig | None = Field(default=None, description="the text games of a language run")
    league: LeagueConfig = LeagueConfig()
    rewards: RewardsConfig = RewardsConfig()
    guard: GuardConfig | None = GuardConfig()
    warmup: WarmupConfig | None = Field(default=None, description="a supervised start, before the first game")
    save_dir: str = "runs"
    timestamp: bool = Field(
        default=True, description="the run's folder is <name>_<time>; false: <name>, then <name>-2, …"
    )
    run_dir: str | None = Field(default=None, description="this very directory, which must not exist yet")
    resume: Literal["auto"] | None = Field(
        default=None, description="auto: training continues this config's newest run, if there is one"
    )
    tags: list[str] = Field(default=[])
    sweep: dict[str, Any] | None = Field(
        default=None, description="search space of `ludus sweep`; training ignores it"
    )
    _wandb_project: str | None = PrivateAttr(
        default=None
    )  # named while W&B was off, for when it is switched on
    _extractor_type: str | None = PrivateAttr(
        default=None
    )  # a game's own extractor by its name, which became auto

    if not TYPE_CHECKING:  # type checkers and editors know the fields

        def __init__(self, **data: Any) -> None:
            """Raise ConfigError, which names the key and what it accepts, in the place of pydantic's error."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                from ludus.config.explain import explain_config

                raise explain_config(error, data) from None
            if data.get("wandb_project") is not None and not self.use_wandb:
                self._wandb_project = data["wandb_project"]
            self._extractor_type = _own_extractor(data.get("feature_extractor_type"))

    @model_validator(mode="before")
    @classmethod
    def _accept_aliases(cls, data: Any) -> Any:
        return expand_aliases(data) if isinstance(data, dict) else data

    @field_validator("name")
    @classmethod
    def _can_be_shown(cls, name: str | None) -> str | None:
        if name is not None and not name.isprintable():
            raise ValueError("a name must not contain control characters")
        return name

    @field_validator("env", mode="before")
    @classmethod
    def _env_by_id(cls, value: Any) -> Any:
        return {"id": value} if isinstance(value, str) else value

    @field_validator("mirror", mode="before")
    @classmethod
    def _mirror_by_url(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @field_validator("checkpoint", "evaluation", "video", mode="before")
    @classmethod
    def _never(cls, value: Any) -> Any:
        return {"every": None} if value is None else value

    @field_validator("early_stopping", "policy", mode="before")
    @classmethod
    def _nothing_special(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("tracking", mode="before")
    @classmethod
    def _no_follower(cls, value: Any) -> Any:
        return {"tensorboard": False} if value is None else value

    @field_validator("league", "rewards", mode="before")
    @classmethod
    def _as_usual(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("engine")
    @classmethod
    def _known_engine(cls, value: str) -> str:
        known = engine_names()
        if value not in known:
            raise UnknownName("engine", value, known, where="engine", fix=f"known: {', '.join(known)}")
        return value

    def __getattr__(self, name: str) -> Any:
        if name in FIELD_ALIASES:
            value: Any = self
            for part in FIELD_ALIASES[name]:
                value = None if value is None else getattr(value, part)
            if name == "wandb_project" and value is None:
                value = self._wandb_project
            if name == "feature_extractor_type" and value == "auto":
                value = self._extractor_type or value
            return value.plain() if isinstance(value, When) else value
        if name == "use_curriculum":
            return self.curriculum is not None
        if name == "use_wandb":
            return self.tracking.wandb is not None
        if name == "use_feature_extractor":
            return self.policy.features_extractor != _NO_EXTRACTOR
        return super().__getattr__(name)  # type: ignore[misc]  # pydantic defines it outside TYPE_CHECKING

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a field, also by one of its aliases."""
        if name == "wandb_project" and not self.use_wandb:
            self._wandb_project = value
        elif name in FIELD_ALIASES:
            self._assign(FIELD_ALIASES[name], _value_of_alias(name, value))
            if name == "feature_extractor_type":
                self._extractor_type = _own_extractor(value)
        elif name in FIELD_SWITCHES:
            if bool(value) != getattr(self, name):
                self._switch(name, bool(value))
        else:
            super().__setattr__(name, value)

    def _switch(self, name: str, on: bool) -> None:
        if name == "use_curriculum":
            self.curriculum = CurriculumConfig() if on else None
        elif name == "use_feature_extractor":
            self._assign(("policy", "features_extractor"), "auto" if on else _NO_EXTRACTOR)
        else:
            project = {} if self._wandb_project is None else {"project": self._wandb_project}
            self._assign(("tracking", "wandb"), project if on else None)

    def _assign(self, path: tuple[str, ...], value: Any) -> None:
        """Replace a section by a new one: copies of this config may share the old one."""
        section = getattr(self, path[0])
        data = {} if section is None else section.model_dump(exclude_unset=True)
        node = data
        for part in path[1:-1]:
            node = node.setdefault(part, {})
        node[path[-1]] = value
        setattr(self, path[0], data)

    def algorithm_entry(self) -> Algorithm:
        """Return the registry's entry of this config's algorithm. ConfigError if no algorithm has this name."""
        if self.language is None:
            return find_algorithm(self.algorithm, self.engine)
        if self.engine != "native":
            raise ConfigError(
                f"engine: {self.engine} does not train language models",
                key="engine",
                fix="leave engine out, or the language section",
            )
        return find_algorithm(self.algorithm, LANGUAGE)

    def typed_hyperparams(self) -> LearningHyperparameters:
        """Return the algorithm's hyperparameters: its defaults, replaced by the given values, validated.

        Raises ConfigError.
        """
        entry = self.algorithm_entry()
        given = self.hyperparams.given()
        model: type[LearningHyperparameters] = entry.hyperparameters or _AnyHyperparameters
        if model is not _AnyHyperparameters:
            given = {k: v for k, v in given.items() if k in model.model_fields or k not in SHARED_FIELDS}
        try:
            typed = model(**given)
        except ValidationError as error:
            from ludus.config.explain import explain, known_keys

            raise explain(
                error, model, prefix=("hyperparams",), elsewhere=lambda: known_keys(model)
            ) from None
        if entry.check is not None:
            entry.check(self, typed)
        return typed

    def normalizes_reward(self) -> bool:
        """Return `normalize_reward` as it was given, else the algorithm's default."""
        model = self.algorithm_entry().hyperparameters
        if "normalize_reward" in self.model_fields_set or model is None:
            return self.normalize_reward
        return model.normalizes_reward

    def resolved_evaluation(self) -> EvaluationConfig:
        """Return `evaluation` with the defaults of this kind of run.

        A language run plays `league.eval_games` against each opponent and samples as in training. Without opponents
        it does not evaluate.
        """
        if self.language is None:
            return self.evaluation
        given = self.evaluation.model_fields_set
        defaults: dict[str, Any] = {"deterministic": False, "episodes": self.league.eval_games}
        if not self.league.eval:
            defaults["every"] = None
        return self.evaluation.model_copy(
            update={name: value for name, value in defaults.items() if name not in given}
        )

    def ignored_hyperparams(self) -> list[str]:
        """Return the given common hyperparameters that this algorithm does not have."""
        model = self.algorithm_entry().hyperparameters
        return (
            sorted(SHARED_FIELDS & set(self.hyperparams.given()) - set(model.model_fields)) if model else []
        )


class _AnyHyperparameters(Hyperparameters):
    """For algorithms registered without a model of their own."""

    model_config = ConfigDict(extra="allow")


def expand_aliases(data: Mapping[str, Any]) -> dict[str, Any]:
    """Write the second seed's flat fields in their canonical place; both at once is an error."""
    result = dict(data)
    for alias, path in FIELD_ALIASES.items():
        if alias not in result:
            continue
        value = _value_of_alias(alias, result.pop(alias))
        if alias == "wandb_project" and not data.get("use_wandb"):
            continue  # the document's default config names a project and leaves W&B off
        if alias == "feature_extractor_type" and data.get("use_feature_extractor") is False:
            continue  # as above
        _put(result, path, value, alias)
    if "use_feature_extractor" in result and not result.pop("use_feature_extractor"):
        _put(result, ("policy", "features_extractor"), _NO_EXTRACTOR, "use_feature_extractor")
    if "use_wandb" in result:
        tracking = _as_dict(result.get("tracking"))
        wandb = tracking.get("wandb") or {}
        result["tracking"] = tracking | {"wandb": wandb if result.pop("use_wandb") else None}
    if "use_curriculum" in result:
        if not result.pop("use_curriculum"):
            result["curriculum"] = None
        elif result.get("curriculum") is None:
            result["curriculum"] = {}
    features_dim = _as_dict(result.get("hyperparams")).get("features_dim")
    if features_dim is not None and _as_dict(result.get("policy")).get("features_dim") != features_dim:
        _put(result, ("policy", "features_dim"), features_dim, "hyperparams.features_dim")
    return result


def _value_of_alias(alias: str, value: Any) -> Any:
    if alias == "feature_extractor_type" and _own_extractor(value) is not None:
        return "auto"  # which takes the game's own extractor where the env has one
    return value


def _own_extractor(name: Any) -> str | None:
    """Return the name of a game's own extractor as it is registered; None for another one."""
    named = str(name).lower()
    return named if named in references("extractors") else None


def _as_dict(section: Any) -> dict[str, Any]:
    """Return the values set in a section of any form; empty if it is not a section."""
    if isinstance(section, BaseModel):
        return section.model_dump(exclude_unset=True)
    return dict(section) if isinstance(section, Mapping) else {}


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any, alias: str) -> None:
    """Set `value` at `path` in nested dicts, copying what it passes through."""
    node = data
    for part in path[:-1]:
        child = node.get(part)
        if isinstance(child, str) and part == "env":
            child = {"id": child}
        if child is not None and not isinstance(child, Mapping | BaseModel):
            return  # no section at all: validation says so
        node[part] = _as_dict(child)
        node = node[part]
    if path[-1] in node:
        raise ConfigError(
            f"'{alias}' and '{'.'.join(path)}' are names of the same key, and both are given",
            key=alias,
            fix="keep one",
        )
    node[path[-1]] = value


def get_default_config(algorithm: str = "PPO", engine: str = "native") -> TrainerConfig:
    """Return a config for `algorithm` with every hyperparameter set to the algorithm's default.

    With `engine="language"` the config has a language section; set its `games` before training.
    """
    entry = find_algorithm(algorithm, engine)
    values = entry.hyperparameters().model_dump() if entry.hyperparameters else {}
    chosen: Any = {"language": LanguageConfig()} if engine == LANGUAGE else {"engine": engine}
    return TrainerConfig(algorithm=entry.name, hyperparams=HyperparameterConfig(**values), **chosen)
