"""Embedding tables: what they are, where their rows are kept, how rows are read and updated."""
