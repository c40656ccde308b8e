"""What can go wrong on the user's side. The message is one sentence; the command line prints it and exits 2."""

from __future__ import annotations


class GlideslopeError(Exception):
    """Base of the errors that a user can mend; anything else that escapes is a defect of the program."""


class RunError(GlideslopeError):
    """A run directory cannot be read; the message names the file and the remedy."""


class ConfigError(GlideslopeError):
    """A configuration file or a rule code is wrong; the message names the file, the key and a close match."""
