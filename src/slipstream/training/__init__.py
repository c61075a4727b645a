"""The loop that trains a model, what it measures, and what it keeps of a run."""
