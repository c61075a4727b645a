"""Plans for a device: how far ahead they are made, and which rows come and go."""
