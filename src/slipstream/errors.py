"""Errors that a user can act on: each is a sentence saying what is wrong, where, and what to do."""


class SlipstreamError(Exception):
    """Base of every error that is about the user's input rather than a defect here."""


class DataError(SlipstreamError):
    """A data set, or the arrays given to make one, are not what they should be."""


class ConfigError(SlipstreamError):
    """An option or argument is not one that can be used."""
