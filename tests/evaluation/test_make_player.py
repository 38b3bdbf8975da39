"""Players by name: a trained network, a language model, bots, and invalid names."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("textarena")

import ludus
from ludus.config.language import GameConfig, GameSpec, LeagueConfig
from ludus.config.schema import TrainerConfig
from ludus.errors import UnknownName, UserError
from ludus.evaluation.players import describe, game_of, make_player
from ludus.language.models.learned import LearnedWeights
from ludus.language.models.models import load_language_model
from ludus.language.players import LanguagePlayer
from ludus.language.text_games.game import TextGame
from ludus.league.league import League
from ludus.league.match import MatchResult, play_matches
from ludus.league.players import Player
from ludus.runs.checkpoints import CheckpointManager
from ludus.runs.directory import RunDirectory
from ludus.runs.streams import Streams

TICTACTOE = GameSpec("TicTacToe-v0")
NIM = GameSpec("Nim-v0")


def play(first: Player, second: Player, spec: GameSpec, games: int) -> MatchResult:
    return play_matches(first, second, partial(TextGame, spec), games, 0)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one PPO run on Text/TicTacToe-v0."""
    root = tmp_path_factory.mktemp("runs of networks")
    config = ludus.get_default_config("PPO")
    config.total_timesteps = 4096
    config.hyperparams.n_steps = 128
    config.hyperparams.policy_net_arch = config.hyperparams.value_net_arch = [32]
    config.policy.features_dim = 16
    config.save_dir = str(root)
    config.name = "net"
    config.evaluation.every = None
    trainer = ludus.create_trainer("Text/TicTacToe-v0", config)
    trainer.train()
    trainer.close()
    return root


def test_network_plays_against_minimax_and_random(network: Path) -> None:
    streams = Streams(0)
    players = {
        name: make_player(name, [TICTACTOE], streams=streams, root=network, deterministic=False)
        for name in ("net", "minimax", "random")
    }
    league = League(LeagueConfig())
    for player in players.values():
        league.add(player.name, player.kind, plays=player.plays)
    for one, two in (("net", "minimax"), ("net", "random"), ("minimax", "random")):
        result = play(players[one], players[two], TICTACTOE, 20)
        assert result.invalid == (0, 0) and result.total.games == 20  # nobody plays what is not legal
        for record in result.records:
            league.record(record)
    rows = {row.name: row for row in league.table()}
    assert {name: row.kind for name, row in rows.items()} == {
        "net": "policy",
        "minimax": "bot",
        "random": "bot",
    }
    assert all(row.games == 40 for row in rows.values())
    assert rows["minimax"].losses == 0 and rows["minimax"].mu > rows["random"].mu
    assert rows["net"].mu < rows["minimax"].mu


def test_a_network_plays_the_same_from_the_same_stream(network: Path) -> None:
    def moves(seed: int) -> list[list[tuple[int, str]]]:
        streams = Streams(seed)
        net = make_player("net", [TICTACTOE], streams=streams, root=network, deterministic=False)
        other = make_player("random", [TICTACTOE], streams=streams)
        return [record.moves for record in play(net, other, TICTACTOE, 6).records]

    assert moves(1) == moves(1) != moves(2)


def test_run_has_its_game_and_description(network: Path) -> None:
    game = game_of("net", network)
    assert game is not None and game.id == "TicTacToe-v0"
    assert game_of("minimax", network) is game_of("human") is game_of("openai:gpt") is None
    assert describe("net@latest", network).endswith("at step 4,096")
    assert describe("random") == "random"


def test_network_plays_only_its_own_game(network: Path) -> None:
    player = make_player("net", [NIM, TICTACTOE], streams=Streams(0), root=network)
    assert player.plays == {"TicTacToe-v0"}
    with pytest.raises(UserError, match=r"network for Text/TicTacToe-v0 and cannot play Nim-v0") as caught:
        make_player("net", [NIM], streams=Streams(0), root=network)
    assert "--env Text/Nim-v0" in caught.value.fix


