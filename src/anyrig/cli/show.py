"""Old names of `anyrig.cli.output`, for commands that are not yet on the application layer."""

from anyrig.cli.output import format_table as table
from anyrig.cli.output import paint, print_error, print_json, print_warning

__all__ = ["paint", "print_error", "print_json", "print_warning", "table"]
