"""What the user has set, and where it is kept. Read by the doors (command line, server) alone."""

from anyrig.settings.folders import Folders, folders
from anyrig.settings.load import Loaded, Settings, load

__all__ = ["Folders", "Loaded", "Settings", "folders", "load"]
