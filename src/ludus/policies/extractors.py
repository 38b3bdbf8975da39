"""Feature extractors map each observation of a batch to one vector of features.

An extractor is chosen by name: "auto", a registered one, or the user's own, as "module:Class" or as a class in
the folder `models`. Its output is checked once, when it is made: a wrong shape is an error about the
extractor and its layer, not about matrices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ludus.errors import ConfigError, require_types
from ludus.plugins import find, listed, references
from ludus.policies.networks import WrongInput, require_room, try_out
from ludus.policies.observations import is_byte_space, is_image_space, to_tensor
from ludus.types import Observation

WHERE = "policy.features_extractor"
SMALLEST_IMAGE = 36  # below this the output of NatureCNN's third convolution is empty
COMBINED_CNN_DIM = 256

ObservationTensor = Tensor | dict[str, Tensor]
Preprocess = Callable[[ObservationTensor, gym.Space[Any]], ObservationTensor]


class BaseFeaturesExtractor(nn.Module):
    """Base class of custom extractors: created from the observation space, returns [B, features_dim].

    Observations arrive as in Stable-Baselines3: float32, images channels first and scaled to 0..1, Discrete and
    MultiDiscrete one-hot; a dict of these for a Dict space.
    """

    def __init__(self, observation_space: gym.Space[Any], features_dim: int = 0) -> None:
        super().__init__()
        require_types(
            type(self).__name__,
            observation_space=(observation_space, (gym.Space,)),
            features_dim=(features_dim, (Integral,)),
        )
        if features_dim <= 0:
            raise ConfigError(
                f"{type(self).__name__} needs a positive features_dim, not {features_dim}",
                where=WHERE,
                fix="set features_dim to the number of features that the extractor returns",
            )
        self._observation_space = observation_space
        self._features_dim = features_dim

    @property
    def features_dim(self) -> int:
        """The number of features per observation."""
        return self._features_dim

    def forward(self, observations: Any) -> Tensor:
        """Return features [B, features_dim]."""
        raise NotImplementedError


class RawObservationExtractor(BaseFeaturesExtractor):
    """Base class of extractors that read observations as the env gives them.

    Observations arrive as `to_tensor` makes them: images uint8 in the env's axis order, Discrete int64, other integers
    int64, float Boxes float32.
    """


class FlattenExtractor(RawObservationExtractor):
    """Everything as one vector, discrete values one-hot. No parameters; its width follows from the space."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int = 0) -> None:
        super().__init__(observation_space, flat_dim(observation_space))

    def forward(self, observations: ObservationTensor) -> Tensor:
        return flatten(observations, self._observation_space)


