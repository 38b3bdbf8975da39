"""The client of the real game against a stand-in: games without a difference, faults, refusals, planted differences."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from bridge_faults import QUICK, READING, ExploringBot, FaultyStandIn, bridge, rich_run, serving

import ludus.envs.registration  # noqa: F401
from ludus.envs.make import EnvSpec
from ludus.errors import SimulatorLost, UserError
from ludus.evaluation.load import load
from ludus.games.balatro import actions as act
from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bot import RulesBot
from ludus.games.balatro.bridge.client import GameClient, GamesDiffer, Patience, write_report
from ludus.games.balatro.bridge.protocol import GameConnection
from ludus.games.balatro.bridge.server import StandInServer
from ludus.games.balatro.bridge.stand_in import StandIn
from ludus.games.balatro.seeds import seed_text

SEEDS = [seed_text(104_729 * k + 5) for k in range(60)]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Compile the rules before a test measures timeouts."""
    StandIn().warm_up()
    with serving(FaultyStandIn(rich_run)) as server:
        for actions in ("cards", "moves"):
            bridge(server, ExploringBot(1), actions=actions, prepare=rich_run).play("1", leave_run=True)


def _play(stand_in: FaultyStandIn, seeds: list[str], **options: Any) -> list[dict[str, Any]]:
    with serving(stand_in) as server:
        player = bridge(server, options.pop("actor", ExploringBot(7)), **options)
        return [player.play(seed, leave_run=True).as_dict() for seed in seeds]


@pytest.mark.parametrize("actions", ["cards", "moves"])
def test_exploring_games_show_no_difference_and_reach_the_whole_protocol(actions: str) -> None:
    stand_in = FaultyStandIn(rich_run)
    games = _play(stand_in, SEEDS[:5], actions=actions, prepare=rich_run)
    assert max(game["ante"] for game in games) >= 4
    wanted = {
        "buy card",
        "buy pack",
        "buy voucher",
        "buy_and_use card",
        "pack card",
        "pack skip",
        "pack targets",
    }
    wanted |= {"sell joker", "sell consumable", "use consumable", "use cards", "rearrange jokers"}
    assert stand_in.seen >= wanted | ({"rearrange hand"} if actions == "cards" else set())
    assert {"skip", "reroll", "reroll_boss", "cash_out", "next_round"} <= set(stand_in.carried_out)


def test_games_of_the_agent_and_the_bots_show_no_difference() -> None:
    agent = load("balatro-ppo")
    assert agent.config is not None
    for actor, spec in ((agent, agent.env_spec()), (RulesBot(), None)):
        games = _play(FaultyStandIn(), SEEDS[:1], actor=actor, spec=spec)
        assert all(game["ended"] in ("won", "lost") for game in games)
    space = gym.make("ludus/Balatro-v0").action_space
    for seed in SEEDS[:3]:
        assert _play(FaultyStandIn(), [seed], actor=load("random", action_space=space), actions="cards")


@pytest.mark.long
def test_fifty_full_games_show_no_difference() -> None:
    agent = load("balatro-ppo")
    games = _play(FaultyStandIn(), SEEDS[:20], actor=agent, spec=agent.env_spec())
    games += _play(FaultyStandIn(), SEEDS[20:30], actor=RulesBot())
    for number, (deck, stake) in enumerate(
        (
            ("RED", "WHITE"),
            ("ERRATIC", "GOLD"),
            ("PLASMA", "BLACK"),
            ("GHOST", "ORANGE"),
            ("ANAGLYPH", "PURPLE"),
        )
    ):
        for actions in ("cards", "moves"):
            seeds = SEEDS[30 + 4 * number + 2 * (actions == "moves") :][:2]
            run: Any = {"actions": actions, "deck": deck, "stake": stake, "prepare": rich_run}
            games += _play(FaultyStandIn(rich_run), seeds, **run)
    assert len(games) == 50
    assert all(game["ended"] in ("won", "lost", "cut") for game in games)


def test_an_older_mod_without_the_new_methods_gets_buy_and_then_use() -> None:
    stand_in = FaultyStandIn(rich_run, without=("buy_and_use", "reroll_boss", "sort"))
    actor = BuysAndUses(3)
    _play(stand_in, SEEDS[:2], actor=actor, actions="cards", prepare=rich_run)
    assert actor.chosen > 0
    assert "buy_and_use" not in stand_in.carried_out


