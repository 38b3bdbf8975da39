"""`ludus envs`: which environments there are, what each observes and does, and what the missing ones need."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ludus.cli.options import Json
from ludus.cli.output import Output, plain_table
from ludus.errors import UserError, install_command

_ID_WIDTH, _OBSERVES_WIDTH, _OTHER_WIDTH = 25, 28, 52
_TEXTARENA = "textarena"
_DESCRIBED_AT_MOST = 60  # an env must be built to be described, and Atari alone has hundreds


def envs(
    filter: Annotated[str | None, typer.Argument(metavar="FILTER", help="Part of an id or group.")] = None,
    json: Json = False,
) -> None:
    """List the environments."""
    from rich.padding import Padding
    from rich.text import Text

    from ludus.envs.catalog import env_groups, missing_extra

    output = Output(json, listing=True)
    listed: list[dict[str, Any]] = []
    for group, ids in env_groups().items():
        extra = missing_extra(group)
        wanted = [i for i in ids if filter is None or filter.lower() in f"{group} {i}".lower()]
        if not wanted and not (extra and (filter is None or filter.lower() in group)):
            continue
        output.print(_title(group, extra))
        table = plain_table("", "id", "observes", "acts with", wrap=("observes", "acts with"))
        table.show_header = False
        table.columns[1].min_width = _ID_WIDTH  # so that the columns of all groups stand under each other
        table.columns[2].width = max(_OBSERVES_WIDTH, output.console.width - _OTHER_WIDTH)
        for env_id in wanted:
            described = _describe(env_id) if extra is None and len(wanted) <= _DESCRIBED_AT_MOST else {}
            listed.append({"id": env_id, "group": group, "missing_extra": extra, **described})
            if extra is None:
                note = described.get("problem")
                observes = Text(note, "yellow") if note else described.get("observation", "")
                table.add_row("", env_id, observes, described.get("action", ""))
        if extra is None:
            output.print(table)
        elif wanted:
            output.print(Padding(Text("  ".join(wanted), "dim"), (0, 0, 0, 2)))
    listed += _text_games(output, filter)
    if not listed and filter is not None:
        raise UserError(f"no env is called like '{filter}'", fix="`ludus envs` lists them all")
    output.print("\nyour own: module:MyEnv-v0, checked by `ludus validate module:MyEnv-v0`")
    output.result({"envs": listed})


def _text_games(output: Output, filter: str | None) -> list[dict[str, Any]]:
    """Prints and returns TextArena's games whose ids the filter fits; without a filter, only says that they exist."""
    import importlib.util

    from rich.padding import Padding
    from rich.text import Text

    if importlib.util.find_spec("textarena") is None:
        return []
    if filter is None:
        output.print("\ngames for language models, hundreds of ids: `ludus envs textarena`")
        return []
    from ludus.language.text_games.catalog import games

    found = {
        game: [i for i in ids if filter.lower() in f"{_TEXTARENA} {i}".lower()]
        for game, ids in games().items()
    }
    if any(found.values()):
        note = "   games for language models; each also as -train and -raw"
        output.print(Text.assemble((f"\n{_TEXTARENA}", "bold"), (note, "dim")))
    for ids in found.values():
        plain = [i for i in ids if not i.endswith(("-train", "-raw"))]
        if plain:
            output.print(Padding(Text("  ".join(plain)), (0, 0, 0, 2)))
    return [{"id": i, "group": _TEXTARENA, "missing_extra": None} for ids in found.values() for i in ids]


def _title(group: str, extra: str | None) -> Any:
    from rich.text import Text

    note = ("   id, what it observes, what it acts with", "dim")
    if extra is not None:
        note = (f"   needs: {install_command(extra)}", "yellow")
    return Text.assemble((f"\n{group}", "bold"), note)


def _describe(env_id: str) -> dict[str, str]:
    """What the env observes and does in words; `problem` when it cannot be built."""
    import gymnasium as gym

    from ludus.envs.catalog import find_gym_spec
    from ludus.envs.spaces import describe_space
    from ludus.games.diambra.outside import is_outside

    if is_outside(env_id):  # to make one, its simulator would have to run
        return {"observation": "Dict: frame and states", "action": "MultiDiscrete or Discrete"}
    if env_id.rpartition(":")[2] == "ludus/Unity-v0":
        return {"observation": "as its use case says", "action": "as its use case says"}
    try:
        env = gym.make(find_gym_spec(env_id), disable_env_checker=True)
    except UserError as error:
        return {"problem": error.what.removeprefix(f"the env '{env_id}' ").partition(",")[0]}
    except Exception as error:  # a third party's env may raise anything, and is listed all the same
        return {"problem": f"cannot be built: {type(error).__name__}: {error}"}
    try:
        return {
            "observation": describe_space(env.observation_space),
            "action": describe_space(env.action_space),
        }
    finally:
        env.close()
