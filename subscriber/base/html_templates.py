"""HTML pages from Jinja2 templates. What is put into a page is text, never markup: every value is
escaped, and a name that a template does not know is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from subscriber.base.errors import UsageError

if TYPE_CHECKING:
    from jinja2 import Environment


def html_templates(package: str, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """The templates in the folder ``templates`` of a package. Control characters are shown as
    pictures.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined  # of the extra http
    except ImportError:
        raise UsageError("HTML pages need Jinja2", hint='Install it with: pip install "subscriber[http]"') from None
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.filters.update(filters)
    return made


_PICTURES: Final = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""Control characters → their pictures (U+2400): browsers hide some, and break lines at CR."""


def _visible(value: Any) -> Any:
    # Markup is a str, too; it is made of text that is visible already.
    return value.translate(_PICTURES) if type(value) is str else value


def as_html(page: str) -> bytes:
    """A page in UTF-8. A name may have half of a surrogate pair, which becomes a reference."""
    return page.encode("utf-8", "xmlcharrefreplace")


def package_file(package: str, name: str) -> bytes:
    return files(package).joinpath(name).read_bytes()


def style_sheet(package: str, name: str) -> bytes:
    """A style sheet of a package, after the colours and fonts of all pages."""
    return package_file("subscriber.base", "pages.css") + package_file(package, name)
