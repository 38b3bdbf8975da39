"""Replays of evaluated games: they play again from the seed, changes are reported, nothing hidden is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ludus.cli.app import main
from ludus.envs.make import EnvSpec
from ludus.errors import UserError
from ludus.evaluation.load import LoadedPolicy
from ludus.games.balatro import actions as act
from ludus.games.balatro import names as n
from ludus.games.balatro import replay_files
from ludus.games.balatro import state as st
from ludus.games.balatro.action_words import action_words
from ludus.games.balatro.bot import RulesBot
from ludus.games.balatro.cards import HIDDEN, count_pile
from ludus.games.balatro.env import BalatroEnv
from ludus.games.balatro.replay_check import ReplayMismatch, replay_env, replay_frames, verify_replay
from ludus.games.balatro.replay_files import GameReplay, load_replay
from ludus.games.balatro.replay_page import replay_page
from ludus.games.balatro.replay_recording import record_games
from ludus.games.balatro.score import put_joker
from ludus.games.balatro.visible_state import state_hash, visible_state

AGENT, SEED = "balatro-ppo", "7I4M53DL"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replays of the shipped agent, the bot by rules and the random bot, recorded by `ludus eval`."""
    found = tmp_path_factory.mktemp("replays")
    assert main(["eval", AGENT, "--seed", SEED, "--replays", str(found), "-q"]) == 0
    assert main(["eval", "rules", "--episodes", "2", "--replays", str(found), "-q"]) == 0
    random = ["eval", "random", "--env", "ludus/Balatro-v0", "--episodes", "3", "--replays", str(found), "-q"]
    assert main(random) == 0
    return found


@pytest.fixture(scope="module")
def agent_file(folder: Path) -> Path:
    return folder / f"{AGENT}-{SEED}.jsonl"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_replays_of_agents_and_bots_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(folder.glob("*.jsonl"))
    assert [path.name for path in paths] == [
        f"{AGENT}-{SEED}.jsonl",
        *(f"random-1111111{k}.jsonl" for k in (1, 2, 3)),
        *(f"rules-1111111{k}.jsonl" for k in (1, 2)),
    ]
    capsys.readouterr()
    assert main(["balatro", "verify", *map(str, paths)]) == 0
    decisions = sum(len(lines_of(path)) - 2 for path in paths)
    assert capsys.readouterr().out.splitlines()[-1] == f"6 of 6 replays verified, {decisions:,} decisions"


def test_header_holds_what_the_env_needs(agent_file: Path) -> None:
    header = lines_of(agent_file)[0]
    expected = {"format": "ludus-balatro-replay", "version": 1, "seed": SEED, "deck": "Red Deck", "stake": 1}
    expected |= {"max_ante": 8, "max_hand": 10, "actions": "moves", "policy": AGENT}
    assert header == expected | {"hash": header["hash"]}