def test_bot_plays_only_its_games(tmp_path: Path) -> None:
    kuhn = GameSpec("KuhnPoker-v0")
    player = make_player("minimax", [kuhn, TICTACTOE, NIM], streams=Streams(0))
    assert player.plays == {"TicTacToe-v0", "Nim-v0"}
    with pytest.raises(UserError, match="does not play KuhnPoker-v0"):
        make_player("minimax", [kuhn], streams=Streams(0))
    with pytest.raises(UnknownName) as caught:
        make_player("minmax", [TICTACTOE], streams=Streams(0), root=tmp_path)
    assert caught.value.fix == "did you mean 'minimax'?"


@pytest.fixture
def language_model(tmp_path: Path) -> tuple[Path, torch.Tensor]:
    """A folder with one language run of two learners, of which the second is better; a weight of the second."""
    config = TrainerConfig.model_validate(
        {
            "algorithm": "REINFORCE",
            "seed": 5,
            "language": {
                "model": "tiny",
                "model_kwargs": {"layers": 1, "hidden": 32, "heads": 2},
                "adapter": {"rank": 2},
                "learners": 2,
                "sampler": {"max_new_tokens": 4},
            },
            "games": {
                "train": [{"id": "TicTacToe-v0", "template": {"prompt": "{board}>"}, "extract": "last-line"}]
            },
        }
    )
    run = RunDirectory.create(tmp_path, "TicTacToe-v0", "REINFORCE", "speaker")
    run.config_path.write_text(config.model_dump_json(exclude_unset=True))
    assert config.language is not None
    streams = Streams(config.seed)
    model = load_language_model(config.language, "cpu", streams.torch("model"))
    names = ("learner-1", "learner-2")
    for name in names:
        model.add_adapter(name, config.language.adapter, streams.torch("adapters"))
    for parameter in model.trainable("learner-2"):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(9))
    league = League(config.league)
    for name in names:
        league.add(name, "learner", version=12)
    league.ratings.rate({"learner-1": 0.0, "learner-2": 1.0})
    learned = LearnedWeights(model, names, config.language)
    state = {
        **learned.description(),
        "progress": {"steps": 300, "updates": 12, "episodes": 40, "seconds": 1.0},
        "league": league.state_dict(),
    }
    CheckpointManager(run.checkpoints_dir).save(300, {"policy": learned.state_dict()}, state)
    return tmp_path, next(iter(model.adapter_tensors("learner-2").values())).clone()


def test_language_run_plays_with_its_best_learner_prompts_and_base_model(
    language_model: tuple[Path, torch.Tensor],
) -> None:
    root, weight = language_model
    player = make_player("speaker", [TICTACTOE], streams=Streams(0), root=root)
    assert isinstance(player, LanguagePlayer)
    assert (player.kind, player.adapter, player.version) == ("model", "learner-2", 12)
    model = player.sampler.model  # type: ignore[attr-defined]
    assert torch.equal(next(iter(model.adapter_tensors("learner-2").values())), weight)
    fresh = load_language_model(
        TrainerConfig.model_validate(
            {"language": {"model_kwargs": {"layers": 1, "hidden": 32, "heads": 2}}}
        ).language,  # type: ignore[arg-type]
        "cpu",
        Streams(5).torch("model"),
    )
    tokens = torch.arange(20)[None]
    given = (tokens, tokens, torch.ones_like(tokens))
    assert torch.equal(model.hidden(*given, adapter=None), fresh.hidden(*given, adapter=None))
    result = play(player, make_player("random", [TICTACTOE], streams=Streams(0)), TICTACTOE, 2)
    turn = result.records[0].turns[0]
    assert turn.player == "speaker" and turn.version == 12
    assert bytes(turn.prompt).decode().endswith(">")  # its own template, not the table's
    game = game_of("speaker", root)
    assert game == GameConfig(id="TicTacToe-v0", template={"prompt": "{board}>"}, extract="last-line")
