"""The language trainer: a language model learns text games by playing against itself and others."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ludus.config.hyperparameters import HyperparameterConfig
from ludus.config.language import GameConfig, LanguageConfig
from ludus.config.schema import TrainerConfig
from ludus.errors import CheckpointError, ConfigError, UserError
from ludus.evaluation.load import find_checkpoint
from ludus.evaluation.players import make_player
from ludus.language.algorithms.guard import CollapseGuard
from ludus.language.algorithms.learner import LanguageContext, LanguageLearner, learner_names
from ludus.language.algorithms.warmup import Point, warm_up
from ludus.language.collector import GameSetup, MatchCollector
from ludus.language.evaluation import MatchEvaluation
from ludus.language.models.engine import PublishedSampler, Resizable, SamplingEngine
from ludus.language.models.learned import LearnedWeights
from ludus.language.models.local import LocalSampler
from ludus.language.models.low_rank import LowRank
from ludus.language.models.model import LanguageModel
from ludus.language.models.models import load_language_model
from ludus.language.models.peft_files import read_peft
from ludus.language.player_pool import PlayerPool
from ludus.language.publisher import SamplerPublisher
from ludus.language.session import SelfPlaySession
from ludus.language.text_games.extraction import make_extractor
from ludus.language.text_games.game import TextGame
from ludus.language.text_games.templates import make_template
from ludus.language.unused_keys import NOT_FOR_LANGUAGE
from ludus.league.league import League
from ludus.league.match import play_matches
from ludus.league.players import Player
from ludus.runs.directory import RunDirectory
from ludus.runs.limits import usable_cores
from ludus.runs.rescaling import wanted_numbers
from ludus.runs.streams import Streams
from ludus.tracking.progress import ProgressDisplay
from ludus.training.checkpointing import require_finite
from ludus.training.learner_ranks import LearnersRescaled, cpus_wanted, under_torchrun
from ludus.training.resolve import (
    SMALL_NETWORK,
    ResolvedConfig,
    available_threads,
    check_device,
    resolve_threads,
    warn_unused_keys,
)
from ludus.training.trainer import RunTrainer, load_weights, save_policy
from ludus.types import Metrics, Progress

if TYPE_CHECKING:
    from ludus.scale.gpus import HeldGPU

_log = logging.getLogger("ludus.training")


class LanguageTrainer(RunTrainer):
    """Trains the adapters (or all weights) of a language model by self-play on text games."""

    def __init__(self, env: Any, config: TrainerConfig, *, display: ProgressDisplay | None = None) -> None:
        if env is not None:
            raise UserError(
                "a language run plays the games of its config and takes no env",
                where="create_trainer(env, …)",
                fix="name the games in the config: games: {train: [TicTacToe-v0]}",
            )
        super().__init__(None, config, display=display)
        self._opponents: dict[str, Player] = {}
        self._samplers: dict[bool, LocalSampler | PublishedSampler] = {}
        self._engine: SamplingEngine | None = None
        self._gpu: HeldGPU | None = None
        self.guard = None if config.guard is None else CollapseGuard(config.guard)

    @property
    def env_id(self) -> str:
        return "+".join(dict.fromkeys(game.id for game in self._games.train))

    @property
    def _language(self) -> LanguageConfig:
        assert self.config.language is not None
        return self.config.language

    @property
    def _games(self) -> Any:
        if self.config.games is None:
            raise ConfigError(
                "a language run needs games", key="games", fix="games: {train: [{id: TicTacToe-v0}]}"
            )
        return self.config.games

    def _default_name(self) -> str:
        """Return model (without its organisation), games, opponents and user; the time follows."""
        model = self._language.model.rstrip("/").rpartition("/")[2]
        return "-".join([model, self.env_id, self.config.league.opponents, _user()]).lower()

    def create_model(self) -> Any:
        if self.learner is not None:
            return self.learner.policy
        warn_unused_keys(self.config, NOT_FOR_LANGUAGE)
        config = _resolve_config(self.config, resumed=self._resume_point is not None)
        self.config = config
        language, games = self._language, self._games
        if games.branch == 1 and config.algorithm == "GRPO":
            raise ConfigError(
                "GRPO compares completions sampled from one state, and games that do not branch have none",
                key="games.branch",
                fix="set games.branch to 4 or more, or use another algorithm (REINFORCE needs no branches)",
            )
        if games.branch > 1 and games.across_updates:
            raise ConfigError(
                "games that branch are played out within their update",
                key="games.across_updates",
                fix="set across_updates: false, or branch: 1",
            )
        if config.scale is not None and config.scale.mode == "async":
            raise ConfigError(
                "self-play supports only scale.mode: sync",
                key="scale.mode",
                fix="mode: sync; games.across_updates: true lets open games continue under the next version",
            )
        self.tables = [make_table(game) for game in games.train]
        self.eval_tables = [make_table(game) for game in games.eval] or self.tables
        device = torch.device(config.device)
        if config.scale is not None and device.type == "cuda" and not under_torchrun():
            from ludus.scale.cluster import connect
            from ludus.scale.gpus import HeldGPU

            self._gpu = HeldGPU(
                connect(config.scale.ray, cpus=cpus_wanted(config, config.scale.num_learners))
            )
            torch.cuda.set_device(self._gpu.index)
        self.streams = Streams(config.seed)
        self.streams.seed_globals()
        self.model: LanguageModel = load_language_model(language, device, self.streams.torch("model"))
        small = sum(parameter.numel() for parameter in self.model.parameters()) < SMALL_NETWORK
        available = available_threads(config.threads, usable_cores())
        self.config = config = resolve_threads(config, available, small=small)
        learners = learner_names(language.learners)
        adapter = language.adapter
        if adapter is not None and self._resume_point is not None:
            adapter = adapter.without_start()
        for name in learners:
            self.model.add_adapter(name, adapter, self.streams.torch("adapters"))
        if adapter is not None:
            self._report_adapter(learners[0])
        self.sampler = self._make_sampler()
        self.pool = PlayerPool(self.model, self.sampler, language, learners, self._make_opponent)
        self.league = self._make_league(learners)
        self.learner = learner = self._make_learner(self._wanted().get("num_learners"))
        weights: LearnedWeights = learner.policy
        if config.pretrained_model is not None and self._resume_point is None:
            _, checkpoint = find_checkpoint(config.pretrained_model, config.save_dir)
            load_weights(learner, checkpoint)
        self.collector = MatchCollector(self.tables, self.league, self.pool, games, self.streams)
        self.publisher = SamplerPublisher(self.pool, self.league)
        count = sum(parameter.numel() for parameter in weights.parameters())
        total = sum(p.numel() for p in self.model.parameters())
        what = f"{count:,} of {total:,} parameters" if language.adapter else f"all {count:,} parameters"
        self._header = [
            ("games", f"{self.env_id}, {games.open} side by side, against {config.league.opponents}"),
            ("algorithm", f"{config.algorithm}, {what} on {device}"),
            ("model", f"{language.model}, sampled {self._where_sampled()}"),
        ]
        return weights

    def _report_adapter(self, name: str) -> None:
        """Log which layers the adapters are added to, and warn of parts that they cannot be added to."""
        module, asked = self.model.adapter(name), self._language.adapter
        assert isinstance(module, LowRank) and asked is not None
        _log.info("adapters are added to the layers %s", ", ".join(module.targets()))
        if asked.targets in ("all-linear", "mlp"):
            for part in self.model.unadapted():
                _log.warning("no adapter is added to %s: these weights stay as they are", part)

    def _make_learner(self, learners: int | None = None) -> LanguageLearner[Any]:
        config, device = self.config, torch.device(self.config.device)
        peers = self.ranks.open(config, device, learners)
        if peers.size > 1:
            from ludus.scale.learners import Order

            self.ranks.build(Order(config))
        if peers.sharded:
            apart = LanguageContext.for_rank(config, device, self.streams, peers)
            place = replace(apart, playing=self.model)
        else:
            place = LanguageContext.of(config, self.model, device, self.streams, peers)
        learner: LanguageLearner[Any] = config.algorithm_entry().learner(place, config.typed_hyperparams())  # type: ignore[misc]
        learner.policy = LearnedWeights(self.model, place.learners, self._language)  # what a checkpoint holds
        return learner

    def _make_sampler(self) -> LocalSampler | PublishedSampler:
        """Create what samples turns: this process with the learner's weights, vLLM, or samplers on Ray."""
        config, language, generator = self.config, self._language, self.streams.torch("sampling")
        number = self._wanted().get("num_actors", 0 if config.scale is None else config.scale.num_actors)
        if config.scale is not None and number:
            from ludus.language.ray_samplers import SamplerFleet, SamplerPlan
            from ludus.scale.cluster import connect

            kind = torch.device(config.device).type
            plan = SamplerPlan(
                language, config.seed, kind, config.scale.cpus_per_actor, config.scale.gpus_for("actor", kind)
            )
            session = connect(config.scale.ray, cpus=cpus_wanted(config, config.scale.num_learners))
            self._engine = SamplerFleet(plan, session, number, config.scale.max_failures, self._stop_sampling)
        elif language.sampler.kind == "vllm":
            from ludus.language.models.vllm_engine import VLLMEngine

            self._engine = VLLMEngine(self.model, language)
        else:
            return LocalSampler(self.model, language.sampler, generator, self._stop_sampling)
        return PublishedSampler(self._engine, language.sampler, generator)

    def _where_sampled(self) -> str:
        if self._engine is None:
            return "in this process"
        number = getattr(self._engine, "number", None)
        return "by vLLM" if number is None else f"by {number} processes on Ray"

    def _wanted(self) -> dict[str, int]:
        """Return the numbers that `ludus scale` asked for since the run was started; empty for a new run."""
        return {} if self.run is None else wanted_numbers(self.run.path)

    def _rescale(self) -> None:
        """Change to the number of samplers and learners asked for. Raises LearnersRescaled for learners."""
        wanted = self._wanted()
        actors, learners = wanted.get("num_actors"), wanted.get("num_learners")
        engine: Any = self._engine
        if actors and isinstance(engine, Resizable) and actors != engine.number:
            _log.info("%d samplers from here on, after %d", actors, engine.number)
            engine.resize(actors)
        if learners and self.config.scale is not None and learners != self.ranks.peers.size:
            _log.info("%d learners from here on, after %d", learners, self.ranks.peers.size)
            raise LearnersRescaled(learners)

    def evaluate_episodes(self, n_episodes: int, deterministic: bool = False) -> MatchEvaluation:
        """Play `n_episodes` of every game against every opponent of `league.eval`, on all seats in turn.

        Nothing of training's randomness is used. The learner samples as in training; `deterministic` lets it take
        the likeliest token each time.
        """
        self.create_model()
        if not self.config.league.eval:
            raise ConfigError(
                "an evaluation needs opponents, and league.eval names none",
                key="league.eval",
                fix="name one, as league: {eval: [random]}",
            )
        own = self.config.evaluation.seed
        streams = self.streams if own is None else Streams(own)
        played = 0 if self.session is None else self.session.progress.updates
        results = []
        for table in self.eval_tables:
            for opponent in self.config.league.eval:
                seed = streams.derive("eval", played, table.game, opponent)
                learner = self._for_evaluation(seed, deterministic)
                results.append(
                    play_matches(
                        learner,
                        self._opponent(opponent, seed),
                        table.new_game,
                        n_episodes,
                        seed,
                        side_by_side=self._games.open,
                        before_turn=self._raise_if_stopping,
                    )
                )
        return MatchEvaluation.of(results)

    def warm_up(self) -> Metrics:
        """Train the learners on the moves of `warmup.source`, before they play themselves."""
        self.create_model()
        settings = self.config.warmup
        if settings is None:
            raise ConfigError(
                "the config has no warm start",
                key="warmup",
                fix="add warmup: {source: minimax}, or a CSV with observation and action",
            )
        assert isinstance(self.learner, LanguageLearner)
        return warm_up(
            self.learner, self.tables, settings, self.streams, self._log_point, self._stop_if_asked
        )

    def _log_point(self, point: Point) -> None:
        _log.info(
            "warm start, epoch %d: loss %.3f, %.0f %% of moves as shown",
            point.epoch,
            point.loss,
            100 * point.accuracy,
        )

    def _stop_if_asked(self) -> None:
        if self.session is not None and self.session.stop_requested:
            raise KeyboardInterrupt  # nothing can resume from half a warm start

    def _stop_sampling(self) -> None:
        if isinstance(self.session, SelfPlaySession):
            self.session.raise_if_sampling_stops()

    def save_warm_start(self) -> RunDirectory:
        """Save the weights as a run of their own, for `pretrained_model` of others."""
        self.create_model()
        assert self.learner is not None
        require_finite(self.learner)
        self.config = self.config.model_copy(
            update={"name": f"{self.config.name or self._default_name()}-warmup"}
        )
        run = self._create_run()
        save_policy(run, self.learner.policy, Progress())
        run.update_info(status="exported")
        return run

    def close(self) -> None:
        self._close_logs()
        super().close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        if self._gpu is not None:
            self._gpu.close()
            self._gpu = None

    def _make_session(self, **parts: Any) -> SelfPlaySession:
        self._close_logs()
        started = self.config.warmup is None or self.config.pretrained_model is not None
        return SelfPlaySession(
            league=self.league,
            pool=self.pool,
            guard=self.guard,
            warm_up=None if started else self._warm_up_and_log,
            rescale=self._rescale,
            **parts,
        )

    def _close_logs(self) -> None:
        """Close the log files of the last session."""
        if isinstance(self.session, SelfPlaySession):
            self.session.tracker.close()

    def _warm_up_and_log(self) -> None:
        figures = self.warm_up().items()
        shown = ", ".join(f"{name.removeprefix('warmup/')} {value:.3g}" for name, value in figures)
        _log.info("warm start: %s", shown)

    def _make_league(self, learners: Sequence[str]) -> League:
        league = League(self.config.league)
        for name in learners:
            league.add(name, "learner", version=0)
        for name in self.config.league.weights():
            player = self.pool.player(name)
            league.add(name, player.kind, plays=player.plays)
        for name in self.config.league.eval:
            player = self._opponent(name, seed=0)
            league.add(name, player.kind, plays=player.plays)
        return league

    def _make_opponent(self, name: str, stream: str | None = None) -> Player:
        """Return an opponent that the config names. CheckpointError for one that only a checkpoint names."""
        league = self.config.league
        if name not in (*league.weights(), *league.eval):
            raise CheckpointError(
                f"the checkpoint names an opponent that the config does not: {name}",
                where="the league in the checkpoint's state.json",
                fix="add it to league.train in the run's config.yaml if you trust it",
            )
        return make_player(
            name,
            list(dict.fromkeys(table.spec for table in (*self.tables, *self.eval_tables))),
            streams=self.streams,
            stream=stream,
            root=self.config.save_dir,
            deterministic=False,
            device=self.config.device,
        )

    def _opponent(self, name: str, seed: int) -> Player:
        """Return an opponent of evaluations, created once and seeded with `seed`."""
        stream = f"evaluation/{name}"
        if name not in self._opponents:
            self._opponents[name] = self._make_opponent(name, stream)
        self.streams.numpy(stream).bit_generator.state = np.random.PCG64(seed).state
        self.streams.torch(stream).manual_seed(seed)
        return self._opponents[name]

    def _for_evaluation(self, seed: int, deterministic: bool) -> Player:
        """Return the first learner with a sampler that training does not draw from."""
        if deterministic not in self._samplers:
            settings = self._language.sampler
            if deterministic:
                settings = settings.model_copy(update={"temperature": 1.0, "top_p": 1e-6})
            self._samplers[deterministic] = (
                LocalSampler(self.model, settings, torch.Generator(), self._stop_sampling)
                if isinstance(self.sampler, LocalSampler)
                else self.sampler.with_settings(settings, torch.Generator())
            )
        sampler = self._samplers[deterministic]
        sampler.generator.manual_seed(seed)
        sampler.forget()
        return self.pool.learner_with(self.pool.learners[0], sampler)


