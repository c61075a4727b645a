"""From a packed data set to a trained, evaluated, resumable model."""
