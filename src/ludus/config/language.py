"""The sections of a language run: model, games, league, rewards and the guard against collapse."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from ludus.config.section import Section


class AdapterConfig(Section):
    """Low-rank weights beside the model's own, which stay as they are."""

    rank: int = Field(default=32, ge=1, description="columns of each low-rank pair")
    alpha: float = Field(default=32.0, gt=0, description="the adapter counts alpha / rank times")
    targets: Literal["all-linear", "attention", "mlp"] | list[str] = Field(
        default="all-linear", description="which layers: all-linear, attention, mlp, or names as q_proj"
    )
    start: str | None = Field(default=None, description="begin with this PEFT folder or zip")


class SamplerConfig(Section):
    """How completions are drawn."""

    kind: Literal["local"] = Field(default="local", description="local: in the learner's process")
    temperature: float = Field(default=1.0, gt=0, description="divides the logits before drawing")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="draw among the likeliest tokens with this much mass"
    )
    max_new_tokens: int = Field(default=64, ge=1, description="longest completion")
    max_prompt_tokens: int = Field(
        default=1024, ge=1, description="a longer prompt loses its beginning, and is counted"
    )
    kv_cache_tokens: int | None = Field(
        default=None, ge=1, description="room for keys and values; null: as many as the open games need"
    )


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
        default=1, ge=1, description="adapters that learn in this run, each with a rating of its own"
    )
    sampler: SamplerConfig = SamplerConfig()
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of the model's weights; auto: float32 on a CPU, bfloat16 on a GPU"
    )
    gradient_checkpointing: bool = Field(
        default=False, description="compute activations twice instead of keeping them: slower, less memory"
    )
    tokens_per_step: int = Field(
        default=16_384, ge=1, description="tokens in one forward and backward pass; larger batches accumulate"
    )


class GameConfig(Section):
    """One text game, and how its turns become prompts and completions become moves."""

    id: str = Field(description="a TextArena id with its variant, as TicTacToe-v0 or Nim-v0-large")
    players: int | None = Field(default=None, ge=1, description="null: the fewest the game can be played by")
    kwargs: dict[str, Any] = Field(default={}, description="keyword arguments for the game")
    template: str | dict[str, str] = Field(
        default="chat",
        description="default, qwen3, qwen3-reasoning, gemma3, llama-instruct, chat (the tokenizer's own), or "
        "{prompt: text with {observation}, {board}, {rules}, {seat}}",
    )
    extract: str | dict[str, str] = Field(
        default="brackets", description="boxed, brackets, last-line, or {regex: pattern}"
    )
    max_turns: int = Field(default=100, ge=1, description="a game that has not ended by then is cut off")
    weight: float = Field(default=1.0, gt=0, description="how often it is drawn among the games")


class GamesConfig(Section):
    train: Annotated[list[GameConfig], Field(min_length=1, description="ids, or a section each")]
    eval: list[GameConfig] = Field(default=[], description="default: those of training")
    open: int = Field(default=64, ge=1, description="games played side by side")
    turns: int = Field(default=256, ge=1, description="learner's turns in one update (batch_size)")
    branch: int = Field(
        default=1, ge=1, description="GRPO: copies of a game played from one and the same state"
    )
    branch_at: Literal["window", "uncertain"] = Field(
        default="window", description="where games branch: a drawn turn, or where returns are least certain"
    )

    @field_validator("train", "eval", mode="before")
    @classmethod
    def _by_id(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = [value]
        return [{"id": game} if isinstance(game, str) else game for game in value or []]


class LeagueConfig(Section):
    """Who sits opposite the learner, in training and in evaluation."""

    opponents: Literal["mirror", "fixed", "lagged", "random", "quality", "prioritised"] = Field(
        default="mirror",
        description="mirror: the learner itself; fixed: `train` by weight; lagged: versions of `lag` updates ago; "
        "random: any; quality: near in rating; prioritised: those it loses to more often",
    )
    train: list[str | dict[str, float]] = Field(
        default=[], description="further opponents by name: bots, RUN@best, openai:MODEL; or {name: weight}"
    )
    eval: list[str] = Field(default=["random"], description="opponents of every evaluation")
    eval_games: int = Field(default=32, ge=1, description="games against each of them, in turn on every seat")
    mirror_share: float = Field(
        default=0.5, ge=0, le=1, description="share of games against itself where opponents is not mirror"
    )
    lag: tuple[int, int] = Field(
        default=(1, 8), description="lagged: the youngest and the oldest, in versions"
    )
    version_every: int = Field(default=10, ge=1, description="updates between two frozen versions")
    versions: int = Field(default=16, ge=1, description="frozen versions kept; the weakest go first")


class RewardsConfig(Section):
    """What a game's result becomes, step by step: names, or {name: argument}."""

    final: list[str | dict[str, Any]] = Field(default=[], description="role_advantage, outcome, certainty")
    step: list[str | dict[str, Any]] = Field(default=[], description="format, invalid, length")
    sampling: list[str | dict[str, Any]] = Field(
        default=["center_by_env"], description="center_by_env, zscore_by_env, weight_by_spread"
    )


class GuardConfig(Section):
    """What counts as collapse. A run that collapses goes back to its last healthy version, more slowly."""

    entropy: float | None = Field(default=None, ge=0, description="least entropy per token, in nats")
    invalid_rate: float | None = Field(
        default=0.5, ge=0, le=1, description="most games ended by an invalid move"
    )
    diversity: float | None = Field(default=None, ge=0, le=1, description="least share of distinct actions")
    kl: float | None = Field(default=None, gt=0, description="most KL divergence per token from the start")
    anchor_drop: float | None = Field(
        default=0.3, gt=0, le=1, description="most fall of the score against the evaluation's opponents"
    )
    patience: int = Field(default=3, ge=1, description="updates in a row before it counts")
    slow_down: float = Field(
        default=0.5, gt=0, lt=1, description="the learning rate's factor after each rollback"
    )
    rollbacks: int = Field(default=5, ge=0, description="the run stops after so many")


class WarmupConfig(Section):
    """A supervised start: observation-action pairs, before the first game."""

    source: str = Field(
        default="minimax", description="a bot's name, or a CSV with columns observation, action"
    )
    pairs: int = Field(default=4_000, ge=1, description="observation-action pairs to train on")
    epochs: int = Field(default=3, ge=1, description="passes over them")
    batch_size: int = Field(default=64, ge=1, description="pairs in one step")
    learning_rate: float = Field(default=1e-3, gt=0, description="of the warm start")
