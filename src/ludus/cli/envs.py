"""`ludus envs`: list the environments, their spaces, and the extras that missing ones need."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ludus.cli.commands import Json, examples
from ludus.cli.output import Output, plain_table
from ludus.errors import UserError, describe_error, install_command

_ID_WIDTH, _OBSERVES_WIDTH, _OTHER_WIDTH = 25, 28, 52
_DESCRIBED_AT_MOST = 60  # an env must be built to be described, and Atari alone has hundreds


EXAMPLES = examples(
    "ludus envs",
    "ludus envs lunar",
)


def envs(
    filter: Annotated[
        str | None, typer.Argument(metavar="FILTER", help="Show only ids or groups that contain this text.")
    ] = None,
    json: Json = False,
) -> None:
    """List the environments."""
    from rich.padding import Padding
    from rich.text import Text

    from ludus.envs.catalog import env_groups, missing_extra
    from ludus.plugins import listed as plugin_parts

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
        table.columns[1].min_width = _ID_WIDTH  # so that the columns of all groups are aligned
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
    for more in plugin_parts("env_listing"):
        listed += more(output, filter)
    if not listed and filter is not None:
        raise UserError(f"no env id contains '{filter}'", fix="`ludus envs` lists them all")
    output.print("\nyour own: module:MyEnv-v0, checked by `ludus validate module:MyEnv-v0`")
    output.result({"envs": listed})


def _title(group: str, extra: str | None) -> Any:
    from rich.text import Text

    note = ("   id, what it observes, what it acts with", "dim")
    if extra is not None:
        note = (f"   needs: {install_command(extra)}", "yellow")
    return Text.assemble((f"\n{group}", "bold"), note)


def _describe(env_id: str) -> dict[str, str]:
    """Return the env's observation and action spaces as text; `problem` when it cannot be built."""
    import gymnasium as gym

    from ludus.envs.catalog import find_gym_spec
    from ludus.envs.spaces import describe_space
    from ludus.envs.support import support_for
    from ludus.envs.user_code import close_env

    described = support_for(env_id).description()
    if described is not None:  # to build one, its simulator would have to run
        return described
    try:
        env = gym.make(find_gym_spec(env_id), disable_env_checker=True)
    except UserError as error:
        return {"problem": error.what.removeprefix(f"the env '{env_id}' ").partition(",")[0]}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a third party's env may raise anything, and is listed all the same
        return {"problem": f"cannot be built: {describe_error(error)}"}
    try:
        return {
            "observation": describe_space(env.observation_space),
            "action": describe_space(env.action_space),
        }
    finally:
        close_env(env)
