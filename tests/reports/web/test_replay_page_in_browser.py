"""The page of a Balatro replay in a real browser: it steps through the game and asks nobody for anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ludus.cli.app import main


def test_page_of_a_replay_steps_through_the_game_without_an_error_or_a_request(
    browser: Any, tmp_path: Path
) -> None:
    assert main(["eval", "balatro-ppo", "--seed", "7I4M53DL", "--replays", str(tmp_path), "-q"]) == 0
    replay = tmp_path / "balatro-ppo-7I4M53DL.jsonl"
    path = tmp_path / "game.html"
    assert main(["balatro", "show", str(replay), "--out", str(path), "--no-open", "-q"]) == 0
    decisions = len(replay.read_text().splitlines()) - 2

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    problems, asked = [], []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    step = page.locator("html").get_attribute
    assert step("data-step") == "0"
    assert page.locator("#choice").inner_text() == "play Small Blind"

    page.keyboard.press("ArrowRight")
    assert step("data-step") == "1"
    assert page.locator("#hand .card").count() == 8
    chosen = page.locator("#hand .slot.chosen").count()
    assert 1 <= chosen <= 5
    assert f" {chosen} card" in page.locator("#choice").inner_text()
    assert page.locator(".chosen-row .words").inner_text() == page.locator("#choice").inner_text()
    assert page.locator("#value strong").inner_text() != ""
    page.keyboard.press("Shift+ArrowRight")
    assert int(step("data-step") or 0) > 1 and page.locator("#ante").inner_text() == "1"
    page.keyboard.press("ArrowLeft")
    page.locator('[data-step="last"]').click()
    assert step("data-step") == str(decisions)
    assert page.locator("#heading").inner_text() == "The end"
    page.keyboard.press("Home")
    assert step("data-step") == "0"
    page.locator("#slider").fill("40")
    assert page.locator("#count").inner_text() == f"40 / {decisions}"
    for number in range(decisions + 1):  # every state can be drawn
        page.evaluate("(step) => { location.hash = String(step); }", number)
    page.wait_for_function("(last) => document.documentElement.dataset.step === last", arg=str(decisions))

    before = step("data-theme")
    page.locator('[data-do="theme"]').click()
    assert step("data-theme") != before
    context.close()
    assert problems == []
    assert asked == [path.as_uri()]