class BuysAndUses(ExploringBot):
    """Prefers to buy and use."""

    chosen = 0

    def _choose(self, mask: Any) -> int:
        wanted = [a for a in range(act.BUY_AND_USE, act.REDEEM) if mask[a]]
        self.chosen += bool(wanted)
        return wanted[0] if wanted else super()._choose(mask)


def test_actions_without_a_request_are_masked() -> None:
    with serving(FaultyStandIn(rich_run, without=("reroll_boss",))) as server:
        player = bridge(server, ExploringBot(1), actions="cards", prepare=rich_run)
        game: Any = player.twin.env.unwrapped
        _, info = player.twin.env.reset(options={"seed": SEEDS[0]})
        mask = info["action_mask"]
        assert not mask[act.USE : act.MOVE_CARD].any()
        assert not mask[act.REROLL_BOSS]
        assert mask[act.TAKE_BLIND]
        info = player.twin.env.step(act.TAKE_BLIND)[4]
        aura = list(game.games.s[0][st.CONSUMABLE : st.CONSUMABLE + 4]).index(nm.C_AURA)
        assert info["action_mask"][act.USE]
        assert not info["action_mask"][act.USE + aura]
        game.forbid = None
        game._observe()
        assert game.action_masks()[act.USE + aura]


# what the game shows


def _newer_names(state: dict[str, Any]) -> None:
    """Write floats, keys and tags as newer versions of the mod do."""
    for field in ("money", "ante_num", "round_num"):
        state[field] = float(state[field])
    for area in ("jokers", "consumables", "hand", "shop", "pack"):
        for card in (state.get(area) or {}).get("cards", []):
            for field, prefix in (("edition", "e_"), ("enhancement", "m_")):
                if field in card["modifier"]:
                    card["modifier"][field] = prefix + card["modifier"][field].lower()
            if "seal" in card["modifier"]:
                card["modifier"]["seal"] = card["modifier"]["seal"].title()
    if "deck" in state:
        state["deck"], state["stake"] = "b_" + state["deck"].lower(), "stake_" + state["stake"].lower()
        for blind in state["blinds"].values():
            if "tag_name" in blind:
                blind["tag"] = {"name": blind.pop("tag_name")}


def _hide_what_a_player_cannot_see(state: dict[str, Any]) -> None:
    for area in ("cards", "hand", "jokers"):
        for card in (state.get(area) or {}).get("cards", []):
            if area == "cards" or (isinstance(card["state"], dict) and card["state"].get("hidden")):
                card["key"], card["modifier"], card["value"] = "S_A", [], {}


@pytest.mark.parametrize("change", [_newer_names, _hide_what_a_player_cannot_see])
def test_the_same_game_is_played_whatever_the_answer_adds_or_hides(change: Any) -> None:
    plain = _play(FaultyStandIn(rich_run), SEEDS[:2], actions="cards", prepare=rich_run)
    changed = _play(FaultyStandIn(rich_run, change=change), SEEDS[:2], actions="cards", prepare=rich_run)
    assert changed == plain


class SortsOtherwise(FaultyStandIn):
    """Shows every new hand in the opposite order."""

    def answer(self, name: str, params: dict[str, Any]) -> Any:
        result = super().answer(name, params)
        if name in ("select", "play", "discard") and self.state == "SELECTING_HAND":
            held = slice(st.HAND, st.HAND + int(self.s[st.N_HAND]))
            self.s[held] = self.s[held][::-1].copy()
            return self.gamestate({})
        return result


def test_a_hand_in_another_order_is_put_into_the_order_of_the_engine() -> None:
    stand_in = SortsOtherwise(rich_run)
    games = _play(stand_in, SEEDS[:1], actions="cards", prepare=rich_run)
    plain = _play(FaultyStandIn(rich_run), SEEDS[:1], actions="cards", prepare=rich_run)
    assert [game["ante"] for game in games] == [game["ante"] for game in plain]
    assert stand_in.carried_out["rearrange"] > 0


# faults


def _schedule(kind: str, seed: int) -> Iterator[str]:
    generator = random.Random(seed)
    while True:
        yield kind if generator.random() < 0.25 else ""


def _changes(stand_in: FaultyStandIn) -> Counter[str]:
    return Counter({name: n for name, n in stand_in.carried_out.items() if name not in READING})


