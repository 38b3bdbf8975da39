"""The sections of a language run: model, games, league, rewards and the guard against collapse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ludus.config.schedule import MAX_REWARD
from ludus.config.sections import Section


class AdapterConfig(Section):
    """Low-rank weights added to the model's own, which stay unchanged."""

    rank: int = Field(default=32, ge=1, le=65_536, description="columns of each low-rank pair")
    alpha: float = Field(default=32.0, gt=0, le=1e6, description="the adapter counts alpha / rank times")
    targets: Literal["all-linear", "attention", "mlp"] | list[str] = Field(
        default="all-linear", description="which layers: all-linear, attention, mlp, or names as q_proj"
    )
    start: str | None = Field(default=None, description="begin with this PEFT folder or zip")

    def without_start(self) -> AdapterConfig:
        """Return the section without its starting weights, for weights that are loaded from another place."""
        return self.model_copy(update={"start": None})


class SamplerConfig(Section):
    """Sampling of completions."""

    kind: Literal["local", "vllm"] = Field(
        default="local",
        description="local: Ludus's own, with the learner's weights; vllm: adapters are sent to vLLM (extra `vllm`)",
    )
    temperature: float = Field(default=1.0, ge=1e-6, le=100, description="divides the logits before drawing")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="draw among the likeliest tokens with this much mass"
    )
    max_new_tokens: int = Field(default=64, ge=1, le=1_000_000, description="longest completion")
    max_prompt_tokens: int = Field(
        default=1024, ge=1, le=10_000_000, description="a longer prompt loses its middle, and is counted"
    )
    kv_cache_tokens: int | None = Field(
        default=None,
        ge=1,
        le=10**9,
        description="tokens in the cache of keys and values; null: as many as the open games need",
    )
    vllm: dict[str, Any] = Field(
        default={}, description="for vLLM: further arguments of vllm.LLM, as {gpu_memory_utilization: 0.5}"
    )

    @model_validator(mode="after")
    def _drawn_from_the_policy(self) -> SamplerConfig:
        if self.kind == "vllm" and self.top_p < 1:
            raise ValueError(
                "kind: vllm needs top_p: 1, because vLLM returns no log-probabilities of the policy below that"
            )
        return self


class LanguageConfig(Section):
    """The model that plays, and what of it is trained."""

    model: str = Field(
        default="tiny", description="a known name (tiny, smollm2-135m), a local folder, or a hub id"
    )
    model_kwargs: dict[str, Any] = Field(default={}, description="for tiny: layers, hidden, heads, context")
    adapter: AdapterConfig | None = Field(
        default=AdapterConfig(), description="null: all weights of the model are trained"
    )
    learners: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="adapters that learn in this run, each with a rating of its own",
    )
    sampler: SamplerConfig = SamplerConfig()
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of the model's weights; auto: float32 on a CPU, bfloat16 on a GPU"
    )
    gradient_checkpointing: bool = Field(
        default=False, description="compute activations twice instead of keeping them: slower, less memory"
    )
    tokens_per_step: int = Field(
        default=16_384,
        ge=1,
        le=10**8,
        description="tokens in one forward and backward pass; larger batches accumulate",
    )


@dataclass(frozen=True)
class GameSpec:
    """A game and its settings: with the seed and the actions, enough to replay it."""

    id: str
    players: int | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    max_turns: int = 100


class GameConfig(Section):
    """One text game, and how its turns become prompts and completions become moves."""

    id: str = Field(
        description="a TextArena id with its variant, as TicTacToe-v0 or Nim-v0-large; or gym:ID, an env of texts"
    )
    players: int | None = Field(default=None, ge=1, le=1_000, description="null: the minimum of the game")
    kwargs: dict[str, Any] = Field(default={}, description="keyword arguments for the game")
    template: str | dict[str, str] = Field(
        default="chat",
        description="default, qwen3, qwen3-reasoning, gemma3, llama-instruct, chat (the tokenizer's own), or "
        "{prompt: text with {observation}, {board}, {position}, {rules}, {seat}}, or {chat: such a text, system: text}",
    )
    extract: str | dict[str, str] = Field(
        default="brackets", description="boxed, brackets, last-line, whole, or {regex: pattern}"
    )
    max_turns: int = Field(
        default=100, ge=1, le=1_000_000, description="a game that has not ended by then is cut off"
    )
    weight: float = Field(default=1.0, ge=1e-6, le=1e6, description="how often it is drawn among the games")

    def spec(self) -> GameSpec:
        return GameSpec(self.id, self.players, self.kwargs, self.max_turns)


class GamesConfig(Section):
    train: Annotated[list[GameConfig], Field(min_length=1, description="ids, or a section each")]
    eval: list[GameConfig] = Field(default=[], description="default: those of training")
    open: int = Field(default=64, ge=1, le=1_000_000, description="games played side by side")
    turns: int = Field(default=256, ge=1, le=10**8, description="learner's turns in one update (batch_size)")
    across_updates: bool = Field(
        default=False,
        description="games open at an update continue under the next version; false: all are played out",
    )
    branch: int = Field(
        default=1, ge=1, le=1_000, description="GRPO: copies of a game played from one and the same state"
    )
    branch_at: Literal["window", "uncertain"] = Field(
        default="window", description="where games branch: a drawn turn, or where returns are least certain"
    )

    @field_validator("train", "eval", mode="before")
    @classmethod
    def _by_id(cls, value: Any) -> Any:
        games = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(games, list | tuple):
            return games
        return [{"id": game} if isinstance(game, str) else game for game in games]


