"""Errors that the command line shows as one sentence instead of a traceback."""


class UsageError(ValueError):
    """A mistake in what the user asked for, said in words that also name the fix."""


class HeaderError(UsageError):
    """What is wrong with a user's C++ header, at the author's own lines."""


class RunError(RuntimeError):
    """Why a run that began well cannot go on."""