def test_recording_does_not_change_the_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for more in ([], ["--replays", str(tmp_path)]):
        assert main(["eval", "rules", "--episodes", "3", "--json", *more]) == 0
        results.append(json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert results[1].pop("replays") == str(tmp_path)
    assert results[0] == results[1]


def test_value_and_probabilities_are_recorded_where_the_policy_has_them(
    folder: Path, agent_file: Path
) -> None:
    for decision in lines_of(agent_file)[1:-1]:
        chances = dict(decision["probabilities"])
        assert np.isfinite(decision["value"])
        assert decision["action"] in chances and sum(chances.values()) <= 1.0001
        assert chances[decision["action"]] == max(chances.values())  # the likeliest is played
    bot = lines_of(folder / "rules-11111111.jsonl")[1]
    assert set(bot) == {"action", "hash"}


# changes are reported


def verified(path: Path) -> None:
    verify_replay(load_replay(path), str(path))


def test_changed_decision_is_reported_with_its_step(agent_file: Path, tmp_path: Path) -> None:
    replay = load_replay(agent_file)
    for frame in replay_frames(replay, "here"):
        legal = np.flatnonzero(frame.env.action_masks())
        if frame.step > 20 and frame.state["phase"] == "hand" and len(legal) > 3:
            break
    assert frame.decision is not None
    own = frame.env.engine_action(frame.decision.action)
    other = next(int(a) for a in legal if frame.env.engine_action(int(a)) != own)
    lines = lines_of(agent_file)
    lines[frame.step + 1]["action"] = other
    with pytest.raises(ReplayMismatch, match=r"the state after '(discard|play) ") as caught:
        verified(written(tmp_path / "changed.jsonl", lines))
    assert caught.value.step == frame.step + 1
    assert caught.value.expected == lines[frame.step + 1]["hash"] != caught.value.got


def test_changed_hash_is_reported_with_both_values(
    agent_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(agent_file)
    right, lines[30]["hash"] = lines[30]["hash"], "0" * 32
    path = written(tmp_path / "changed.jsonl", lines)
    capsys.readouterr()
    assert main(["balatro", "verify", str(agent_file), str(path), "--json"]) == 1
    captured = capsys.readouterr()
    error = [line for line in captured.err.splitlines() if "hash" in line and line.startswith("error: ")]
    assert len(error) == 1 and f"expected hash {'0' * 32}, got {right}" in error[0]
    assert f"  where: {path}, step 30" in captured.err
    report = json.loads(captured.out.splitlines()[-1])
    assert (report["replays"], report["verified"]) == (2, 1)
    assert report["files"][1]["step"] == 30
    assert (report["files"][1]["expected"], report["files"][1]["got"]) == ("0" * 32, right)


@pytest.mark.parametrize("change", [{"seed": "7I4M53DK"}, {"stake": 8}, {"deck": "Blue Deck"}])
def test_changed_seed_or_settings_are_reported_at_the_start(
    change: dict[str, Any], agent_file: Path, tmp_path: Path
) -> None:
    lines = lines_of(agent_file)
    lines[0] |= change
    with pytest.raises(ReplayMismatch, match="the first state differs") as caught:
        verified(written(tmp_path / "changed.jsonl", lines))
    assert caught.value.step == 0
    assert "seed, deck, stake and settings" in caught.value.fix


@pytest.mark.parametrize(
    ("field", "value"), [("won", None), ("ante", 1), ("money", 9999), ("best_hand", 1.0)]
)
def test_changed_result_is_reported(field: str, value: Any, agent_file: Path, tmp_path: Path) -> None:
    lines = lines_of(agent_file)
    lines[-1][field] = not lines[-1]["won"] if value is None else value
    with pytest.raises(ReplayMismatch, match=f"the result differs from the replay: expected {field} "):
        verified(written(tmp_path / "changed.jsonl", lines))


def test_replay_that_ends_early_or_late_is_reported(agent_file: Path, tmp_path: Path) -> None:
    lines = lines_of(agent_file)
    with pytest.raises(ReplayMismatch, match="expected over True, got False"):
        verified(written(tmp_path / "short.jsonl", [*lines[:-2], lines[-1]]))
    with pytest.raises(UserError, match="the game is over"):
        verified(written(tmp_path / "long.jsonl", [*lines[:-1], lines[-2], lines[-1]]))


# damaged files


def without(name: str) -> Callable[[list[Any]], None]:
    return lambda lines: lines[0].pop(name)


def setting(line: int, name: str, value: Any) -> Callable[[list[Any]], None]:
    return lambda lines: lines[line].__setitem__(name, value)


DAMAGES: dict[str, tuple[Callable[[list[Any]], None], str]] = {
    "version": (setting(0, "version", 2), "unknown format version 2"),
    "version of another type": (setting(0, "version", [1]), "unknown format version"),
    "format": (setting(0, "format", "zip"), "not a replay"),
    "no seed": (without("seed"), "seed: Field required"),
    "seed": (setting(0, "seed", "../../etc"), "seed: String should match"),
    "deck": (setting(0, "deck", "os.system"), "unknown deck"),
    "stake": (setting(0, "stake", 9), "stake: Input should be less than or equal to 8"),
    "stake as text": (setting(0, "stake", "1"), "stake: Input should be a valid integer"),
    "max_hand": (setting(0, "max_hand", 10**9), "max_hand"),
    "actions": (setting(0, "actions", "ludus.cli:main"), "actions"),
    "unknown field": (setting(0, "module", "os"), "module: Extra inputs are not permitted"),
    "hash": (setting(5, "hash", "zz"), "hash: String should match"),
    "bool as action": (setting(5, "action", True), "action: Input should be a valid integer"),
    "negative action": (setting(5, "action", -1), "action"),
    "large action": (setting(5, "action", 10**30), "action"),
    "action of no space": (setting(5, "action", 10**6), "action 1000000 is illegal"),
    "illegal action": (setting(1, "action", act.CASH_OUT), f"action {act.CASH_OUT} is illegal"),
    "value": (setting(5, "value", float("nan")), "value"),
    "text as value": (setting(5, "value", "<b>"), "value"),
    "many considered": (setting(5, "probabilities", [[0, 0.1]] * 50), "probabilities"),
    "odd considered": (setting(5, "probabilities", [[0]]), "probabilities"),
    "decision missing": (lambda lines: lines[5].pop("action"), "action: Field required"),
    "list": (lambda lines: lines.__setitem__(5, [1, 2]), "invalid replay"),
    "result missing": (lambda lines: lines.pop(), "it is incomplete"),
    "result field": (setting(-1, "won", "yes"), "won: Input should be a valid boolean"),
    "long line": (setting(0, "policy", "x" * 5000), "longer than 4,096 characters"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_replay_gets_three_lines(
    name: str, agent_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, words = DAMAGES[name]
    lines = lines_of(agent_file)
    damage(lines)
    path = written(tmp_path / "damaged.jsonl", lines)
    capsys.readouterr()
    assert main(["balatro", "verify", str(path)]) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 3
    assert error[0].startswith("error: ") and words in error[0]
    assert error[1].startswith(f"  where: {path}")
    assert error[2].startswith("  fix:   ")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{", b"\xff\xfe\x00", b"[" * 4000, b"null\n", b"7\n", b'{"format": 1}\n', b"9" * 5000],
)
def test_file_that_is_no_replay_gets_three_lines(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    for command in (["verify"], ["show", "--no-open"]):
        capsys.readouterr()
        assert main(["balatro", *command, str(path)]) == 2
        error = capsys.readouterr().err.splitlines()
        assert [line[:8] for line in error] == ["error: " + error[0][7], "  where:", "  fix:  "]
    assert list(tmp_path.iterdir()) == [path]


def test_huge_file_and_folder_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.jsonl"
    with path.open("wb") as file:
        file.truncate(replay_files.MAX_BYTES + 1)
    with pytest.raises(UserError, match="larger than 64 MiB"):
        load_replay(path)
    with pytest.raises(UserError, match="not a file"):
        load_replay(tmp_path)
    with pytest.raises(UserError, match="file not found"):
        load_replay(tmp_path / "missing.jsonl")


# what is recorded


class Stubborn:
    """Tries an illegal action before every legal one."""

    def __init__(self) -> None:
        self.tried = False

    def predict(self, obs: Any, mask: Any = None, deterministic: bool = True) -> Any:
        self.tried = not self.tried
        return np.array([np.argmin(mask[0]) if self.tried else np.argmax(mask[0])])


def test_illegal_decisions_are_left_out(tmp_path: Path) -> None:
    spec = EnvSpec("ludus/Balatro-v0").resolve()
    result = record_games(LoadedPolicy("stubborn", Stubborn()), spec, [3], tmp_path, max_steps=7)
    assert result.capped == 1 and result.episodes[0].length == 7
    replay = load_replay(tmp_path / "stubborn-11111114.jsonl")
    assert len(replay.decisions) == 3 and not replay.result.over
    verify_replay(replay, "here")


def test_wrapper_that_repeats_actions_is_refused(tmp_path: Path) -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves"}, frame_skip=2).resolve()
    with pytest.raises(UserError, match="changes or repeats actions"):
        record_games(LoadedPolicy("rules", RulesBot()), spec, [1], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_hold_no_path_and_the_same_seed_again_gets_a_number(tmp_path: Path) -> None:
    spec = EnvSpec("ludus/Balatro-v0", kwargs={"actions": "moves", "max_ante": 1}).resolve()
    policy = LoadedPolicy("/home/someone/runs/a b@best", RulesBot())
    record_games(policy, spec, ["ABC", "ABC"], tmp_path / "deep" / "folder")
    paths = sorted((tmp_path / "deep" / "folder").iterdir())
    assert [path.name for path in paths] == ["a-b@best-ABC-2.jsonl", "a-b@best-ABC.jsonl"]
    assert "someone" not in paths[0].read_text()
    assert load_replay(paths[0]).header.max_ante == 1


def test_env_without_replays_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["eval", "random", "--env", "CartPole-v1", "--replays", str(tmp_path / "games")]) == 2
    assert capsys.readouterr().err.startswith("error: 'CartPole-v1' has no replays\n")
    assert list(tmp_path.iterdir()) == []


# hidden information


def in_first_round(seed: int = 5) -> BalatroEnv:
    env = BalatroEnv()
    env.reset(seed=seed)
    env.step(act.TAKE_BLIND)
    return env


def hash_of(env: BalatroEnv) -> str:
    return state_hash(visible_state(env.games.s[0], env.games.f[0]))


def test_hash_and_words_contain_no_hidden_information() -> None:
    """Games that differ in seed, random numbers, order of the draw pile, face-down cards and jokers look equal."""
    one, other = in_first_round(), in_first_round()
    s, t = one.games.s[0], other.games.s[0]
    for i in range(3):
        s[st.CARD + s[st.HAND + i]] |= HIDDEN
    for name in ("Joker", "Blueprint"):
        put_joker(s, one.games.f[0], {"name": name})
    s[st.J_STICKERS : st.J_STICKERS + 2] |= st.FACE_DOWN
    t[:], other.games.f[0] = s, one.games.f[0]
    t[st.SEED_LOW] = 99
    t[st.KNOWN_SIZE :] = 7
    t[st.JOKER], t[st.JOKER + 1] = int(t[st.JOKER + 1]), int(t[st.JOKER])
    other.games.f[0, st.J_VALUE] = 3.0
    pile = t[st.DRAW_PILE : st.DRAW_PILE + t[st.N_DRAW]]
    pile[:] = pile[::-1].copy()
    pile[0], t[st.HAND] = t[st.HAND], int(pile[0])  # a card face down changes places with one of the pile
    t[st.CARD + pile[0]] &= ~HIDDEN
    t[st.CARD + t[st.HAND]] |= HIDDEN
    count_pile(t)
    assert visible_state(s, one.games.f[0]) == visible_state(t, other.games.f[0])
    assert hash_of(one) == hash_of(other)
    for action in (act.play_action([0, 5]), act.SELL_JOKER, act.MOVE_CARD):
        assert action_words(s, action) == action_words(t, action)


@pytest.mark.parametrize(
    "cell", [st.MONEY, st.HANDS_LEFT, st.DISCARDS_LEFT, st.ANTE, st.LEVEL, st.BOSS, st.BLIND_TAG, st.N_DRAW]
)
def test_hash_depends_on_what_is_visible(cell: int) -> None:
    env = in_first_round()
    before = hash_of(env)
    env.games.s[0, cell] += 1
    assert hash_of(env) != before


def test_hash_depends_on_the_faces_of_cards() -> None:
    env = in_first_round()
    before, s = hash_of(env), env.games.s[0]
    s[st.CARD + s[st.HAND]] ^= 1 << 6
    assert hash_of(env) != before


# the page


def page_data(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.partition('id="game">')[2].partition("</script>")[0])
    return found


def test_page_holds_the_visible_states_and_no_others(agent_file: Path) -> None:
    replay = load_replay(agent_file)
    data = page_data(replay_page(replay, "here"))
    frames = replay_frames(replay, "here")
    shown: dict[str, Any] = {}
    for change, frame in zip(data["states"], frames, strict=True):
        shown = {name: part for name, part in (shown | change).items() if part is not None}
        assert shown == json.loads(json.dumps(frame.state))
    assert set(data) == {"states", "choices", "hands", "end"}
    known = {"words", "cards", "plays", "place", "index", "value", "considered", "outcome", "q"}
    assert {name for choice in data["choices"] for name in choice} <= known


def test_page_says_decisions_in_words(agent_file: Path) -> None:
    choices = page_data(replay_page(load_replay(agent_file), "here"))["choices"]
    words = [choice["words"] for choice in choices]
    assert words[0] == "play Small Blind"
    played = next(choice for choice in choices if choice["plays"])
    count = len(played["cards"])
    assert played["words"].startswith(f"play {count} card")
    assert played["words"].count(" ") == count + (2 if count > 0 else 0)
    assert played["outcome"].endswith(" chips")
    assert any(one.startswith("buy ") and " for $" in one for one in words)
    assert any(one.startswith("cash out $") for one in words)
    bought = next(choice for choice in choices if choice["words"].startswith("buy "))
    assert bought["place"] == "items"
    for choice in choices:
        assert [row["words"] for row in choice["considered"] if row.get("chosen")] == [choice["words"]]


def test_page_escapes_texts_of_the_file(agent_file: Path) -> None:
    replay = load_replay(agent_file)
    name = "</title></script><img src=x onerror=alert(1)>\u2028"
    changed = GameReplay(
        header=replay.header.model_copy(update={"policy": name}),
        decisions=replay.decisions,
        result=replay.result,
    )
    page = replay_page(changed, "here")
    assert "<img src=x" not in page and "&lt;img src=x" in page
    assert page.count("<script") == 3 and "http" not in page.partition("</head>")[2]


def test_show_writes_a_page_next_to_the_replay(
    agent_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "game.jsonl"
    path.write_bytes(agent_file.read_bytes())
    assert main(["balatro", "show", str(path), "--no-open", "--json"]) == 0
    page = tmp_path / "game.html"
    assert json.loads(capsys.readouterr().out)["page"] == str(page)
    assert "Content-Security-Policy" in page.read_text() and page.stat().st_size < 1 << 20
    lines = lines_of(path)
    lines[9]["hash"] = "1" * 32
    written(path, lines)
    page.unlink()
    assert main(["balatro", "show", str(path), "--no-open"]) == 1  # a page must not show another game
    assert not page.exists()


def test_actions_are_described_with_names_and_prices() -> None:
    env = in_first_round()
    s = env.games.s[0]
    assert action_words(s, act.discard_action([0, 2])).startswith("discard 2 cards: ")
    assert action_words(s, act.play_action([1])).startswith("play 1 card: ")
    s[st.PHASE], s[st.SHOP], s[st.SHOP_EDITION] = n.SHOPPING, n.J_BLUEPRINT, 0
    assert action_words(s, act.BUY) == "buy Blueprint for $10"
    s[st.PHASE], s[st.WAITING] = n.TARGETING, n.C_MAGICIAN
    assert action_words(s, act.play_action([0])).startswith("use The Magician on ")


def test_replayed_env_has_the_recorded_settings(agent_file: Path) -> None:
    env = replay_env(load_replay(agent_file))
    assert env.settings.actions == "moves" and env.settings.max_hand == 10
    assert int(env.games.s[0, st.LAST_ANTE]) == 8
