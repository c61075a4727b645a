"""From plans to a trained model: the loop, what it measures, and what it keeps."""
