"""TextGame: a game is its spec, its seed and its actions, and leaves the rest of the process alone."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from ludus.config.language import GameSpec
from ludus.envs.seats import GameFault, GameOutcome
from ludus.errors import UnknownName, UserError
from ludus.language.text_games import seclusion, watchdog
from ludus.language.text_games.game import TextGame
from ludus.language.text_games.seclusion import Seclusion

pytest.importorskip("textarena")

TICTACTOE = GameSpec("TicTacToe-v0")
KUHN = GameSpec("KuhnPoker-v0")


def started(spec: GameSpec, seed: int = 0) -> TextGame:
    game = TextGame(spec)
    game.reset(seed)
    return game


def test_a_game_is_played_by_the_seats_in_turn_until_one_has_won() -> None:
    game = started(TICTACTOE)
    seats = []
    for cell in (0, 3, 1, 4, 2):
        assert not game.over
        seats.append(game.seat)
        assert game.play(f"[{cell}]")
    assert seats == [0, 1, 0, 1, 0]
    assert game.over
    assert game.outcome() == GameOutcome((1.0, -1.0), "Player 0 has won!", (False, False), cut_off=False)


def test_what_is_seen_is_the_same_however_often_it_is_asked_and_holds_board_and_rules_apart() -> None:
    game = started(TICTACTOE)
    game.play("[4]")
    first = game.observe()
    assert game.observe() == first
    assert first.seat == 1
    assert first.rules.startswith("You are Player 1 in Tic Tac Toe.")
    assert first.board.startswith("Current Board:") and "'[4]'" not in first.board
    assert first.text.count("Current Board:") == 2
    assert first.rules in first.text and first.board in first.text


def test_a_raw_id_is_shown_as_text_too() -> None:
    raw, wrapped = started(GameSpec("TicTacToe-v0-raw")), started(TICTACTOE)
    for game in (raw, wrapped):
        game.play("[0]")
    assert raw.observe() == wrapped.observe()


def test_a_refused_move_is_known_from_an_accepted_one() -> None:
    game = started(TICTACTOE)
    assert game.play("[4]")
    assert not game.play("[4]")  # taken: the game asks again
    assert game.seat == 1 and not game.over
    assert "already occupied" in game.observe().text
    assert game.play("[5]")  # the second attempt stands
    assert not game.play("four, I think")
    assert not game.play("four, I said")
    assert game.over
    assert game.outcome().invalid == (True, False)
    assert game.outcome().rewards == (-1.0, 1.0)


def test_a_game_without_end_is_cut_off_and_pays_nobody() -> None:
    game = started(GameSpec("TicTacToe-v0", max_turns=3))
    for cell in (0, 3, 1):
        assert not game.over
        game.play(f"[{cell}]")
    assert game.over
    assert game.outcome() == GameOutcome((0.0, 0.0), "not over after 3 turns", (False, False), cut_off=True)
    with pytest.raises(RuntimeError, match="over"):
        game.play("[2]")


def test_a_game_that_raises_is_cut_off_with_its_own_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from textarena.envs.TicTacToe.env import TicTacToeEnv

    def broken(self: object, action: str) -> None:
        raise ZeroDivisionError("of the game's own making")

    monkeypatch.setattr(TicTacToeEnv, "step", broken)
    game = started(TICTACTOE)
    game.play("[0]")
    assert game.over and game.fault is not None
    assert "in broken" in game.fault.game_traceback
    assert game.outcome().cut_off and game.outcome().rewards == (0.0, 0.0)
    assert "ZeroDivisionError: of the game's own making" in game.outcome().reason


def test_a_reward_that_is_no_number_is_the_games_fault() -> None:
    game = started(GameSpec("Countdown-v0"))
    while not game.over:
        game.play("nonsense")
    assert game.outcome().cut_off and game.outcome().rewards == (0.0,)
    assert "could not convert string to float" in game.outcome().reason


def test_a_game_that_hangs_is_cut_off_and_the_generators_are_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from textarena.envs.TicTacToe.env import TicTacToeEnv

    def endless(self: object, action: str) -> None:
        while True:
            with contextlib.suppress(Exception):
                random.random()

    monkeypatch.setattr(TicTacToeEnv, "step", endless)
    monkeypatch.setattr(seclusion, "_DEADLINE_S", 0.05)
    monkeypatch.setattr(watchdog, "_POLL_S", 0.01)
    random.seed(1)
    expected = random.getstate()
    game = TextGame(GameSpec("TicTacToe-v0", players=2))
    for seed in range(3):
        game.reset(seed)
        game.play("[0]")
        assert game.over and game.outcome().cut_off
        assert "no answer within" in game.outcome().reason
    assert random.getstate() == expected


def test_a_game_that_put_everybody_out_is_cut_off_at_once() -> None:
    nonsense = ["", "[0]", "[[", "{hi}[S]", "[E]", "I would rather not."]
    for game_id in ("PublicGoodsGame-v0", "MarketEntryGame-v0"):
        reasons = set()
        for seed in range(20):
            game, choice = started(GameSpec(game_id), seed), random.Random(seed)
            while not game.over:
                game.play(choice.choice(nonsense))
            reasons.add(game.outcome().reason)
        assert any("every player was put out" in reason for reason in reasons)


def test_a_game_that_cannot_start_is_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from textarena.envs.TicTacToe.env import TicTacToeEnv

    game = started(TICTACTOE)

    def broken(self: object, **settings: object) -> None:
        raise ZeroDivisionError("at the start")

    monkeypatch.setattr(TicTacToeEnv, "reset", broken)
    game.reset(1)
    assert game.over and game.outcome().cut_off
    assert "at the start" in game.outcome().reason


def cards_dealt(game: TextGame, rounds: int = 3) -> list[tuple[int, int]]:
    dealt = []
    for _ in range(rounds):
        dealt.append(tuple(game.state["player_cards"].values()))
        game.play("[bet]")
        game.play("[fold]")
    return dealt


def test_games_side_by_side_deal_as_games_one_after_the_other() -> None:
    alone = [cards_dealt(started(KUHN, seed)) for seed in range(8)]
    assert len({tuple(cards) for cards in alone}) > 4
    table = [started(KUHN, seed) for seed in range(8)]
    together: list[list[tuple[int, int]]] = [[] for _ in table]
    for _ in range(3):
        for game, cards in zip(table, together, strict=True):
            random.random(), np.random.rand()  # draws of somebody else's
            cards += cards_dealt(game, rounds=1)
    assert together == alone


def test_the_generators_of_the_process_are_left_as_they_were() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.rand()
    random.seed(5)
    np.random.seed(5)
    cards_dealt(started(KUHN, 3))
    drawn = []
    for _ in range(2):
        secluded = Seclusion(7)
        for _ in range(2):
            with secluded:
                drawn.append((random.random(), np.random.rand()))
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]
    assert (random.random(), np.random.rand()) == expected


@pytest.mark.parametrize("game_id", ["KuhnPoker-v0", "2048-v0", "LiarsDice-v0", "TwoDollar-v0", "Bandit-v0"])
def test_a_replay_shows_the_very_same_texts(game_id: str) -> None:
    spec = GameSpec(game_id, max_turns=12)
    game = started(spec, 11)
    texts = [game.observe()]
    choice = random.Random(0)
    while not game.over:
        game.play(choice.choice(["[check]", "[bet]", "[up]", "[left]", "[1]", "[red]", "nonsense", "[call]"]))
        texts.append(game.observe())
    again = TextGame.replay(spec, 11, [])
    seen = [again.observe()]
    for action in game.actions:
        again.play(action)
        seen.append(again.observe())
    assert seen == texts
    assert TextGame.replay(spec, 11, game.actions).outcome() == game.outcome()


def test_branches_are_independent_of_each_other_and_of_the_game() -> None:
    game = started(KUHN, 4)
    game.play("[check]")
    before = game.observe()
    left, right, twin = game.branch(), game.branch(), game.branch()
    assert left.observe() == right.observe() == before
    left.play("[bet]")
    left.play("[fold]")
    right.play("[check]")
    twin.play("[bet]")
    twin.play("[fold]")
    assert game.observe() == before and game.actions == ["[check]"]
    assert left.observe() == twin.observe() != right.observe()
    assert left.state["player_cards"] == twin.state["player_cards"]  # the next round is dealt alike


def test_a_single_player_game_pays_in_parts() -> None:
    game = started(GameSpec("TowerOfHanoi-v0", max_turns=100))
    assert game.n_seats == 1
    while not game.over:
        game.play("[A C]") if game.turns % 2 == 0 else game.play("[C A]")
    assert len(game.outcome().rewards) == 1
    assert 0.0 <= game.outcome().rewards[0] < 1.0


def test_three_and_more_sit_at_a_table() -> None:
    game = started(GameSpec("LiarsDice-v0-small", players=4))
    assert game.n_seats == 4
    game.play("[Bid: 1, 2]")
    assert game.seat == 1
    while not game.over:
        game.play("[Call]")
        if not game.over:
            game.play("[Bid: 1, 2]")
    assert len(game.outcome().rewards) == 4


def test_a_number_of_players_that_does_not_fit_names_those_that_do() -> None:
    game = TextGame(GameSpec("TicTacToe-v0", players=3))
    with pytest.raises(UserError, match=r"cannot be played by 3[\s\S]*players: 2"):
        game.reset(0)


def test_an_unknown_game_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"TickTacToe-v0[\s\S]*'TicTacToe-v0'"):
        TextGame(GameSpec("TickTacToe-v0", players=2))


def test_importing_and_playing_prints_nothing_and_opens_no_socket() -> None:
    program = """
