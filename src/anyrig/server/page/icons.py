"""Icons: line drawings of 24 by 24, in the colour of the text."""

from __future__ import annotations

_PATHS = {
    "mark": '<path d="M4 15v-3M8 18V9M12 20V4M16 17v-7M20 14v-3" stroke-width="2.2"/>',
    "menu": '<path d="M4 7h16M4 12h16M4 17h16"/>',
    "close": '<path d="M6 6l12 12M18 6 6 18"/>',
    "sun": '<circle cx="12" cy="12" r="4"/><path d="M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7'
    'M17 17l1.4 1.4M18.4 5.6 17 7M7 17l-1.4 1.4"/>',
    "moon": '<path d="M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z"/>',
    "auto": '<circle cx="12" cy="12" r="8.5"/><path d="M12 3.5v17a8.5 8.5 0 0 0 0-17z" '
    'fill="currentColor"/>',
    "copy": '<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M5 15V6a2 2 0 0 1 2-2h8"/>',
    "play": '<path d="M7 5.5v13l11-6.5z" fill="currentColor"/>',
    "stop": '<rect x="6.5" y="6.5" width="11" height="11" rx="1.5" fill="currentColor"/>',
    "previous": '<path d="M7 6v12M18 6.5v11L10 12z" fill="currentColor"/>',
    "next": '<path d="M17 6v12M6 6.5v11L14 12z" fill="currentColor"/>',
    "back": '<path d="M4.5 5v4.5H9M4.8 9.5a8 8 0 1 1-.6 4"/>',
    "forward": '<path d="M19.5 5v4.5H15M19.2 9.5a8 8 0 1 0 .6 4"/>',
    "pause": '<path d="M9 6v12M15 6v12" stroke-width="2.6"/>',
    "download": '<path d="M12 4v11m0 0 4.5-4.5M12 15l-4.5-4.5M5 20h14"/>',
    "upload": '<path d="M12 16V5m0 0L7.5 9.5M12 5l4.5 4.5M5 20h14"/>',
    "again": '<path d="M20 11a8 8 0 1 0-2.3 6.2M20 5v6h-6"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "bin": '<path d="M5 7h14M10 7V4.5h4V7m-7 0 1 13h8l1-13"/>',
    "check": '<path d="m5 12.5 4.5 4.5L19 7.5"/>',
    "warning": '<path d="M12 4 2.8 20h18.4zM12 10v4.5M12 17.2v.3"/>',
    "search": '<circle cx="11" cy="11" r="6.5"/><path d="m16 16 4.5 4.5"/>',
    "chip": '<rect x="6" y="6" width="12" height="12" rx="2"/><path d="M9.5 3v3M14.5 3v3M9.5 18v3'
    'M14.5 18v3M3 9.5h3M3 14.5h3M18 9.5h3M18 14.5h3"/>',
    "gauge": '<path d="M4 18a8.5 8.5 0 1 1 16 0M12 14l4-5"/>',
    "speak": '<path d="M5 9.5v5h3.5L13 18.5v-13L8.5 9.5zM16.5 9a4.5 4.5 0 0 1 0 6M19 6.5a8 8 0 0 1 '
    '0 11"/>',
    "book": '<path d="M12 6.5C10 5 7 4.5 4 5v13c3-.5 6 0 8 1.5 2-1.5 5-2 8-1.5V5c-3-.5-6 0-8 1.5z'
    'M12 6.5v13"/>',
    "document": '<path d="M7 3.5h7l4 4V20.5H7zM14 3.5V8h4M10 12.5h5M10 16h5"/>',
    "train": '<path d="M4 4v16h16M7 8c2.5 6 6 8 12 8.5"/>',
    "jobs": '<path d="M9 6.5h11M9 12h11M9 17.5h11"/><circle cx="5" cy="6.5" r="1"/>'
    '<circle cx="5" cy="12" r="1"/><circle cx="5" cy="17.5" r="1"/>',
    "cluster": '<circle cx="12" cy="5.5" r="2.5"/><circle cx="5.5" cy="18" r="2.5"/>'
    '<circle cx="18.5" cy="18" r="2.5"/><path d="M10.8 7.7 6.7 15.8M13.2 7.7l4.1 8.1M8 18h8"/>',
    "list": '<path d="M4 7h10M4 12h10M4 17h6M17 13v7m-3.5-3.5h7"/>',
    "letters": '<path d="M4 18 9 6l5 12M5.7 14h6.6M16 11.5h4.5L16 18h4.5"/>',
}


def svg(name: str) -> str:
    """An icon as HTML."""
    return (
        '<svg viewBox="0 0 24 24" width="20" height="20" fill="none" stroke="currentColor" '
        'stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" '
        f'focusable="false">{_PATHS[name]}</svg>'
    )
