"""A stream of events in the description: what each of them holds."""

from __future__ import annotations

from typing import Any

# OpenAPI before 3.2 has no word for the items of a stream: the schema is that of each event.
EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of the stream.",
    "required": ["data"],
    "properties": {
        "id": {"type": "string", "description": "Its number, where events are numbered."},
        "event": {"type": "string", "description": "Its kind, where they are of several."},
        "data": {"type": "string", "description": "What it tells, as JSON."},
    },
}