import socket
def refuse(*args, **kwargs): raise SystemExit("a socket was opened")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from ludus.language.text_games.arena import Seclusion
from ludus.config.language import GameSpec
from ludus.language.text_games.game import TextGame
from ludus.errors import LudusError
for game_id in ("TicTacToe-v0", "RushHour-v0", "LogicPuzzle-v0", "WordLadder-v0", "Hangman-v0", "Wordle-v0"):
    try:
        game = TextGame(GameSpec(game_id))
        game.reset(0)
        game.play("[0]")
    except LudusError:
        pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_game_of_words_names_the_corpus_it_lacks_and_plays_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.startswith("textarena.envs.Hangman")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r"'words', not found[\s\S]*python -m nltk.downloader words"):
        TextGame(GameSpec("Hangman-v0"))
    (tmp_path / "corpora" / "words").mkdir(parents=True)
    for name in ("en", "en-basic"):
        (tmp_path / "corpora" / "words" / name).write_text("apple\nbridge\n")
    game = started(GameSpec("Hangman-v0"))
    assert not game.over and game.play("[e]")


class Countdown(gym.Env[str, str]):
    """Say lower numbers, down to 0."""

    observation_space = spaces.Text(100)
    action_space = spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[str, dict[str, object]]:
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(3, 9))
        return f"Count down from {self.number}.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        good = action == f"[{self.number - 1}]"
        self.number -= good
        over = self.number == 0
        reason = {"reason": "zero"} if over else {}
        return f"At {self.number}.", float(good), over, False, {"invalid_move": not good, **reason}