@pytest.mark.parametrize("kind", ["drop before", "drop after", "other id", "garbage", "wrong state"])
def test_every_action_is_carried_out_once_under_many_faults(kind: str) -> None:
    plain = FaultyStandIn(rich_run)
    expected = _play(plain, SEEDS[:1], actions="cards", prepare=rich_run)
    faulty = FaultyStandIn(rich_run)
    patience = Patience(start=5.0, settle=5.0, pause=0.002, resends=20)
    with serving(faulty, _schedule(kind, 3)) as server:
        player = bridge(server, ExploringBot(7), actions="cards", prepare=rich_run, patience=patience)
        games = [player.play(seed, leave_run=True) for seed in SEEDS[:1]]
    assert [(g.ante, g.round, g.ended) for g in games] == [
        (g["ante"], g["round"], g["ended"]) for g in expected
    ]
    assert _changes(faulty) == _changes(plain)


@pytest.mark.parametrize("kind", ["slow", "late"])
def test_an_answer_after_the_timeout_does_not_repeat_the_action(kind: str) -> None:
    plain = FaultyStandIn()
    _play(plain, SEEDS[:1], actor=RulesBot())
    faulty = FaultyStandIn()
    faults = iter(["", kind, "", kind, kind, "", "", kind])
    with serving(faulty, faults, delay=0.8) as server:
        patience = Patience(start=5.0, settle=10.0, pause=0.05)
        bridge(server, RulesBot(), patience=patience, timeout=0.4).play(SEEDS[0])
    assert _changes(faulty) == _changes(plain)


def test_a_refused_action_stops_with_the_reason() -> None:
    faulty = FaultyStandIn()
    with serving(faulty, iter(["", "", "refused"])) as server:
        player = bridge(server, RulesBot())
        with pytest.raises(GamesDiffer, match="NOT_ALLOWED: planted"):
            player.play(SEEDS[0])
    assert sum(_changes(faulty).values()) == 2


def test_an_action_refused_for_its_state_again_and_again_stops() -> None:
    with serving(FaultyStandIn(), iter(["", *["wrong state"] * 9])) as server:
        player = bridge(server, RulesBot())
        with pytest.raises(GamesDiffer, match="INVALID_STATE"):
            player.play(SEEDS[0])
    assert player.client.log.count("select") == 1 + QUICK.resends


def test_a_connection_that_never_carries_out_the_action_ends_cleanly() -> None:
    with serving(FaultyStandIn(), iter(["", *["drop before"] * 9])) as server:
        player = bridge(server, RulesBot())
        with pytest.raises(SimulatorLost, match="never carried out"):
            player.play(SEEDS[0])
    assert player.client.log.count("select") == 1 + QUICK.resends


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_game_that_closes_ends_cleanly(after: int) -> None:
    with serving(FaultyStandIn(), iter([""] * after + ["gone"])) as server:
        player = bridge(server, RulesBot(), patience=Patience(settle=0.3, pause=0.01), timeout=1.0)
        with pytest.raises(SimulatorLost, match="stopped answering"):
            player.play(SEEDS[0])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_game_that_is_not_there_at_first_is_waited_for() -> None:
    port, said = _free_port(), []
    servers = []

    def start_later() -> None:
        time.sleep(0.3)
        servers.append(StandInServer("127.0.0.1", port))
        servers[0].serve_forever(0.01)

    thread = threading.Thread(target=start_later)
    thread.start()
    client = GameClient(GameConnection(port=port), Patience(start=20.0, pause=0.02))
    client.wait_for_game(said.append)
    servers[0].shutdown()
    thread.join()
    servers[0].server_close()
    assert "stand-in" in client.title
    assert len(said) == 1


def test_a_game_that_never_answers_is_an_error_with_a_fix() -> None:
    client = GameClient(GameConnection(port=_free_port()), Patience(start=0.1, pause=0.02))
    with pytest.raises(SimulatorLost, match="no game answers") as caught:
        client.wait_for_game()
    assert "balatrobot" in caught.value.fix


@pytest.mark.parametrize(
    "result",
    [None, 3, {}, {"state": 5}, {"state": "SHOP", "money": "4"}, {"state": "SHOP", "hand": {"cards": 3}}],
)
def test_an_answer_that_is_not_a_game_state_is_a_fault(result: Any) -> None:
    class Odd(StandIn):
        def answer(self, name: str, params: dict[str, Any]) -> Any:
            return result

    with serving(Odd()) as server:
        connection = GameConnection(port=int(server.server_address[1]))
        with pytest.raises(SimulatorLost, match="stopped answering"):
            GameClient(connection, Patience(settle=0.1, pause=0.02)).look()


