"""The step does what its plan says, and nothing else; in float64 it equals plain PyTorch."""

import numpy as np
import pytest
import torch
from lookups import EVERYTHING, LENGTHS
from plans import ROWS, SIZES, Batches, assert_close, engine_of, plan_of, step, take, values_of
from torch import nn

from slipstream.config.sections import DenseSettings
from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd

OPTIMIZERS = {
    "sgd": (Sgd(0.1), DenseSettings(optimizer="sgd", lr=0.1)),
    "adagrad": (Adagrad(0.05), DenseSettings(optimizer="adagrad", lr=0.05)),
    "row-wise adagrad": (RowwiseAdagrad(0.05), DenseSettings(optimizer="adagrad", lr=0.05)),
    "adam": (Adam(0.01), DenseSettings(optimizer="adam", lr=0.01)),
}
every_optimizer = pytest.mark.parametrize("kind", OPTIMIZERS)


class PlainDlrm(nn.Module):
    """DLRM as anybody would write it down: a bag for each table, a loop over pairs."""

    def __init__(self):
        super().__init__()
        dim, (first, second), (third, fourth) = SIZES["dim"], SIZES["bottom"], SIZES["top"]
        pairs = len(ROWS) * (len(ROWS) + 1) // 2
        self.bags = nn.ModuleList(nn.EmbeddingBag(n, dim, mode="sum", sparse=True) for n in ROWS)
        sizes = ((3, first), (first, second), (second, dim))
        self.bottom = nn.ModuleList(nn.Linear(*size) for size in sizes)
        sizes = ((dim + pairs, third), (third, fourth), (fourth, 1))
        self.top = nn.ModuleList(nn.Linear(*size) for size in sizes)

    def forward(self, ids, lists, dense):
        x = torch.from_numpy(dense)
        for layer in self.bottom:
            x = torch.relu(layer(x))
        vectors = [x]
        for bag, column in zip(self.bags, ids.T, strict=False):
            vectors.append(bag(torch.from_numpy(column.copy()), torch.arange(len(column))))
        for bag, column in zip(self.bags[ids.shape[1] :], lists.values(), strict=True):
            ends = np.cumsum([0, *(len(values) for values in column[:-1])])
            flat = torch.tensor([v for values in column for v in values], dtype=torch.int64)
            vectors.append(bag(flat, torch.from_numpy(ends)))
        pairs = [(i, j) for i in range(len(vectors)) for j in range(i)]
        dots = [(vectors[i] * vectors[j]).sum(1, keepdim=True) for i, j in pairs]
        z = torch.cat([x, *dots], 1)
        for layer in self.top[:-1]:
            z = torch.relu(layer(z))
        return self.top[-1](z).squeeze(1)

    def take_over(self, engine):
        """Begin with the same weights."""
        (store,) = engine.tables.stores
        for number, bag in enumerate(self.bags):
            rows = store.views["weight"][store.rows_of(f"t{number}")]
            bag.weight.data = torch.from_numpy(rows.copy())
        for layers, expected in (
            (engine.dense.model.bottom, self.bottom),
            (engine.dense.model.top, self.top),
        ):
            linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
            for layer, other in zip(linears, expected, strict=True):
                other.load_state_dict(layer.state_dict())


def test_trained_dlrm_equals_plain_pytorch_step_by_step():
    engine, plain, batches = engine_of(Sgd(0.3)), PlainDlrm().double(), Batches()
    plain.take_over(engine)
    optimizer = torch.optim.SGD(
        [
            {"params": plain.bags.parameters(), "lr": 0.3},
            {"params": [*plain.bottom.parameters(), *plain.top.parameters()], "lr": 0.1},
        ]
    )
    for number in range(1, 21):
        inputs = batches.inputs(16)
        stepped = step(engine, plan_of(engine, inputs, step=number))
        optimizer.zero_grad()
        logits = plain(*inputs[:3])
        labels = torch.from_numpy(inputs[3]).double()
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        optimizer.step()
        close = {"rtol": 1e-9, "atol": 1e-9}
        torch.testing.assert_close(stepped.logits, logits.detach(), **close)
        assert stepped.loss == pytest.approx(loss.item(), abs=1e-9)
        other = engine_of(Sgd(0.3))
        (store,) = other.tables.stores
        for table, bag in enumerate(plain.bags):
            store.views["weight"][store.rows_of(f"t{table}")] = bag.weight.detach().numpy()
        expected = values_of(other)
        names = [n for n, _ in engine.dense.model.named_parameters()]
        weights = [*plain.bottom.parameters(), *plain.top.parameters()]
        expected |= dict(zip(names, (w.detach() for w in weights), strict=True))
        assert_close(values_of(engine), expected, 1e-9)


@every_optimizer
def test_compiled_tables_equal_the_reference_over_ten_steps_of_the_whole_engine(kind):
    rows, dense = OPTIMIZERS[kind]
    engines = [engine_of(rows, dense, tables) for tables in ("cpu", "reference")]
    batches = Batches(1)
    for number in range(1, 11):
        inputs = batches.inputs(32)
        stepped = [step(e, plan_of(e, inputs, step=number, capacity=40)) for e in engines]
        assert stepped[0].loss == pytest.approx(stepped[1].loss, abs=1e-9)
        assert_close(*engines, 1e-9)


