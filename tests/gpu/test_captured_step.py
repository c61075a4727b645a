"""Users' own modules and losses in the recorded step, beside their own plain loop."""

import threading

import numpy as np
import pytest
import torch
from small_runs import clicks, skewed
from torch import nn

from slipstream import Adam, CapturedStep, ConfigError, EmbeddingTables, Loader, RowwiseAdagrad
from slipstream.config import Config
from slipstream.gpu.planning import plan_ahead

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = ("placement.fast_memory=70%", "placement.window=3")


@pytest.fixture
def recorded(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )


class Mine(nn.Module):
    """Not one of our models: a product of two columns, beside dense values and the others."""

    def __init__(self, columns, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.top = nn.Linear(1 + 3 * columns, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, dense, vectors):
        product = vectors["user"] * vectors["ad"]
        joined = torch.cat([dense, product, *list(vectors.values())[1:]], dim=1)
        return self.out(torch.tanh(self.top(joined))).squeeze(1)


def squared(outputs, labels, weights):
    return ((outputs - labels) ** 2 * weights).sum() / len(labels)


def made(data, device, *settings, loss=squared, optimizer=None, storage="fp64", **keys):
    tables = EmbeddingTables.for_schema(
        data.schema, dim=3, optimizer=optimizer or RowwiseAdagrad(lr=0.2), storage=storage
    )
    config = Config(batch_size=16, device=device, **keys).with_settings([*SIZES, *settings])
    module = Mine(len(data.schema.columns))
    said: list[str] = []
    return CapturedStep(data, tables, module, loss, config=config, on_message=said.append), said


def by_hand(data, loss, optimizer, lr, epochs=1):
    """The loop that a user would write."""
    tables = EmbeddingTables.for_schema(data.schema, dim=3, optimizer=optimizer, storage="fp64")
    module = Mine(len(data.schema.columns)).double()
    weights = torch.optim.SGD(module.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        for batch in Loader(data.train, 16):
            outputs = module(batch.dense.double(), tables(batch))
            value = loss(outputs, batch.labels.double(), batch.weights.double())
            value.backward()
            weights.step()
            weights.zero_grad()
            tables.step()
            losses.append(float(value.detach()))
    return losses, tables, module


def same(step, tables, module, atol):
    for table in tables.layout.tables:
        ours = step._tables.weight(table.name)
        torch.testing.assert_close(ours, tables.weight(table.name), rtol=0, atol=atol)
    mine = step._dense.model.module.state_dict()
    for name, value in module.state_dict().items():
        torch.testing.assert_close(mine[name].cpu(), value, rtol=0, atol=atol)


DENSE = ("dense.optimizer=sgd", "dense.lr=0.3")


@pytest.mark.parametrize("data", [clicks, skewed])
def test_on_a_cpu_it_is_the_loop_by_hand_and_says_why(data):
    data = data(140)
    step, said = made(data, "cpu", *DENSE)
    losses = [one.loss for one in step.through()]
    assert len(said) == 1
    assert "only on a GPU" in said[0]
    assert not step.recorded
    wanted, tables, module = by_hand(data, squared, RowwiseAdagrad(lr=0.2), 0.3)
    assert losses == pytest.approx(wanted, abs=1e-12)
    same(step, tables, module, 1e-12)


@pytest.mark.parametrize("strategy", ["fast", "bagpipe"])
@pytest.mark.parametrize(("data", "optimizer"), [(clicks, Adam(lr=0.05)), (skewed, None)])
def test_the_recorded_step_trains_what_the_loop_by_hand_does(recorded, data, optimizer, strategy):
    data, optimizer = data(140), optimizer or RowwiseAdagrad(lr=0.2)
    step, said = made(data, DEVICE, *DENSE, optimizer=optimizer, strategy=strategy)
    told = list(step.through())
    assert step.recorded
    assert not said
    wanted, tables, module = by_hand(data, squared, optimizer, 0.3)
    assert [one.loss for one in told] == pytest.approx(wanted, abs=1e-9)
    assert [one.inputs for one in told] == [16] * (len(data.train) // 16) + (
        [len(data.train) % 16] if len(data.train) % 16 else []
    )
    assert all(len(one.outputs) == one.inputs for one in told)
    assert told[-1].position == len(data.train)
    same(step, tables, module, 1e-9)


def test_a_second_pass_goes_on_where_the_first_ended(recorded):
    data, optimizer = clicks(100), Adam(lr=0.05)
    step, _ = made(data, DEVICE, *DENSE, optimizer=optimizer)
    for _ in range(2):
        losses = [one.loss for one in step.through()]
    wanted, tables, module = by_hand(data, squared, optimizer, 0.3, epochs=2)
    assert losses == pytest.approx(wanted[len(wanted) // 2 :], abs=1e-9)
    same(step, tables, module, 1e-9)


def test_who_stops_in_the_middle_has_all_rows_and_no_thread(recorded):
    data = clicks(240)
    step, _ = made(data, DEVICE, *DENSE, storage="fp32")
    before = step._tables.weight("user").clone()
    for number, _ in enumerate(step.through()):
        if number == 3:
            break
    names = [one.name for one in threading.enumerate() if one.name.startswith("slipstream")]
    assert not [name for name in names if not name.startswith("slipstream-kernels")]
    moved = (step._tables.weight("user") != before).any(1)
    assert moved.sum() > 5
    rest, _ = made(data, DEVICE, *DENSE, storage="fp32", stop=16 * step._tables.steps)
    list(rest.through())
    np.testing.assert_array_equal(step._tables.weight("user"), rest._tables.weight("user"))


def test_an_error_in_a_loss_leaves_no_thread_while_it_is_looked_at(recorded):
    def fails(outputs, labels, weights):
        raise ValueError("no loss today")

    step, _ = made(clicks(3000), DEVICE, *DENSE, loss=fails)
    with pytest.raises(ValueError, match="no loss today") as caught:
        list(step.through())
    names = [one.name for one in threading.enumerate() if one.name.startswith("slipstream")]
    left = [name for name in names if not name.startswith("slipstream-kernels")]
    assert not left, f"while {caught.value!r} is looked at"


class Asking(Mine):
    """Asks the host for a value, which cannot be recorded."""

    def forward(self, dense, vectors):
        outputs = super().forward(dense, vectors)
        return outputs if float(outputs.detach().sum()) < 1e9 else -outputs


@pytest.mark.needs("cuda")
def test_a_module_that_cannot_be_recorded_is_trained_all_the_same():
    data, said = clicks(200), []
    tables = [EmbeddingTables.for_schema(data.schema, dim=3) for _ in range(2)]
    config = Config(batch_size=16, device=DEVICE).with_settings([*SIZES, *DENSE])
    kinds = zip((Asking, Mine), tables, strict=True)
    losses = [
        [
            one.loss
            for one in CapturedStep(
                data, of, kind(2), config=config, on_message=said.append
            ).through()
        ]
        for kind, of in kinds
    ]
    assert len(said) == 1
    assert said[0].startswith("Steps are not recorded, which makes them slower: ")
    assert losses[0] == losses[1]
    torch.testing.assert_close(*(one.weight("user") for one in tables), rtol=0, atol=0)


def test_the_loss_that_is_left_out_is_the_logloss(recorded):
    data = clicks(100)
    step, _ = made(data, DEVICE, *DENSE, loss=None)

    def logloss(outputs, labels, weights):
        losses = nn.functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
        return (losses * weights).sum() / len(labels)

    wanted, _, _ = by_hand(data, logloss, RowwiseAdagrad(lr=0.2), 0.3)
    assert [one.loss for one in step.through()] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kernels", ["cpu", "gpu"])
def test_outputs_of_another_shape_are_an_error_that_says_so(kernels, monkeypatch):
    monkeypatch.setattr(plan_ahead, "kernels_for", lambda *_: kernels)
    data, device = clicks(100), DEVICE if kernels == "gpu" else "cpu"
    step, _ = made(data, device, loss=squared)
    step._dense.model.module.out = nn.Linear(4, 2).double().to(device)
    with pytest.raises(ConfigError, match=r"shape \[16, 2\] for 16 examples; it must return one"):
        list(step.through())


@pytest.mark.parametrize(
    ("whole", "told"), [(True, "are bfloat16;"), (False, "are bfloat16 and float32;")]
)
def test_weights_that_a_recorded_step_cannot_move_are_an_error_that_says_so(recorded, whole, told):
    data = clicks(100)
    tables, module = EmbeddingTables.for_schema(data.schema, dim=3), Mine(2)
    (module if whole else module.out).bfloat16()
    with pytest.raises(ConfigError, match=f"The weights of the module {told}"):
        CapturedStep(data, tables, module, config=Config(batch_size=16, device=DEVICE))


@pytest.mark.parametrize("kernels", ["cpu", "gpu"])
def test_memory_that_is_used_up_is_an_error_that_says_what_to_do(kernels, monkeypatch):
    monkeypatch.setattr(plan_ahead, "kernels_for", lambda *_: kernels)

    def full(*_):
        raise torch.OutOfMemoryError

    step, _ = made(clicks(100), DEVICE if kernels == "gpu" else "cpu", loss=full)
    with pytest.raises(ConfigError, match="used up, with a fast tier of 70%"):
        list(step.through())


def test_what_does_not_go_together_is_an_error_that_says_so():
    data = clicks(100)
    with pytest.raises(ConfigError, match="strategy is fae, but with a module of your own"):
        made(data, "cpu", strategy="fae")
    other = clicks(100, columns={"user": np.arange(100) % 7, "ad": np.arange(100) % 3})
    tables = EmbeddingTables.for_schema(other.schema, dim=3)
    with pytest.raises(ConfigError, match="Table 'user' has 30 rows in this data set, but"):
        CapturedStep(data, tables, Mine(2))
    with pytest.raises(ConfigError, match="not made for this data set"):
        CapturedStep(data, EmbeddingTables(list(tables.layout.tables)), Mine(2))