def test_a_run_in_progress_is_not_abandoned_unless_asked() -> None:
    stand_in = FaultyStandIn()
    stand_in.answer("start", {"deck": "RED", "stake": "WHITE", "seed": "ABC"})
    with serving(stand_in) as server:
        player = bridge(server, RulesBot())
        with pytest.raises(UserError, match="a run is in progress"):
            player.play(SEEDS[0])
        assert stand_in.carried_out["menu"] == 0
        assert player.play(SEEDS[0], leave_run=True).ended in ("won", "lost")


# planted differences

PLANTED = {
    "money": lambda state: state.update(money=state["money"] + 1),
    "state": lambda state: state.update(state="SHOP"),
    "ante": lambda state: state.update(ante_num=5),
    "chips": lambda state: state["round"].update(chips=state["round"]["chips"] + 1),
    "hands left": lambda state: state["round"].update(hands_left=9),
    "hand": lambda state: state["hand"]["cards"][0].update(key="S_2", modifier={"seal": "RED"}),
    "jokers": lambda state: state["jokers"].update(cards=[state["hand"]["cards"][0]]),
    "boss blind": lambda state: state["blinds"]["boss"].update(name="The Nobody"),
    "levels": lambda state: state["hands"]["Pair"].update(level=4),
}


@pytest.mark.parametrize("field", PLANTED)
def test_a_planted_difference_is_reported_with_both_states(field: str, tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        if state["state"] == "SELECTING_HAND" and state["round"]["hands_played"] == 1:
            PLANTED[field](state)

    with serving(FaultyStandIn(change=change)) as server:
        player = bridge(server, PlaysOnly(1), actions="cards", patience=Patience(settle=0.1, pause=0.02))
        with pytest.raises(GamesDiffer) as caught:
            player.play(SEEDS[0])
    assert [difference.field for difference in caught.value.differences] == [field]
    path = tmp_path / "difference.json"
    write_report(path, caught.value, player.client, {"seed": SEEDS[0]})
    kept = json.loads(path.read_text())
    assert kept["expected"][field] != kept["shown"][field]
    assert kept["game_state"]["seed"] == SEEDS[0]
    assert kept["requests"][-1].startswith("play")


class PlaysOnly(ExploringBot):
    """Takes blinds and plays the first card."""

    def _choose(self, mask: Any) -> int:
        return act.TAKE_BLIND if mask[act.TAKE_BLIND] else act.play_action([0])


# the commands, as processes


def _ludus(*words: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ludus", "balatro", *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
        **options,
    )


def test_connect_plays_against_serve_as_processes(tmp_path: Path) -> None:
    served = _ludus("serve", "--port", "0")
    try:
        assert served.stdout is not None
        line = next(line for line in served.stdout if "listening" in line)
        assert line.startswith("stand-in, not the game")
        port = line.split(":")[-1].split(";")[0]
        run = _ludus(
            "connect", "--port", port, "--agent", "rules", "--seed", "7I4M53DL", "--json", cwd=tmp_path
        )
        output = run.communicate(timeout=300)[0]
        assert run.returncode == 0, output
        result = json.loads(output.splitlines()[-1])
        assert result["difference"] is None
        assert result["games"][0]["seed"] == "7I4M53DL"
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=60)
    assert served.returncode == 130


def test_connect_ends_with_code_1_and_a_file_at_a_difference(tmp_path: Path) -> None:
    def change(state: dict[str, Any]) -> None:
        if state["state"] == "SELECTING_HAND":
            state["money"] += 1

    with serving(FaultyStandIn(change=change)) as server:
        port = str(server.server_address[1])
        words = ["--port", port, "--agent", "rules", "--seed", "7I4M53DL", "--settle", "0.5"]
        run = _ludus("connect", *words, cwd=tmp_path)
        output = run.communicate(timeout=300)[0]
    assert run.returncode == 1
    assert "money: expected 4, the game shows 5" in output
    assert "Traceback" not in output
    kept = json.loads((tmp_path / "balatro-difference-7I4M53DL.json").read_text())
    assert (kept["expected"]["money"], kept["shown"]["money"]) == (4, 5)


def test_an_agent_of_another_game_is_refused_with_a_fix() -> None:
    with serving(StandIn()) as server, pytest.raises(UserError, match="not Balatro"):
        bridge(server, None, spec=EnvSpec("CartPole-v1"))