def make_table(game: GameConfig) -> GameSetup:
    """Return the game with template and extractor of its config. Raises ConfigError and UnknownName."""
    TextGame(game.spec())  # raises for unknown games and a wrong number of players
    return GameSetup(game.spec(), make_template(game.template), make_extractor(game.extract), game.weight)


def _resolve_config(config: TrainerConfig, *, resumed: bool) -> ResolvedConfig:
    """Choose device, hyperparameters, how evaluations play and the adapter's shape. Raises ConfigError."""
    check_device(config.device)
    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    for name in config.ignored_hyperparams():
        _log.warning("%s has no hyperparameter '%s'; it is ignored", config.algorithm, name)
    evaluation = config.resolved_evaluation()
    if not config.league.eval and evaluation.every is not None:
        if not resumed:
            raise ConfigError(
                "an evaluation needs opponents, and league.eval names none",
                key="league.eval",
                fix="name one, as league: {eval: [random]}; or train without evaluations: evaluation: null",
            )
        evaluation = evaluation.model_copy(update={"every": None})
    language = config.language
    if language is not None and language.adapter is not None and language.adapter.start and not resumed:
        # the run needs the shape also when the folder is deleted later
        stored, _ = read_peft(language.adapter.start)
        stored = stored.model_copy(update={"start": language.adapter.start})
        language = language.model_copy(update={"adapter": stored})
    typed = config.typed_hyperparams()
    return ResolvedConfig.of(
        config,
        language=language,
        algorithm=config.algorithm_entry().name,
        device=device,
        evaluation=evaluation,
        hyperparams=HyperparameterConfig(**typed.model_dump()),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name for this user id, as in some containers
        return "somebody"
