"""The examples run and learn; the tables make as many steps as the optimizer."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import slipstream

pytestmark = pytest.mark.process
EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CONSTANT = 0.582  # the logloss of a constant prediction on their data; the best possible is 0.434


def losses(shown):
    return [float(value) for value in re.findall(r"(?:logloss|mean loss) ([\d.]+)", shown)]


def test_the_plain_loop_learns():
    before, *_, after = losses(run("own_loop.py"))
    assert after < CONSTANT - 0.04 < before


@pytest.mark.needs("lightning")
def test_the_loop_of_lightning_learns():
    shown = run("lightning_loop.py")
    before, after = losses(shown)
    assert after < CONSTANT - 0.04 < before
    assert "100 steps of the optimizer, 100 of the tables" in shown


@pytest.mark.needs("accelerate")
def test_the_loop_of_accelerate_learns():
    shown = run("accelerate_loop.py")
    first, *_, last = losses(shown)
    assert last < 0.6 < first
    assert "472 steps" in shown, "235 batches an epoch, two for each step but the last"


def assert_same_model(model, other):
    wanted = other.state_dict()
    for key, values in model.state_dict().items():
        torch.testing.assert_close(values, wanted[key], rtol=1e-5, atol=1e-7, msg=key)


@pytest.mark.needs("lightning")
def test_lightning_accumulates_and_clips_as_a_plain_loop_does(tmp_path):
    import lightning

    names = runpy.run_path(str(EXAMPLES / "lightning_loop.py"))
    folder = slipstream.synthesize(slipstream.Recipe(rows=2000), tmp_path / "clicks")
    dataset = slipstream.Dataset.open(folder)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(names["Model"](dataset.schema))
    trainer = lightning.Trainer(
        max_epochs=1,
        accumulate_grad_batches=2,
        gradient_clip_val=0.01,
        default_root_dir=tmp_path,
        **names["QUIET"],
    )
    trainer.fit(models[0], slipstream.Loader(dataset.train, 170))
    plain = models[1]
    optimizer = plain.configure_optimizers()
    for number, batch in enumerate(slipstream.Loader(dataset.train, 170), 1):
        (plain.training_step(batch) / 2).backward()
        if number % 2 == 0:
            plain.tables.step()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
            optimizer.step()
            optimizer.zero_grad()
    assert plain.tables.steps == 5
    assert_same_model(models[0], plain)


@pytest.mark.needs("accelerate")
def test_accelerate_accumulates_as_a_plain_loop_does():
    from accelerate import Accelerator

    names = runpy.run_path(str(EXAMPLES / "accelerate_loop.py"))
    batches = torch.utils.data.DataLoader(names["clicks"](1000), batch_size=100)
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(names["Model"]())
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    first, plain = models
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in models]
    model, optimizer, loader = accelerator.prepare(first, optimizers[0], batches)
    for users, ads, labels in loader:
        with accelerator.accumulate(model):
            accelerator.backward(binary_cross_entropy_with_logits(model(users, ads), labels))
            if accelerator.sync_gradients:
                model.tables.step()
            optimizer.step()
            optimizer.zero_grad()
    for number, (users, ads, labels) in enumerate(batches, 1):
        (binary_cross_entropy_with_logits(plain(users, ads), labels) / 2).backward()
        if number % 2 == 0:
            plain.tables.step()
            optimizers[1].step()
            optimizers[1].zero_grad()
    assert first.tables.steps == 5
    assert_same_model(first, plain)