class NatureCNN(RawObservationExtractor):
    """The convolutional network of Mnih et al. (2015), for uint8 images in either channel order."""

    def __init__(self, observation_space: gym.Space[Any], features_dim: int = 512) -> None:
        super().__init__(observation_space, features_dim)
        if not is_image_space(observation_space):
            raise ConfigError(
                f"NatureCNN reads images (uint8, three dimensions, 0..255), not {observation_space}",
                where=WHERE,
                fix="use features_extractor: auto",
            )
        assert observation_space.shape is not None  # a Box has one
        self.channels_last = not _is_channels_first(observation_space.shape)
        height, width = _image_size(observation_space.shape)
        if min(height, width) < SMALLEST_IMAGE:
            raise ConfigError(
                f"NatureCNN needs images of at least {SMALLEST_IMAGE}x{SMALLEST_IMAGE}, not {height}x{width}",
                where=WHERE,
                fix="use features_extractor: FlattenExtractor or ResnetMLP, or resize the image in a wrapper",
            )
        channels = observation_space.shape[-1 if self.channels_last else 0]
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        columns, rows = (((size - 8) // 4 + 1 - 4) // 2 + 1 - 3 + 1 for size in (width, height))
        require_room(64 * rows * columns, features_dim)
        self.linear = nn.Sequential(nn.Linear(64 * rows * columns, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        images = observations.permute(0, 3, 1, 2) if self.channels_last else observations
        if images.is_cuda and images.shape[2] % 4 == images.shape[3] % 4 == 0:
            return cast(Tensor, self.linear(self.cnn[1:](self._first_layer(images))))
        return cast(Tensor, self.linear(self.cnn(images.float() / 255.0)))

    def _first_layer(self, images: Tensor) -> Tensor:
        """`self.cnn[0]` of the scaled images, in the form that a GPU does best.

        Tensor cores need many channels, and an image has few. A kernel of 8 with stride 4 on the image is one of 2
        with stride 1 on its tiles of 4x4 pixels, each laid out as 16 channels.
        """
        kind = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else torch.float32
        n, channels, height, width = images.shape
        rows, columns = height // 4, width // 4
        tiles = images.reshape(n, channels, rows, 4, columns, 4).permute(0, 2, 4, 1, 3, 5)
        laid = torch.empty(tiles.shape, dtype=kind, device=images.device).copy_(tiles)
        pixels = laid.view(n, rows, columns, channels * 16).permute(0, 3, 1, 2)
        first = cast(nn.Conv2d, self.cnn[0])
        kernel = first.weight / 255.0
        kernel = (
            kernel.view(-1, channels, 2, 4, 2, 4).permute(0, 1, 3, 5, 2, 4).reshape(-1, channels * 16, 2, 2)
        )
        return F.conv2d(pixels, kernel, first.bias)


class ResidualBlock(nn.Module):
    """x + W2 ReLU(W1 LayerNorm(x)); starts out as the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width)
        self.contract = nn.Linear(width, width)
        nn.init.zeros_(self.contract.weight)
        nn.init.zeros_(self.contract.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.contract(F.relu(self.expand(self.norm(x)))))


class ResnetMLP(RawObservationExtractor):
    """A residual multilayer perceptron over the flattened observation; `width` defaults to features_dim."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        features_dim: int = 128,
        width: int | None = None,
        blocks: int = 2,
    ) -> None:
        super().__init__(observation_space, features_dim)
        width = width or features_dim
        require_room(flat_dim(observation_space), width, features_dim)
        require_room(width, width, width, times=blocks)
        self.embed = nn.Linear(flat_dim(observation_space), width)
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.project = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, features_dim), nn.ReLU())

    def forward(self, observations: ObservationTensor) -> Tensor:
        flat = flatten(observations, self._observation_space)
        return cast(Tensor, self.project(self.blocks(self.embed(flat))))


class CombinedExtractor(RawObservationExtractor):
    """For Dict spaces: each image through its own NatureCNN, everything else flattened, all side by side.

    Its width follows from the parts; images too small for NatureCNN are flattened.
    """

    def __init__(
        self, observation_space: gym.Space[Any], features_dim: int = 0, cnn_dim: int = COMBINED_CNN_DIM
    ) -> None:
        if not isinstance(observation_space, gym.spaces.Dict):
            raise ConfigError(
                f"CombinedExtractor reads Dict observations, not {observation_space}",
                where=WHERE,
                fix="use features_extractor: auto",
            )
        spaces = observation_space.spaces
        images = [key for key, space in spaces.items() if _fits_nature_cnn(space)]
        flat = {key: space for key, space in spaces.items() if key not in images}
        flat_width = flat_dim(observation_space) - sum(flat_dim(spaces[key]) for key in images)
        super().__init__(observation_space, cnn_dim * len(images) + flat_width)
        self._image_keys = images
        self._flat_spaces = flat
        # A list, because a key of the space may be no valid name for a module.
        self.cnns = nn.ModuleList(NatureCNN(spaces[key], cnn_dim) for key in images)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        parts = [cnn(observations[key]) for key, cnn in zip(self._image_keys, self.cnns, strict=True)]
        parts += [flatten(observations[key], space) for key, space in self._flat_spaces.items()]
        return torch.cat(parts, dim=1)


def flat_dim(space: gym.Space[Any]) -> int:
    """The width `flatten` gives observations of `space`; ConfigError for a space without a flat form."""
    match space:
        case gym.spaces.Box() | gym.spaces.MultiBinary():
            return int(np.prod(space.shape))
        case gym.spaces.Discrete():
            return int(space.n)
        case gym.spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case gym.spaces.Dict() if not any(isinstance(s, gym.spaces.Dict) for s in space.spaces.values()):
            return sum(map(flat_dim, space.spaces.values()))
    raise ConfigError(
        f"no feature extractor reads observations of {space}",
        where="the env's observation space",
        fix="wrap the env to observe a Box, Discrete, MultiDiscrete, MultiBinary, or a flat Dict of these",
    )


def flatten(observations: ObservationTensor, space: gym.Space[Any]) -> Tensor:
    """Observations as float32 [B, flat_dim(space)]: discrete values one-hot, bytes scaled to 0..1."""
    if isinstance(space, gym.spaces.Dict):
        assert isinstance(observations, dict)  # observations come from this space
        return torch.cat([flatten(observations[key], part) for key, part in space.spaces.items()], dim=1)
    assert isinstance(observations, Tensor)
    if isinstance(space, gym.spaces.Discrete):
        return F.one_hot(observations.long() - int(space.start), int(space.n)).float()
    flat = observations.flatten(1) if observations.ndim > 2 else observations
    if isinstance(space, gym.spaces.MultiDiscrete):
        sizes, starts = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
        columns = zip(flat.long().unbind(1), sizes, starts, strict=True)
        return torch.cat([F.one_hot(column - start, n) for column, n, start in columns], dim=1).float()
    flat = flat.unsqueeze(1) if flat.ndim == 1 else flat
    return flat.float() / 255.0 if is_byte_space(space) else flat.float()


_REGISTERED: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (FlattenExtractor, NatureCNN, ResnetMLP, CombinedExtractor)
}


