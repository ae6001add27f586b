"""Writes the pictures of the dashboard in docs/images: ``python -m tools.screenshots``.

The pages show a played run (tests/dashboard_shop.py) at a fixed moment, so that a picture changes
only if a page does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.dashboard_browser import Dashboard, chromium, open_dashboard
from tests.dashboard_shop import SHOP

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
MOST_BYTES: Final = 150_000
PICTURES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "dashboard.png": ("/", {"color_scheme": "light", "viewport": {"width": 1180, "height": 590}}),
    "dashboard-dark.png": ("/", {"color_scheme": "dark", "viewport": {"width": 1180, "height": 590}}),
    "subscription.png": (
        f"/subscriptions/{SHOP}",
        {"color_scheme": "light", "viewport": {"width": 1180, "height": 1130}},
    ),
}
"""The path of the page of each picture, and the window that shows it."""


def take(dashboard: Dashboard, folder: Path) -> None:
    """Write every picture into a folder."""
    folder.mkdir(exist_ok=True)
    dashboard.show("shop")
    for name, (path, window) in PICTURES.items():
        page = dashboard.open(path, **window)
        page.screenshot(path=folder / name)
        page.context.close()


def main() -> None:
    with open_dashboard(chromium()) as dashboard:
        take(dashboard, FOLDER)
    for name in PICTURES:
        print(f"docs/images/{name}: {(FOLDER / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
