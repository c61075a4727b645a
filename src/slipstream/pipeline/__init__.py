"""The way of a batch: where its rows are, and one training step with them."""