def register_extractor(name: str, cls: type[nn.Module]) -> None:
    """Make `cls` known to configs as `name`; ConfigError when another class already has that name."""
    require_types("register_extractor", name=(name, (str,)), cls=(cls, (type,)))
    if name == "auto" or _REGISTERED.get(name, cls) is not cls:
        raise ConfigError(
            f"a feature extractor called '{name}' is already registered",
            where=WHERE,
            fix="choose another name",
        )
    _REGISTERED[name] = cls


def make_extractor(
    name: str, observation_space: gym.Space[Any], features_dim: int, kwargs: Mapping[str, Any]
) -> BaseFeaturesExtractor:
    """The extractor called `name`, made and tried on a batch of two.

    "auto" asks the plugins first, then takes NatureCNN for images, CombinedExtractor for Dicts, FlattenExtractor for
    the rest (and for images too small for NatureCNN). Raises UnknownName for a name that is not registered, and
    ConfigError for a class that cannot be imported, does not take the arguments or puts out the wrong shape. Errors in
    the class's own code pass through.
    """
    cls = _find(auto_extractor(observation_space) if name == "auto" else name)
    if issubclass(cls, RawObservationExtractor):
        return _make(cls, name, observation_space, features_dim, kwargs)
    from ludus.policies import preprocessing  # for extractors of users only

    space = preprocessing.preprocessed_space(observation_space)
    extractor = _make(cls, name, space, features_dim, kwargs, preprocessing.preprocess)
    if preprocessing.is_preprocessed(observation_space):
        return extractor
    return cast(BaseFeaturesExtractor, preprocessing.PreprocessedExtractor(observation_space, extractor))


