"""The stand-in: its HTTP, its errors in the order of the mod, and recordings of the real game."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bridge_faults import rich_run, serving

from ludus.games.balatro import names as nm
from ludus.games.balatro import state as st
from ludus.games.balatro.bridge.protocol import CallRefused, GameConnection
from ludus.games.balatro.bridge.server import StandInServer
from ludus.games.balatro.bridge.stand_in import METHODS, StandIn
from ludus.games.balatro.bridge.view import read_view

TRACES = sorted((Path(__file__).parents[2] / "data/balatro/traces").glob("*.jsonl"))
START = {"deck": "RED", "stake": "WHITE", "seed": "OOOO155"}


@pytest.fixture(scope="module")
def served() -> Iterator[StandInServer]:
    stand_in = StandIn()
    stand_in.warm_up()
    with StandInServer("127.0.0.1", 0) as server:
        import threading

        server.stand_in = stand_in
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _http(server: StandInServer, method: str, path: str, body: bytes, **headers: str) -> tuple[int, Any, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.server_address[1]), timeout=20)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read()), answer.getheader("Connection")
    connection.close()
    return found


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 405), ("PUT", "/", 405), ("POST", "/other", 404), ("POST", "/", 200)],
)
def test_only_post_to_the_root_is_served(served: StandInServer, method: str, path: str, status: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "method": "health", "id": "a"}).encode()
    code, answer, connection = _http(served, method, path, body)
    assert code == status
    assert connection == "close"
    assert ("error" in answer) == (status != 200)


def test_a_body_that_is_too_long_or_of_unknown_length_is_refused(served: StandInServer) -> None:
    assert _http(served, "POST", "/", b" " * 65_537)[0] == 400
    with socket.create_connection(("127.0.0.1", int(served.server_address[1])), timeout=20) as plain:
        plain.sendall(b"POST / HTTP/1.1\r\n\r\n")
        assert plain.recv(100).startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", int(served.server_address[1])), timeout=20) as plain:
        plain.sendall(b"nonsense\r\n\r\n")
        assert b"400" in plain.recv(200)


@pytest.mark.parametrize(
    ("body", "number"),
    [
        (b"{", None),
        (b"[" * 5000, None),
        (b"[]", None),
        (b'{"jsonrpc": "1.0", "method": "health", "id": 1}', None),
        (b'{"jsonrpc": "2.0", "method": "health"}', None),
        (b'{"jsonrpc": "2.0", "method": "health", "id": 1.5}', None),
        (b'{"jsonrpc": "2.0", "method": "health", "id": true}', None),
        (b'{"jsonrpc": "2.0", "method": 5, "id": 7}', 7),
        (b'{"jsonrpc": "2.0", "method": "fly", "id": 7}', 7),
        (b'{"jsonrpc": "2.0", "method": "health", "params": 3, "id": 7}', 7),
    ],
)
def test_a_bad_call_is_a_bad_request(served: StandInServer, body: bytes, number: Any) -> None:
    status, answer, _ = _http(served, "POST", "/", body)
    assert status == 200
    assert answer["error"]["code"] == -32001
    assert answer["error"]["data"] == {"name": "BAD_REQUEST"}
    assert answer["id"] == number


def test_discover_says_that_it_is_not_the_game(served: StandInServer) -> None:
    document = GameConnection(port=int(served.server_address[1])).call("rpc.discover")
    assert "not the game" in document["info"]["title"]
    assert {row["name"] for row in document["methods"]} == set(METHODS)


def _at(state: str) -> StandIn:
    """Return a rich run in a state."""
    game = StandIn()
    game.answer("start", dict(START))
    rich_run(game.s, game.f)
    steps = {"BLIND_SELECT": 0, "SELECTING_HAND": 1, "ROUND_EVAL": 2, "SHOP": 3, "SMODS_BOOSTER_OPENED": 4}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("select", {}),
        ("play", {"cards": [0, 1, 2, 3]}),
        ("cash_out", {}),
        ("buy", {"pack": 0}),
    ]
    for name, params in calls[: steps[state]]:
        game.answer(name, params)
    assert game.state == state
    return game


ERRORS = [
    ("BLIND_SELECT", "start", START, "INVALID_STATE"),
    ("BLIND_SELECT", "start", {"deck": "RED"}, "BAD_REQUEST"),  # a missing field comes before the state
    ("BLIND_SELECT", "play", {"cards": "0"}, "BAD_REQUEST"),
    ("BLIND_SELECT", "play", {"cards": [0]}, "INVALID_STATE"),
    ("BLIND_SELECT", "sell", {"joker": 0}, "INVALID_STATE"),
    ("BLIND_SELECT", "use", {"consumable": 0}, "INVALID_STATE"),
    ("BLIND_SELECT", "rearrange", {"jokers": [0, 1, 2, 3]}, "INVALID_STATE"),
    ("SELECTING_HAND", "play", {"cards": []}, "BAD_REQUEST"),
    ("SELECTING_HAND", "play", {"cards": [0, 1, 2, 3, 4, 5]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "play", {"cards": [-1]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "play", {"cards": [40]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "play", {"cards": [0.5]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "play", {}, "BAD_REQUEST"),
    ("SELECTING_HAND", "select", {}, "INVALID_STATE"),
    ("SELECTING_HAND", "use", {"consumable": 0}, "BAD_REQUEST"),  # Death without targets
    ("SELECTING_HAND", "use", {"consumable": 0, "cards": [1]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "use", {"consumable": 0, "cards": [1, 2, 3]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "use", {"consumable": 0, "cards": [1, 99]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "use", {"consumable": 9}, "BAD_REQUEST"),
    ("SELECTING_HAND", "use", {"consumable": 3, "cards": [1]}, "NOT_ALLOWED"),  # Aura
    ("SELECTING_HAND", "sell", {}, "BAD_REQUEST"),
    ("SELECTING_HAND", "sell", {"joker": 0, "consumable": 0}, "BAD_REQUEST"),
    ("SELECTING_HAND", "sell", {"joker": 77}, "BAD_REQUEST"),
    ("SELECTING_HAND", "rearrange", {"jokers": [0, 1]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "rearrange", {"jokers": [0, 1, 2, 2]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "rearrange", {"jokers": [0, 1, 2, 4]}, "BAD_REQUEST"),
    ("SELECTING_HAND", "rearrange", {}, "BAD_REQUEST"),
    ("SELECTING_HAND", "sort", {"by": "colour"}, "BAD_REQUEST"),
    ("ROUND_EVAL", "next_round", {}, "INVALID_STATE"),
    ("SHOP", "buy", {}, "BAD_REQUEST"),
    ("SHOP", "buy", {"card": 0, "pack": 0}, "BAD_REQUEST"),
    ("SHOP", "buy", {"card": 7}, "BAD_REQUEST"),
    ("SHOP", "use", {"consumable": 0, "cards": [0, 1]}, "INVALID_STATE"),
    ("SHOP", "rearrange", {"hand": [0]}, "INVALID_STATE"),
    ("SHOP", "pack", {"skip": True}, "INVALID_STATE"),
    ("SHOP", "buy_and_use", {"card": 0}, "NOT_ALLOWED"),  # a joker
    ("SMODS_BOOSTER_OPENED", "pack", {}, "BAD_REQUEST"),
    ("SMODS_BOOSTER_OPENED", "pack", {"card": 0, "skip": True}, "BAD_REQUEST"),
    ("SMODS_BOOSTER_OPENED", "pack", {"card": 9}, "BAD_REQUEST"),
    ("SMODS_BOOSTER_OPENED", "sell", {"joker": 0}, "INVALID_STATE"),
    ("SMODS_BOOSTER_OPENED", "save", {}, "NOT_ALLOWED"),
]


@pytest.mark.parametrize(("state", "method", "params", "name"), ERRORS)
def test_errors_are_those_of_the_mod_and_change_nothing(
    state: str, method: str, params: dict[str, Any], name: str
) -> None:
    game = _at(state)
    before = game.s.copy()
    with pytest.raises(CallRefused) as caught:
        game.answer(method, dict(params))
    assert caught.value.name == name
    assert (game.s == before).all()


def test_money_slots_and_blinds_are_checked() -> None:
    game = _at("SHOP")
    game.s[st.MONEY] = 0
    for method, params, name in (
        ("reroll", {}, "NOT_ALLOWED"),
        ("buy", {"card": 0}, "BAD_REQUEST"),
        ("buy", {"voucher": 0}, "BAD_REQUEST"),
        ("buy", {"pack": 0}, "BAD_REQUEST"),
    ):
        with pytest.raises(CallRefused, match="Available") as caught:
            game.answer(method, params)
        assert caught.value.name == name
    game = _at("SHOP")
    game.s[st.JOKER_SLOTS] = 0
    game.s[st.SHOP_EDITION] = nm.NEGATIVE  # the mod refuses it as well
    with pytest.raises(CallRefused, match="joker slots are full"):
        game.answer("buy", {"card": 0})
    game = _at("BLIND_SELECT")
    game.s[st.BLIND_ON_DECK] = 2
    with pytest.raises(CallRefused, match="Cannot skip Boss blind"):
        game.answer("skip", {})
    game.s[st.MONEY] = 9
    with pytest.raises(CallRefused, match="Required: 10"):
        game.answer("reroll_boss", {})
    game = _at("SELECTING_HAND")
    game.s[st.DISCARDS_LEFT] = 0
    with pytest.raises(CallRefused, match="No discards left"):
        game.answer("discard", {"cards": [0]})


def test_a_whole_float_is_an_integer_and_an_empty_table_a_list() -> None:
    game = _at("SELECTING_HAND")
    state = game.answer("rearrange", {"jokers": [1.0, 0.0, 2.0, 3.0]})
    assert all(card["state"] == [] or card["state"] for card in state["jokers"]["cards"])
    assert any(card["modifier"] == [] for card in state["hand"]["cards"])


def test_a_beaten_boss_of_ante_8_is_won_and_the_run_continues() -> None:
    game = StandIn()
    game.answer("start", dict(START))
    game.s[st.ANTE], game.s[st.BLIND_ON_DECK], game.s[st.BOSS] = 8, 2, nm.BL_FINAL_VESSEL
    game.s[st.LEVEL : st.LEVEL + st.N_HANDS] = 2000
    game.answer("select", {})
    state = game.answer("play", {"cards": [0, 1, 2, 3, 4]})
    assert (state["state"], state["won"]) == ("ROUND_EVAL", True)
    assert game.answer("cash_out", {})["ante_num"] == 9


RECORDED = {
    ("skip_or_select_blind", "select"): "select",
    ("skip_or_select_blind", "skip"): "skip",
    ("play_hand_or_discard", "play_hand"): "play",
    ("play_hand_or_discard", "discard"): "discard",
    ("shop", "next_round"): "next_round",
    ("shop", "reroll"): "reroll",
    ("cash_out", None): "cash_out",
    ("go_to_menu", None): "menu",
}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_recorded_actions_show_what_the_real_game_showed(path: Path) -> None:
    """The recordings are of an older protocol of the same mod: the fields that both have are compared."""
    with serving(StandIn()) as server:
        connection = GameConnection(port=int(server.server_address[1]))
        for line in path.read_text().splitlines():
            row = json.loads(line)
            given = row["arguments"] or {}
            if row["action"] == "start_run":
                method, params = "start", dict(START, seed=given["seed"])
            elif row["action"] == "rearrange_hand":
                method, params = "rearrange", {"hand": given["cards"]}
            else:
                method = RECORDED[row["action"], given.get("action")]
                params = {"cards": given["cards"]} if "cards" in given else {}
            view, after = read_view(connection.call(method, params)), row["after"]
            if after is None or view["state"] == "MENU":  # recordings keep the last run's numbers in the menu
                continue
            assert view["money"] == after["dollars"]
            assert view["hands left"] == after["hands_left"]
            assert view["discards left"] == after["discards_left"]
            assert view["chips"] == after["chips"]
            assert [card.split()[0] for card in view["hand"]] == after["hand"]
            if view["state"] == "SHOP":
                shown = [card.split()[0] for card in view["shop"]]
                assert shown == after["shop"]["shop_jokers"]
                packs = [card.split()[0] for card in view["packs on offer"]]
                assert packs == [key.rpartition("_")[0] for key in after["shop"]["shop_booster"]]