class Doors(Countdown):
    action_space = spaces.Discrete(3)

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, object]]:
        return f"Door {action}.", 0.5, True, False, {}


@pytest.fixture
def text_envs() -> None:
    for env_id, env in (("Countdown-v0", Countdown), ("Doors-v0", Doors)):
        if env_id not in gym.registry:
            gym.register(env_id, env)


@pytest.mark.usefixtures("text_envs")
def test_a_gymnasium_env_of_texts_is_a_game_with_one_seat() -> None:
    spec = GameSpec("gym:Countdown-v0")
    game = started(spec, 3)
    assert game.n_seats == 1
    start = int(game.observe().text.split()[-1].rstrip("."))
    assert not game.play("[99]")
    for number in range(start - 1, -1, -1):
        assert not game.over
        assert game.play(f"[{number}]")
    assert game.observe().rules == f"Count down from {start}."
    assert game.outcome() == GameOutcome((float(start),), "zero", (False,), cut_off=False)
    assert (
        TextGame.replay(spec, 3, game.actions[:2])
        .observe()
        .text.endswith(f"[{start - 1}]\n[GAME] At {start - 1}.")
    )


@pytest.mark.usefixtures("text_envs")
def test_an_env_rewards_each_move_and_keeps_what_it_gave_when_it_is_cut_off() -> None:
    game = started(GameSpec("gym:Countdown-v0", max_turns=3), 3)
    start = int(game.observe().text.split()[-1].rstrip("."))
    rewards = []
    for move in (f"[{start - 1}]", "[99]", f"[{start - 2}]"):
        game.play(move)
        rewards.append(game.last_reward)
    assert rewards == [1.0, 0.0, 1.0]
    assert game.outcome() == GameOutcome((2.0,), "not over after 3 turns", (False,), cut_off=True)


@pytest.mark.usefixtures("text_envs")
def test_an_env_that_takes_numbers_reads_them_from_the_text() -> None:
    game = started(GameSpec("gym:Doors-v0"))
    assert not game.play("[7]")
    assert not game.over and "from 0 to 2" in game.observe().text
    assert game.play("I take [2]")
    assert game.outcome().rewards == (0.5,)


@pytest.mark.usefixtures("text_envs")
def test_an_env_has_one_seat_only() -> None:
    with pytest.raises(UserError, match=r"cannot be played by 2[\s\S]*players: 1"):
        started(GameSpec("gym:Doors-v0", players=2))


def test_an_env_without_texts_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="Text observations"):
        started(GameSpec("gym:CartPole-v1"))


@pytest.mark.parametrize("trouble", ["it cannot be started again", "it ends earlier"])
def test_a_game_that_does_not_repeat_itself_is_the_fault_of_the_game(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    game = TextGame(GameSpec("TicTacToe-v0"))
    game.reset(3)
    for action in ("[4]", "[0]"):
        game.play(action)
    reset = TextGame.reset

    def slow(self: TextGame, seed: int) -> None:
        reset(self, seed)
        self.over = True
        if trouble == "it cannot be started again":  # as after its deadline
            self._table = None
            self._stop(GameFault("TicTacToe-v0 cannot be started by 2: no answer within 60 s"))

    monkeypatch.setattr(TextGame, "reset", slow)
    expected = "no answer within 60 s" if trouble == "it cannot be started again" else trouble
    for again in (game.branch, lambda: TextGame.replay(game.spec, game.seed, game.actions)):
        with pytest.raises(
            GameFault, match=f"does not repeat itself from one and the same seed: .*{expected}"
        ):
            again()