def _make(
    cls: type[nn.Module],
    name: str,
    space: gym.Space[Any],
    features_dim: int,
    kwargs: Mapping[str, Any],
    preprocess: Preprocess | None = None,
) -> BaseFeaturesExtractor:
    """The extractor `cls`, made with those of the arguments that it takes, and tried on a batch of two."""
    signature = inspect.signature(cls)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    arguments = dict(kwargs)
    if takes_any or "features_dim" in signature.parameters:
        arguments = {"features_dim": features_dim, **kwargs}
    try:
        signature.bind(space, **arguments)
    except TypeError as error:
        raise ConfigError(
            f"feature extractor {name} cannot be made with {', '.join(arguments) or 'the space'}: {error}",
            where="policy.features_extractor_kwargs",
            fix=f"it is called as {cls.__name__}{signature}",
        ) from error
    extractor = cls(space, **arguments)
    if not hasattr(extractor, "features_dim"):
        if "features_dim" not in arguments:
            raise ConfigError(
                f"feature extractor {name} does not declare its number of features",
                where=f"{cls.__name__}.__init__",
                fix="set self.features_dim, or take an argument features_dim",
            )
        extractor.features_dim = arguments["features_dim"]
    made = cast(BaseFeaturesExtractor, extractor)
    trial = to_tensor(zeros(space, 2), "cpu")
    _check_output(name, made, space, trial if preprocess is None else preprocess(trial, space))
    return made


def auto_extractor(space: gym.Space[Any]) -> str:
    """Return the name of the extractor that "auto" selects."""
    for choose in listed("choose_extractor"):
        own: str | None = choose(space)
        if own is not None:
            return own
    if isinstance(space, gym.spaces.Dict):
        return "CombinedExtractor"
    return "NatureCNN" if _fits_nature_cnn(space) else "FlattenExtractor"


def _find(name: str) -> type[nn.Module]:
    if name in _REGISTERED:
        return _REGISTERED[name]
    own: type[nn.Module] | None = find("extractors", name)
    if own is not None:
        return own
    from ludus.policies import own_models  # parses the user's files, for names that are not registered

    known = [*_REGISTERED, *references("extractors")]
    fix = f"one of auto, {', '.join(known)}; your own as 'module:Class', or put its file into models/"
    return own_models.find_network(
        name, "feature extractor", ["auto", *known], where=WHERE, fix=fix, trusted_module=__name__
    )


def _check_output(
    name: str, extractor: BaseFeaturesExtractor, space: gym.Space[Any], batch: ObservationTensor
) -> None:
    """Raise ConfigError unless the output for `batch`, two observations of `space`, is [2, features_dim]."""
    where = f"{type(extractor).__name__}.forward"
    try:
        trial = try_out(extractor, batch)
    except WrongInput as error:
        raise ConfigError(
            f"feature extractor {name} does not fit observations of {space}: {error}",
            where=where,
            fix="change that layer, or what goes into it",
        ) from error
    features = trial.output
    expected = (2, extractor.features_dim)
    actual = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
    if actual != expected:
        layer = f"; its last layer is {trial.last_layer}" if trial.last_layer else ""
        raise ConfigError(
            f"feature extractor {name} returned {actual} for a batch of 2; expected {expected}{layer}",
            where=where,
            fix="return one row of features_dim features per observation",
        )


def zeros(space: gym.Space[Any], n: int) -> Observation:
    """A batch of n observations of zeros (or starts), without touching the space's random numbers."""
    match space:
        case gym.spaces.Dict():
            return {key: cast(Any, zeros(part, n)) for key, part in space.spaces.items()}
        case gym.spaces.Discrete() | gym.spaces.MultiDiscrete():
            return np.broadcast_to(np.asarray(space.start), (n, *np.shape(space.start))).astype(np.int64)
    return np.zeros((n, *(space.shape or ())), dtype=space.dtype)


def _fits_nature_cnn(space: gym.Space[Any]) -> bool:
    if not is_image_space(space):
        return False
    assert space.shape is not None  # a Box has one
    return min(_image_size(space.shape)) >= SMALLEST_IMAGE


def _is_channels_first(shape: tuple[int, ...]) -> bool:
    """Channels are the smallest axis; between equals the last one, as Gymnasium renders."""
    return shape[0] < shape[2] and shape[0] <= shape[1]


def _image_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of an image in either channel order."""
    return (shape[1], shape[2]) if _is_channels_first(shape) else (shape[0], shape[1])