class LeagueConfig(Section):
    """Opponents of the learner, in training and in evaluation."""

    opponents: Literal["mirror", "fixed", "lagged", "random", "quality", "prioritised"] = Field(
        default="mirror",
        description="mirror: the learner itself; fixed: `train` by weight; lagged: versions of `lag` updates ago; "
        "random: any; quality: near in rating; prioritised: those it loses to more often",
    )
    train: list[str | dict[str, Annotated[float, Field(ge=1e-6, le=1e6)]]] = Field(
        default=[], description="further opponents by name: bots, RUN@best, openai:MODEL; or {name: weight}"
    )
    eval: list[str] = Field(
        default=["random"], description="opponents of every evaluation; none: the run does not evaluate"
    )
    eval_games: int = Field(
        default=32, ge=1, le=1_000_000, description="games against each of them, in turn on every seat"
    )
    mirror_share: float = Field(
        default=0.5, ge=0, le=1, description="share of games against itself where opponents is not mirror"
    )
    lag: tuple[Annotated[int, Field(ge=1, le=10**9)], Annotated[int, Field(ge=1, le=10**9)]] = Field(
        default=(1, 8), description="lagged: the youngest and the oldest, in versions"
    )
    hardness: float = Field(
        default=2.0,
        ge=0,
        le=100,
        description="prioritised: drawn by (1 - win rate) to this power; 0: all alike",
    )
    version_every: int = Field(default=10, ge=1, le=10**9, description="updates between two frozen versions")
    versions: int = Field(
        default=16,
        ge=1,
        le=100_000,
        description="frozen versions kept of each learner; the weakest go first",
    )
    reference: float = Field(
        default=0.5,
        ge=-MAX_REWARD,
        le=MAX_REWARD,
        description="single-player games: the reward of the opponent they are rated against; more is a win",
    )

    @field_validator("train")
    @classmethod
    def _weighed(cls, value: list[str | dict[str, float]]) -> list[str | dict[str, float]]:
        names = [name for entry in value for name in ([entry] if isinstance(entry, str) else entry)]
        if len(set(names)) < len(names):
            raise ValueError("an opponent is listed twice; give it a weight to meet it more often")
        for entry in value:
            if isinstance(entry, dict) and not (entry and min(entry.values()) > 0):
                raise ValueError("an opponent with its weight is {name: number above 0}")
        return value

    @field_validator("lag")
    @classmethod
    def _in_order(cls, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] > value[1]:
            raise ValueError("the smaller number comes first, as in [1, 8]")
        return value

    @model_validator(mode="after")
    def _somebody_to_play(self) -> LeagueConfig:
        if self.opponents == "fixed" and not self.train:
            raise ValueError("opponents: fixed needs opponents in train, as [random, {minimax: 2}]")
        return self

    def weights(self) -> dict[str, float]:
        """The opponents of training by name, each with its weight."""
        entries = [{entry: 1.0} if isinstance(entry, str) else entry for entry in self.train]
        return {name: weight for entry in entries for name, weight in entry.items()}


class RewardsConfig(Section):
    """Reward functions, applied in order to a game's result: names, or {name: argument}."""

    final: list[str | dict[str, Any]] = Field(
        default=[], description="of a game's result: role_advantage, outcome"
    )
    step: list[str | dict[str, Any]] = Field(default=[], description="of each turn: format, invalid, length")
    sampling: list[str | dict[str, Any]] | None = Field(
        default=None,
        description="of a batch: center_by_env, zscore_by_env, weight_by_spread, certainty; null: center_by_env, and "
        "nothing for GRPO, which compares within groups",
    )


class GuardConfig(Section):
    """Limits that define collapse. A run that collapses returns to its last healthy version and learns more slowly."""

    entropy: float | None = Field(
        default=None, ge=0, le=100, description="minimum entropy per token while playing, in nats"
    )
    invalid_rate: float | None = Field(
        default=0.5, ge=0, le=1, description="maximum share of games that the model ends by an invalid move"
    )
    diversity: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="minimum share of distinct pairs of successive actions, and of states",
    )
    kl: float | None = Field(
        default=None, gt=0, le=1e6, description="maximum KL divergence per token from the starting weights"
    )
    anchor_drop: float | None = Field(
        default=0.3, gt=0, le=1, description="maximum drop of the score against the evaluation's opponents"
    )
    patience: int = Field(
        default=3,
        ge=1,
        le=1_000_000,
        description="number of consecutive measurements beyond a limit that cause a rollback",
    )
    slow_down: float = Field(
        default=0.5, gt=0, lt=1, description="the learning rate's factor after each rollback"
    )
    rollbacks: int = Field(
        default=5, ge=0, le=1_000_000, description="the run stops after this number of rollbacks"
    )


class WarmupConfig(Section):
    """A supervised start: observation-action pairs, before the first game."""

    source: str = Field(
        default="minimax",
        description="a bot's name, or a CSV: observation, action (the whole completion), where wanted seat and game",
    )
    pairs: int = Field(
        default=4_000, ge=1, le=10**8, description="maximum number of observation-action pairs to train on"
    )
    explore: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="share of a bot's turns after which a random move is played instead, so that it shows more states",
    )
    epochs: int = Field(default=3, ge=1, le=10_000, description="passes over them")
    batch_size: int = Field(default=64, ge=1, le=1_000_000, description="pairs in one step")
    learning_rate: float = Field(
        default=1e-3, gt=0, le=10, description="of its first step; falls to 0 in a line"
    )
