"""TBSM: a DLRM tower at every step of a history, and attention between the target and them."""

from __future__ import annotations

from math import sqrt

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Generator, Tensor, nn

from slipstream.config.kinds import Count
from slipstream.config.section import WrongKeyError
from slipstream.errors import ConfigError
from slipstream.models.dlrm import DotInteraction
from slipstream.models.features import Project, pick
from slipstream.models.inputs import ModelInputs
from slipstream.models.layers import dense_norm, mlp, normal
from slipstream.models.model import Model, ModelConfig
from slipstream.tables.spec import Embedded, Init


class Tbsm(Model):
    """The time-based sequence model (Ishkhanov et al., 2020) with one time series layer.

    A sequence column is a history if a single column shares its table; the first such column is
    its target. Everything else (dense values, other columns; sequences without a target as means)
    is the same at every step, but for the time: one more dense value, 0 at the first of `length`
    steps and nearly 1 at the target. Short histories lack the first steps, not the last.
    """

    class Config(ModelConfig, frozen=True):
        """Sizes of TBSM; as published for Taobao."""

        dim: Count = 16  # elements of the vectors that interact
        bottom: tuple[Count, ...] = ()  # on dense values and time; one of dim is added
        top: tuple[Count, ...] = (15, 15)  # on the interactions; the last describes a step
        attention: tuple[Count, ...] = (15, 15)  # one of a history's length is added
        final: tuple[Count, ...] = (60,)  # on context and target; one of 1 is added

        def __post_init__(self) -> None:
            super().__post_init__()
            if not self.top:
                raise WrongKeyError("top", " is empty; the tower of tbsm needs at least one layer.")

    def __init__(self, inputs: ModelInputs, config: Config, generator: Generator) -> None:
        super().__init__(inputs, config, generator)
        dim, normalize = config.dim, config.normalize_embedded
        targets = _targets(inputs)
        layout = self.layout = inputs.layout(dim, Init(), sequences=targets)
        number = {feature.column: n for n, feature in enumerate(layout.features)}
        same = [n for name, n in number.items() if name not in {*targets, *targets.values()}]
        # Of each history: its place among the sequences, and the group and place of its target.
        self.histories = [
            (layout.sequences.index(number[history]), *layout.place(number[target]))
            for history, target in targets.items()
        ]
        self.length = inputs.lengths[next(iter(targets))]

        self.norm = dense_norm(inputs, config.normalize_dense)
        sizes = (len(inputs.schema.dense) + 1, *config.bottom, dim)
        self.bottom = mlp(sizes, generator, biases="normal")
        self.features = pick(layout, same, generator, dim=dim, normalize=normalize)
        self.steps = nn.ModuleList(
            Project(1, layout.groups[group].dim, dim, normalize, generator)
            for _, group, _ in self.histories
        )
        self.interaction = DotInteraction(1 + len(same) + len(targets))
        sizes = (dim + self.interaction.pairs, *config.top)
        self.top = mlp(sizes, generator, biases="normal")
        out = sizes[-1]
        self.inner = normal(generator, sqrt(1 / out), out, out)
        sizes = (self.length, *config.attention, self.length)
        self.attention = mlp(sizes, generator, last="sigmoid", biases="normal")
        self.final = mlp((2 * out, *config.final, 1), generator, last="none", biases="normal")
        # Whole numbers, so that the time is exact whatever the model is cast to.
        self.register_buffer("numbers", torch.arange(self.length + 1), persistent=False)

    def forward(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The logits `[B]` of examples with dense values `[B, D]` and these embedding vectors."""
        towers = self.towers(dense, embedded)
        present = torch.stack([embedded.lengths[sequence] for sequence, _, _ in self.histories])
        absent = self.numbers[:-1] < self.length - present.amax(0).unsqueeze(1)
        history = towers[:, : self.length].masked_fill(absent.unsqueeze(2), 0.0)
        target = towers[:, self.length]

        # The inner product of target and step is that of A target and A step, so A is met twice.
        turned = target @ self.inner.T @ self.inner
        likeness = torch.bmm(history, turned.unsqueeze(2)).squeeze(2)
        context = torch.bmm(self.attention(likeness).unsqueeze(1), history).squeeze(1)
        return self.final(torch.cat([context, target], 1)).squeeze(1)

    def towers(self, dense: Tensor, embedded: Embedded) -> Tensor:
        """The tower's output at each step and, last, for the target: `[B, length + 1, out]`."""
        count = self.length + 1
        values = self.norm(dense).unsqueeze(1).expand(-1, count, -1)
        time = (self.numbers.to(dense.dtype) / count).expand(dense.shape[0], -1).unsqueeze(2)
        vectors = [self.bottom(torch.cat([values, time], 2)).unsqueeze(2)]
        for part in self.features:
            vectors.append(part(embedded.vectors).unsqueeze(1).expand(-1, count, -1, -1))
        for adapt, (sequence, group, place) in zip(self.steps, self.histories, strict=True):
            steps = self.newest_last(embedded.sequences[sequence], embedded.lengths[sequence])
            target = embedded.vectors[group][:, place : place + 1]
            vectors.append(adapt(torch.cat([steps, target], 1).unsqueeze(2)))
        tower = self.top(self.interaction(torch.cat(vectors, 2).flatten(0, 1)))
        return F.normalize(tower.unflatten(0, (-1, count)), dim=2)

    def newest_last(self, steps: Tensor, lengths: Tensor) -> Tensor:
        """Steps moved to the end, with zeros before them: a position means how long ago."""
        index = self.numbers[:-1] - (self.length - lengths).unsqueeze(1)
        moved = steps.gather(1, index.clamp(min=0).unsqueeze(2).expand_as(steps))
        return moved.masked_fill((index < 0).unsqueeze(2), 0.0)


def _targets(inputs: ModelInputs) -> dict[str, str]:
    """The target column of each history; raises an error if there is none."""
    sequences = [column for column in inputs.schema.columns if column.kind == "sequence"]
    if not sequences:
        raise ConfigError(
            "tbsm needs a sequence column, and the data set has none: choose another model."
        )
    targets: dict[str, str] = {}
    for column in sequences:
        singles = [each.name for each in inputs.schema.singles if each.table == column.table]
        targets |= {column.name: singles[0]} if singles else {}
    if not targets:
        raise ConfigError(
            f"tbsm needs a target: a single column with the same table as a sequence, such as "
            f"{sequences[0].name!r} with table {sequences[0].table!r}."
        )
    for name in targets:
        if name not in inputs.lengths:
            raise ConfigError(f"tbsm needs the length of the sequence {name!r}.")
    first, *others = targets
    for name in others:
        if inputs.lengths[name] != inputs.lengths[first]:
            raise ConfigError(
                f"The sequence {first!r} has length {inputs.lengths[first]} and {name!r} has "
                f"{inputs.lengths[name]}; tbsm steps through both at once and needs one length."
            )
    return targets