@every_optimizer
def test_so_they_do_with_histories_and_shared_tables(kind):
    rows, dense = OPTIMIZERS[kind]
    options = {"schema": EVERYTHING, "model": "tbsm", "lengths": LENGTHS}
    engines = [engine_of(rows, dense, tables, **options) for tables in ("cpu", "reference")]
    batches = Batches(1, EVERYTHING)
    for number in range(1, 6):
        inputs = batches.inputs(8)
        for engine in engines:
            step(engine, plan_of(engine, inputs, step=number, schema=EVERYTHING))
    assert_close(*engines, 1e-9)


@every_optimizer
def test_an_input_of_weight_zero_moves_nothing(kind):
    engines = [engine_of(*OPTIMIZERS[kind]) for _ in range(2)]
    inputs = Batches().inputs(4)
    for number in range(1, 4):
        with_it = plan_of(engines[0], inputs, step=number, weight=[1.0, 1.0, 1.0, 0.0])
        without = plan_of(engines[1], take(inputs, [0, 1, 2]), step=number, capacity=4)
        step(engines[0], with_it)
        step(engines[1], without)
    assert_close(*engines)


@every_optimizer
def test_weight_two_is_the_input_twice(kind):
    engines = [engine_of(*OPTIMIZERS[kind]) for _ in range(2)]
    inputs = Batches().inputs(3)
    for number in range(1, 4):
        weighted = plan_of(engines[0], inputs, step=number, capacity=4, weight=[1.0, 2.0, 1.0])
        doubled = plan_of(engines[1], take(inputs, [0, 1, 1, 2]), step=number)
        step(engines[0], weighted)
        step(engines[1], doubled)
    assert_close(*engines)


def test_the_offset_joins_the_logit_in_the_loss_and_not_in_what_is_predicted():
    engine, inputs = engine_of(Sgd(0.1)), Batches().inputs(5)
    offset = np.array([0.0, 1.0, -2.0, 0.5, 3.0])
    plan = plan_of(engine, inputs, offset=offset)
    last = engine.dense.model.top[-1]
    plain = engine.forward(plan_of(engine, inputs))
    engine.dense._optimizer.zero_grad()
    stepped = engine.forward(plan)
    torch.testing.assert_close(stepped.logits, plain.logits)
    # The gradient of the last bias is the mean of the logits' gradients.
    wanted = torch.sigmoid(stepped.logits + torch.from_numpy(offset)) - plan.labels
    torch.testing.assert_close(last.bias.grad, wanted.mean().reshape(1), rtol=1e-12, atol=1e-12)


@every_optimizer
def test_rows_that_a_mask_holds_stay_as_they_are(kind):
    engine, inputs = engine_of(*OPTIMIZERS[kind]), Batches().inputs(30)
    mask = torch.zeros(sum(ROWS), dtype=torch.bool)
    mask[: ROWS[0]] = True
    before = values_of(engine)
    step(engine, plan_of(engine, inputs, masks=[mask]))
    after = values_of(engine)
    for name in (n for n in before if n.startswith("0 ")):
        assert torch.equal(before[name][ROWS[0] :], after[name][ROWS[0] :]), name
        moved = (before[name] != after[name]).any(1).nonzero().flatten().tolist()
        assert moved == sorted(set(inputs[0][:, 0].tolist())), name


@every_optimizer
def test_padding_moves_nothing(kind):
    engines = [engine_of(*OPTIMIZERS[kind]) for _ in range(2)]
    batches = Batches(2)
    for number in range(1, 6):
        inputs = batches.inputs(6)
        step(engines[0], plan_of(engines[0], inputs, step=number))
        # The loss is a sum over the capacity: twice the weight makes up for twice of that.
        step(engines[1], plan_of(engines[1], inputs, step=number, capacity=12, weight=2.0))
        assert_close(*engines)


def test_a_long_gradient_is_shortened_and_a_short_one_is_not():
    free, far, short = (
        engine_of(Sgd(0.0), DenseSettings(optimizer="sgd", lr=1.0, clip=clip))
        for clip in (None, 1e9, 1e-3)
    )
    before = values_of(free)
    for engine in (free, far, short):
        step(engine, plan_of(engine, Batches().inputs(8)))
    assert_close(free, far, 0)
    after = values_of(short)
    weights = dict(short.dense.model.named_parameters())
    length = sum(((after[n] - before[n]) ** 2).sum() for n in weights) ** 0.5
    assert length.item() == pytest.approx(1e-3, rel=1e-3)


def test_factor_multiplies_both_learning_rates():
    half, whole = (
        engine_of(Sgd(0.1), DenseSettings(optimizer="sgd", lr=0.1)),
        engine_of(Sgd(0.05), DenseSettings(optimizer="sgd", lr=0.05)),
    )
    inputs = Batches().inputs(8)
    step(half, plan_of(half, inputs), 0.5)
    step(whole, plan_of(whole, inputs))
    assert_close(half, whole)
