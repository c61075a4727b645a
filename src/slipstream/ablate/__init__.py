"""Which block of skipping does what: each on and off, beside its controls."""
