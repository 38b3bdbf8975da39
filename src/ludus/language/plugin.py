"""Language self-play: models that learn text games by playing them."""

from __future__ import annotations

from ludus.plugins import CommandEntry, Plugin

PLUGIN = Plugin(
    name="language",
    package="textarena",
    extra="text",
    seat_games=("ludus.language.text_games.game:make_text_game",),
    players={"random": "ludus.language.players:random_bot"},
    player_schemes={"openai:": "ludus.language.players:remote_player"},
    run_players={"language": "ludus.language.players:player_of_run"},
    engines={"language": "ludus.language.trainer:LanguageTrainer"},
    algorithms={"language": "ludus.language.algorithms"},
    exports={"peft": "ludus.language.export"},
    summary="Language models: fetch them, read their games, measure them.",
    commands={
        "games": CommandEntry(
            "ludus.language.cli.games:games",
            "Read the games of a language run.",
            "ludus.language.cli.games:EXAMPLES",
        ),
        "models": CommandEntry("ludus.language.cli.models:models_app", "List and fetch language models."),
        "warmup": CommandEntry(
            "ludus.language.cli.warmup:warmup",
            "Train a language model on shown moves.",
            "ludus.language.cli.warmup:EXAMPLES",
        ),
        "exploitability": CommandEntry(
            "ludus.language.cli.exploitability:exploitability",
            "Measure how much a best response wins from a Kuhn Poker policy.",
            "ludus.language.cli.exploitability:EXAMPLES",
            consents=True,
        ),
    },
    env_listing="ludus.language.cli.envs:list_text_games",
    extras={
        "text": ("textarena", "language models that play text games"),
        "games": ("pyspiel", "exploitability of Kuhn Poker policies, through OpenSpiel"),
        "vllm": ("vllm", "`sampler: {kind: vllm}`, in an environment of its own"),
    },
)
