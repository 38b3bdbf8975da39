"""Requests: the programs, addresses, URLs and files outside a run that its config names.

In a config that the user trains they are there to be used. In a run whose config the user has not trained on this
machine they need consent, as `ludus.config.own_modules` describes: the user sees each in full before anything is
started, opened or sent, and `--allow` takes the text that was shown.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ludus.config.own_modules import is_allowed, require_consent
from ludus.errors import UserError
from ludus.plugins import references

if TYPE_CHECKING:
    from ludus.config.schema import TrainerConfig, WandbConfig

_ADDRESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
# names of arguments of known envs that are paths, hosts or commands, whatever their values look like
_OUTSIDE = re.compile(
    r"(?:.*_)?(?:path|file|filename|dir|directory|folder|root|host|hostname|ip|address|url|uri|endpoint|"
    r"command|cmd|executable|program|binary|script|module)s?",
    re.IGNORECASE,
)
_OWN_EXTRACTORS = "ludus.policies.extractors"


@dataclass(frozen=True)
class ConsentRequest:
    """Something outside the run that its config asks for: `action` as in "start the program", and on what.

    `value` is shown in full and is what `--allow` takes; `key` is the dotted config key. Consent to one of `also`,
    longer names of the same thing, is enough.
    """

    action: str
    value: str
    key: str
    also: tuple[str, ...] = ()


def require_all(requests: Iterable[ConsentRequest], where: str) -> None:
    """Raise UserError that lists every request which the user has not allowed; `where` is the config's file."""
    missing = []
    for request in requests:
        names = (request.value, *request.also)
        if is_allowed(*names):
            require_consent(f"{request.action} {request.value}", *names, where=where)  # takes note of it
        else:
            missing.append(request)
    if not missing:
        return
    asked = ", and to ".join(dict.fromkeys(f"{request.action} {request.value}" for request in missing))
    flags = " ".join(dict.fromkeys(f"--allow {shlex.quote(request.value)}" for request in missing))
    raise UserError(
        f"you did not train the config of this run on this machine, and it asks to {asked}",
        where=f"{where}: {', '.join(dict.fromkeys(request.key for request in missing))}",
        fix=f"only if you trust it, repeat the command with {flags}",
    )


def argument_requests(
    arguments: Mapping[str, Any], key: str, *, known: bool = False
) -> Iterator[ConsentRequest]:
    """Return the keyword arguments of an env, a wrapper, a network or a game that a run may not pass without consent.

    Numbers, booleans and null pass. Text may be a program, a module, a file or an address, whatever its name is, so
    each argument that holds text at any depth is a request for its whole value. `known`: what takes the arguments is
    Gymnasium's or Ludus's own, and treats plain words as the names of variants. There only paths, URLs, addresses
    and arguments with the name of such a thing count, each text for itself.
    """
    for name, value in arguments.items():
        place = f"{key}.{name}"
        if known:
            yield from _outside(value, place, bool(_OUTSIDE.fullmatch(str(name))))
        elif any(True for _ in texts_in(value)):
            yield ConsentRequest("use", _shown(value), place)


def _shown(value: Any) -> str:
    """Return the whole value as one line, which `--allow` takes."""
    if isinstance(value, str) and value:
        return value
    try:
        return json.dumps(value, default=repr)
    except (TypeError, ValueError):  # an object of a Python program, which a config cannot hold
        return repr(value)


def _outside(value: Any, key: str, named: bool) -> Iterator[ConsentRequest]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _outside(item, f"{key}.{name}", named or bool(_OUTSIDE.fullmatch(str(name))))
            if named and isinstance(name, str):
                yield ConsentRequest("use", name, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _outside(item, key, named)
    elif isinstance(value, str) and value and (named or is_path(value) or _ADDRESS.fullmatch(value)):
        yield ConsentRequest("use", value, key)


def texts_in(value: Any) -> Iterator[str]:
    """Return every text in a value of a config, the keys of its mappings included. What is no plain value is text."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts_in(name)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)
    elif value is not None and not isinstance(value, bool | int | float):
        yield str(value)


def is_path(text: str) -> bool:
    """Return whether `text` could name a file, a folder or a URL. A plain word does, where there is such a file."""
    return "/" in text or "\\" in text or text.startswith(("~", ".")) or os.path.isfile(text)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches `host`. A name other than localhost is not looked up."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def wandb_request(settings: WandbConfig) -> ConsentRequest:
    """Return the request to report to a project of Weights & Biases."""
    project = "/".join(part for part in (settings.entity, settings.project) if part)
    return ConsentRequest("report to W&B as", f"wandb:{project}", "tracking.wandb")


def _module_request(reference: str | None, key: str) -> Iterator[ConsentRequest]:
    """Return the request to import the module of `module:Class`. A name without a module needs none."""
    module, colon, _ = (reference or "").partition(":")
    if reference is not None and colon and module != _OWN_EXTRACTORS:
        yield ConsentRequest("import the module", module, key, (reference,))


def requests_to_play(config: TrainerConfig) -> Iterator[ConsentRequest]:
    """Return what a run's policy needs besides its env: its network, its language model and games."""
    yield from _module_request(config.policy.features_extractor, "policy.features_extractor")
    yield from _module_request(config.policy.network, "policy.network")
    yield from argument_requests(config.policy.features_extractor_kwargs, "policy.features_extractor_kwargs")
    yield from argument_requests(config.policy.network_kwargs, "policy.network_kwargs")
    model = None if config.language is None else config.language.model
    if model is not None and (is_path(model) or (model != "tiny" and os.path.isdir(model))):
        yield ConsentRequest("load the model", model, "language.model")
    if config.games is not None:
        for section in ("train", "eval"):
            for index, game in enumerate(getattr(config.games, section)):
                yield from argument_requests(game.kwargs, f"games.{section}.{index}.kwargs")


def requests_to_train(config: TrainerConfig) -> Iterator[ConsentRequest]:
    """Return what training needs besides the env: `requests_to_play`, and where it connects, sends and writes."""
    yield from requests_to_play(config)
    for index, entry in enumerate(config.callbacks):
        for reference, arguments in ({entry: {}} if isinstance(entry, str) else entry).items():
            yield from _module_request(reference, f"callbacks.{index}")
            yield from argument_requests(arguments, f"callbacks.{index}")
    if config.scale is not None and config.scale.ray not in ("auto", "local"):
        yield ConsentRequest("connect to the Ray cluster", config.scale.ray, "scale.ray")
    if config.mirror is not None:
        yield ConsentRequest("copy itself to", config.mirror.url, "mirror.url")
    for name in ("tensorboard_dir", "monitor_dir"):
        folder = getattr(config.tracking, name)
        if folder is not None:
            yield ConsentRequest("write to", folder, f"tracking.{name}")
    if config.tracking.wandb is not None:
        yield wandb_request(config.tracking.wandb)
    if config.language is None:
        return
    if config.language.sampler.vllm:
        shown = ", ".join(f"{name}={value!r}" for name, value in config.language.sampler.vllm.items())
        yield ConsentRequest("start vLLM with", shown, "language.sampler.vllm")
    for section, names in (("train", config.league.weights()), ("eval", config.league.eval)):
        for name in names:
            if name not in references("players"):
                yield ConsentRequest("play against", name, f"league.{section}")
