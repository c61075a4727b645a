"""Embedding tables of slipstream in a loop of Accelerate: four lines change, marked 1 to 4.

pip install accelerate
python examples/accelerate_loop.py
"""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

import slipstream  # 1

USERS, ADS, DIM = 2000, 300, 8


class Model(nn.Module):
    """The dot product of user and ad, plus a network on both vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = slipstream.EmbeddingTables(  # 2: instead of two nn.EmbeddingBag
            [slipstream.TableSpec("user", USERS, DIM), slipstream.TableSpec("ad", ADS, DIM)],
            optimizer=slipstream.Adam(lr=0.01),
        )
        self.top = nn.Sequential(nn.Linear(2 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, users: torch.Tensor, ads: torch.Tensor) -> torch.Tensor:
        """The logit of each example."""
        vectors = self.tables({"user": users, "ad": ads})  # 3
        user, ad = vectors["user"], vectors["ad"]
        return (user * ad).sum(dim=1) + self.top(torch.cat([user, ad], dim=1)).squeeze(1)


def clicks(examples: int) -> TensorDataset:
    """Random users and ads, and clicks by tastes that the model has to learn."""
    users, ads = torch.randint(USERS, (examples,)), torch.randint(ADS, (examples,))
    taste, kind = torch.randn(USERS, 4), torch.randn(ADS, 4)
    labels = torch.bernoulli(torch.sigmoid((taste[users] * kind[ads]).sum(dim=1)))
    return TensorDataset(users, ads, labels)


def main() -> None:
    """Train for four epochs, two batches a step, and print how the loss falls."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    loader = DataLoader(clicks(60_000), batch_size=256, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(1, 5):
        total = 0.0
        for users, ads, labels in loader:
            with accelerator.accumulate(model):
                loss = binary_cross_entropy_with_logits(model(users, ads), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:  # this batch completes a step
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    model.tables.step()  # 4
                optimizer.step()
                optimizer.zero_grad()
            total += loss.item()
        print(f"epoch {epoch}: mean loss {total / len(loader):.4f}, {model.tables.steps} steps")


if __name__ == "__main__":
    main()
