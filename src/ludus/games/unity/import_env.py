"""Import of the Unity `config.yml` of the document "Training Pipeline": n_environments, ros, unity.

In the document, ROS, an endpoint and a node are started by hand; in Ludus the training is the endpoint.
"""

from __future__ import annotations

import re
from typing import Any

from ludus.config.importers.document import Document
from ludus.config.importers.translation import Imported, ImportOptions, Translation

KIND = "a simulation config for Unity (n_environments, ros, unity)"
ENV_ID = "ludus/Unity-v0"
_USE_CASE = re.compile(r"uc[0-9]+", re.IGNORECASE)
_FIRST = "uc1"
# key in the document -> key of env.kwargs.build
_BUILD = {
    "headless_mode": "headless",
    "pause": "pause",
    "sample_time": "sample_time",
    "time_scale": "time_scale",
    "fixed_delta_time": "fixed_delta_time",
    "fixed_updates_per_step": "fixed_updates_per_step",
}
EXAMPLE = "ROS and Unity        ludus convert config.yml"


def recognise(document: Document) -> bool:
    """Return whether it has a section `unity` or `ros`, alone or with the number of environments, and no training."""
    data = document.data
    if "env" in data or "training" in data:
        return False
    sections = [name for name in ("ros", "unity") if isinstance(data.get(name), dict)]
    return bool(sections) and ("n_environments" in data or len(sections) in (2, len(data)))


def translate(document: Document, choice: ImportOptions) -> Imported:
    t = Translation(document, KIND)
    for section in ("ros", "unity"):
        t.section(section)
    t.put("algorithm", choice.algorithm or "PPO", place="the algorithm of the pipeline")
    put_unity_env(t, _named_use_case(t))
    for name in ("package_name", "node_name"):
        if t.has("ros", name):
            t.note("no ROS node is needed: `ludus train` is the endpoint and the node", "ros", name)
    for name in ("normalize_obs", "normalize_reward"):
        t.put(name, False, place="the pipeline does not normalise")
    t.put("save_dir", "experiments", place="the output folder of the pipeline")
    return t.finish()


def put_unity_env(t: Translation, use_case: str) -> None:
    """Write the env of `use_case`, the number of envs, and the build of the section `unity`."""
    t.put("env.id", ENV_ID, place="the document's simulators")
    t.put(
        "env.kwargs.use_case", use_case, place=f"a use case in ros.node_name or environment.id; else {_FIRST}"
    )
    n_envs = t.integer("n_environments", default=1)
    source = ("n_environments",) if t.has("n_environments") else ()
    t.put("n_envs", n_envs, *source, place="one env by default")
    if t.take("unity", "build_path") is None:
        for name in _BUILD:
            if t.has("unity", name):
                t.note("builds that you start yourself are configured by their own options", "unity", name)
        return
    t.put("env.kwargs.build.path", t.take("unity", "build_path"), "unity", "build_path")
    for name, here in _BUILD.items():
        value = t.take("unity", name)
        if value is not None:
            t.put(f"env.kwargs.build.{here}", value, "unity", name)


def use_case_in(text: Any) -> str | None:
    """Return the use case in a name: uc2 in `train_uc2` or `UC2`."""
    found = _USE_CASE.search(str(text))
    return None if found is None else found[0].lower()


def _named_use_case(t: Translation) -> str:
    for name in ("node_name", "package_name"):
        found = use_case_in(t.take("ros", name, default=""))
        if found is not None:
            return found
    return _FIRST
