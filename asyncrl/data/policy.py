"""The acting network of a policy, as plain data: what it sees, how it computes, what it outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from asyncrl.data.spaces import Leaf, SpaceSpec
from asyncrl.errors import ConfigError

HeadKind = Literal[
    "categorical",
    "multi_categorical",
    "bernoulli",
    "gaussian",
    "squashed_gaussian",
    "composite",
    "deterministic",
    "q_values",
    "value",
]
Activation = Literal["tanh", "relu"]
StdKind = Literal["free", "state"]
DuelingKind = Literal["none", "mean", "max"]
ConvKind = Literal["none", "nature", "small"]
CoreKind = Literal["none", "lstm", "gru"]
NoiseKind = Literal["none", "gaussian", "uniform", "ou"]

ACTION_MASK = "action_mask"
"""Name of the part of a dict observation that says which actions may be taken: 1 for those that
may. It is no feature of the observation."""


class ConvLayer(NamedTuple):
    """One convolution without padding, followed by a ReLU."""

    channels: int
    kernel: int
    stride: int


CONV_LAYERS: Mapping[ConvKind, tuple[ConvLayer, ...]] = {
    "none": (),
    "nature": (ConvLayer(32, 8, 4), ConvLayer(64, 4, 2), ConvLayer(64, 3, 1)),
    "small": (ConvLayer(16, 3, 1), ConvLayer(32, 3, 2)),
}
"""nature: that of Mnih et al. 2015, for images of 36 pixels and more. small: for those of 5 and
more."""

_HEADS_OF_ACTION: Mapping[str, tuple[HeadKind, ...]] = {
    "discrete": ("categorical", "q_values"),
    "multi_discrete": ("multi_categorical",),
    "multi_binary": ("bernoulli",),
    "box": ("gaussian", "squashed_gaussian", "deterministic"),
    "dict": ("composite",),
    "tuple": ("composite",),
}
_PART_HEADS: Mapping[str, HeadKind] = {
    "discrete": "categorical",
    "multi_discrete": "multi_categorical",
    "multi_binary": "bernoulli",
    "box": "gaussian",
}


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """Shape of one policy's acting network.

    Observations become features (`vector_size` numbers, then `conv` over the images, or both
    replaced by a `module`), these go through the `hidden` layers and the recurrent `core`, and a
    last linear layer has `outputs` outputs for the head. `asyncrl.data.params` names the
    parameters.
    """

    observation: SpaceSpec
    action: SpaceSpec
    head: HeadKind
    """categorical: logits over a discrete space. multi_categorical: logits for every element of a
    multi-discrete one, side by side. bernoulli: one logit an element of a multi-binary one.
    gaussian: means over a box, and log standard deviations as `std` says. squashed_gaussian: means,
    then log standard deviations, of normals whose tanh is scaled to the box. composite: for every
    leaf of a dict or tuple the head of its kind (gaussian, with free std, for boxes), side by side.
    deterministic: numbers whose tanh is scaled to the box, explored by `noise`. q_values: values of
    discrete actions, acted on epsilon-greedily. value: one number, the state's value, for critics,
    which do not act."""
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    std: StdKind = "free"
    """Gaussian heads: one learned log standard deviation an action, or one computed from the
    state."""
    dueling: DuelingKind = "none"
    """q_values: a state value beside the advantages, from which their mean or maximum is taken."""
    atoms: int = 1
    """q_values: numbers that describe the distribution of an action's return; 1 for its mean."""
    support: tuple[float, float] | None = None
    """q_values of several atoms: smallest and largest return of a categorical distribution (C51);
    None for quantiles (QR)."""
    conv: ConvKind = "none"
    """Convolutions over every image, a box of uint8 with three axes; without, images are flat."""
    core: CoreKind = "none"
    """Recurrent layer between the hidden layers and the last one."""
    core_size: int = 128
    normalize: bool = False
    """Shift and scale the numbers of float boxes by statistics that travel with the weights."""
    noise: NoiseKind = "none"
    """deterministic: what is added to actions, in units of half the box's width."""
    module: str | None = None
    """Import path of a factory of a torch module that turns observations into features. It is
    called with `observation` and `module_kwargs`; the module takes what `SpaceSpec.split` returns
    (the array alone for a leaf) as tensors, and returns [N, features]."""
    module_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    module_features: int = 0
    """Features the module returns."""
    module_params: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(name, shape) of the module's parameters and buffers."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ConfigError(
                "hidden", self.hidden, "a layer has at least one unit", "give 1 or more for each"
            )
        allowed = _HEADS_OF_ACTION[self.action.kind]
        if self.head not in (*allowed, "value"):
            raise ConfigError(
                "head",
                self.head,
                f"this head does not act in a {self.action.kind} space",
                f"use {' or '.join(allowed)} there",
            )
        for name in ("atoms", "core_size"):
            if getattr(self, name) < 1:
                raise ConfigError(name, getattr(self, name), "less than 1", "give 1 or more")
        if self.support is not None and not self.support[0] < self.support[1]:
            raise ConfigError(
                "support", self.support, "no interval", "give the smallest return, then the largest"
            )
        if self.head in ("squashed_gaussian", "deterministic"):
            low, high = self.action.bounds()
            if not all(map(math.isfinite, (*low.ravel(), *high.ravel()))):
                raise ConfigError(
                    "action",
                    self.action,
                    f"a {self.head} policy scales its actions to the box, which has no bounds",
                    "use a gaussian head, or wrap the environment so that its actions are bounded",
                )
        if self.module is None and self.module_features:
            raise ConfigError(
                "module_features", self.module_features, "there is no module", "leave it out"
            )
        _ = self.mask, self.layer_sizes()

    # -- what it sees ----------------------------------------------------------------------------

    @cached_property
    def mask(self) -> Leaf | None:
        """The leaf that says which actions may be taken, if the observation has one."""
        found = [leaf for leaf in self.observation.leaves if leaf.path == ACTION_MASK]
        if not found or self.head not in ("categorical", "multi_categorical", "q_values"):
            return None
        width = math.prod(found[0].space.stored_shape)
        if width != self.action.size:
            raise ConfigError(
                "observation",
                f"{ACTION_MASK} of {width} numbers",
                f"the action space has {self.action.size} choices",
                "give a mask with one number for each choice",
            )
        return found[0]

    @cached_property
    def features(self) -> tuple[Leaf, ...]:
        """The leaves of the observation that are features: all but an action mask."""
        leaves = tuple(leaf for leaf in self.observation.leaves if leaf.path != ACTION_MASK)
        if not leaves:
            raise ConfigError(
                "observation", self.observation, "it has no features", "observe something"
            )
        return leaves

    @cached_property
    def images(self) -> tuple[Leaf, ...]:
        """The leaves that the convolutions see."""
        if self.conv == "none" or self.module is not None:
            return ()
        images = tuple(
            leaf
            for leaf in self.features
            if leaf.space.kind == "box"
            and leaf.space.dtype == "uint8"
            and len(leaf.space.shape) == 3
        )
        if not images:
            raise ConfigError(
                "conv",
                self.conv,
                "the observation has no image, a box of uint8 with three axes",
                "use conv='none'",
            )
        return images

    @cached_property
    def vectors(self) -> tuple[Leaf, ...]:
        """The leaves that are flattened, in order: all features that are no images."""
        if self.module is not None:
            return ()
        return tuple(leaf for leaf in self.features if leaf not in self.images)

    @property
    def vector_size(self) -> int:
        """Numbers of one flat observation, discrete values as one-hot vectors, without images."""
        return sum(leaf.space.size for leaf in self.vectors)

    # -- layers ----------------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """Width of the last layer."""
        size = self.action.size
        if self.head == "value":
            return 1
        if self.head == "q_values":
            return (size + (self.dueling != "none")) * self.atoms
        if self.head == "squashed_gaussian" or (self.head == "gaussian" and self.std == "state"):
            return 2 * size
        return size

    @property
    def free_stds(self) -> int:
        """Number of log standard deviations that are parameters of their own."""
        if self.head == "gaussian" and self.std == "free":
            return self.action.size
        if self.head == "composite":
            boxes = (leaf.space for leaf in self.action.leaves if leaf.space.kind == "box")
            return sum(space.size for space in boxes)
        return 0

    def part_heads(self) -> tuple[tuple[Leaf, HeadKind], ...]:
        """Return (leaf, head) for every part of a composite action."""
        return tuple((leaf, _PART_HEADS[leaf.space.kind]) for leaf in self.action.leaves)

    def conv_sizes(self, image: Leaf) -> list[tuple[int, int, ConvLayer]]:
        """Return (channels in, pixels out, layer) of each convolution over `image`.

        The pixels out are those of height times width. Channels are the shorter one of the first
        and the last axis: [C, H, W] or [H, W, C].
        """
        channels, height, width = image_axes(image.space.shape)
        sizes: list[tuple[int, int, ConvLayer]] = []
        for layer in CONV_LAYERS[self.conv]:
            height = (height - layer.kernel) // layer.stride + 1
            width = (width - layer.kernel) // layer.stride + 1
            if height < 1 or width < 1:
                raise ConfigError(
                    "conv",
                    self.conv,
                    f"an image of {image.space.shape} is too small for it",
                    "use conv='small', or flatten the image with conv='none'",
                )
            sizes.append((channels, height * width, layer))
            channels = layer.channels
        return sizes

    @cached_property
    def inputs(self) -> int:
        """Numbers that the first layer takes."""
        if self.module is not None:
            return self.module_features
        convolved = 0
        for image in self.images:
            _, pixels, layer = self.conv_sizes(image)[-1]
            convolved += pixels * layer.channels
        return self.vector_size + convolved

    def hidden_sizes(self) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of every hidden layer, in order."""
        return list(itertools.pairwise([self.inputs, *self.hidden]))

    @property
    def torso_size(self) -> int:
        """Numbers that come out of the hidden layers and go into the core."""
        return self.hidden[-1] if self.hidden else self.inputs

    def layer_sizes(self) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of every linear layer: the hidden ones, then the last."""
        last = self.torso_size if self.core == "none" else self.core_size
        return [*self.hidden_sizes(), (last, self.outputs)]

    # -- state -----------------------------------------------------------------------------------

    @property
    def core_state_size(self) -> int:
        """Numbers of the core's state of one environment: an LSTM's h then c, a GRU's h."""
        return {"none": 0, "lstm": 2, "gru": 1}[self.core] * self.core_size

    @property
    def state_size(self) -> int:
        """Numbers an actor keeps from step to step of an episode: the core's, then the noise's."""
        return self.core_state_size + (self.action.size if self.noise == "ou" else 0)


def image_axes(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return (channels, height, width) of an image [C, H, W] or [H, W, C]."""
    first, middle, last = shape
    return (first, middle, last) if first < last else (last, first, middle)
