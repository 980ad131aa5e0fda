"""The pages of the site, as hooks of mkdocs: the repository's texts, notebooks and figures.

Pages lie where their sources do, so links between them hold; links to other files of the
repository lead to where it is published.
"""

from __future__ import annotations

import json
import os
import pathlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.structure.files import File, Files

import gozero

ROOT = pathlib.Path(__file__).parents[1]
PUBLISHED = "https://github.com/gozero/gozero/blob/main"
TEXTS = ("*.md", "docs/**/*.md", "experiments/**/README.md", "gozero/**/*.md")
FIGURES = ("docs/**/*.svg", "docs/**/*.png", "experiments/**/*.svg")
MORE = {
    "Selection rules": ["gozero.search.rules"],
    "Self-play and matches": [
        "gozero.play.selfplay",
        "gozero.play.selfplay_config",
        "gozero.play.player",
        "gozero.play.arena.play_match",
        "gozero.play.arena.MatchResult",
    ],
    "Networks": ["gozero.nets.network", "gozero.nets.weights"],
    "Pictures": [
        "gozero.apps.pictures.board_svg",
        "gozero.apps.animation.games_svg",
        "gozero.apps.tree_picture.tree_svg",
    ],
    "Devices": ["gozero.play.devices"],
}
"""What the reference has beside the names of `import gozero`."""


def on_files(files: Files, config: Any) -> Files:
    """All that the site has, in place of what lies in docs/."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
    drawn = [path for pattern in FIGURES for path in ROOT.glob(pattern)]
    figures: dict[str, str | bytes] = {_uri(path): path.read_bytes() for path in drawn}
    pages = {_uri(path): path.read_text() for pattern in TEXTS for path in ROOT.glob(pattern)}
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        uri = f"notebooks/{path.stem}.md"
        pages[uri], shown = notebook(json.loads(path.read_text()), path.stem)
        figures |= shown
    pages["docs/reference.md"] = reference()
    for uri, text in pages.items():
        found = linked(text, uri, pages.keys() | figures.keys())
        files.append(File.generated(config, uri, content=found))
    for uri, content in figures.items():
        files.append(File.generated(config, uri, content=content))
    return files


def _uri(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def linked(text: str, uri: str, known: set[str]) -> str:
    """A page whose links to what is not on the site lead to where it is published."""
    folder = posixpath.dirname(uri)

    def target(match: re.Match[str]) -> str:
        path, hash_, anchor = match[1].partition("#")
        if re.match(r"[a-z]+:", path) or not path:
            return match[0]
        at = posixpath.normpath(posixpath.join(folder, path))
        page = at.removesuffix(".py") + ".md" if at.startswith("notebooks/") else f"{at}/README.md"
        at = page if page in known else at
        if at in known:
            return f"]({os.path.relpath(at, folder or '.')}{hash_}{anchor})"
        if not (ROOT / at).exists():
            return match[0]  # which a strict build refuses
        return f"]({PUBLISHED}/{at}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", target, text)


def notebook(document: Mapping[str, Any], stem: str) -> tuple[str, dict[str, str]]:
    """(a notebook with its outputs as Markdown, {figure: SVG})."""
    figures: dict[str, str] = {}
    parts = []
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(
                re.sub(r"\[!\[(.*?)\]\(.*?\)\]", r"[\1]", source)
            )  # a badge from elsewhere
            continue
        parts.append(f"```python\n{source}\n```")
        for kind, text in _outputs(cell):
            if kind == "image/svg+xml":
                name = f"{stem}_{len(figures)}.svg"
                figures[f"notebooks/{name}"] = text
                parts.append(f"![output]({name})")
            else:
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", figures


def _outputs(cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(MIME type, text) of what a cell printed and showed."""
    for output in cell["outputs"]:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield "text/plain", "".join(output["text"])
        data = output.get("data", {})
        for kind in ("image/svg+xml", "text/plain"):
            if kind in data:
                yield kind, "".join(data[kind])
                break


def reference() -> str:
    """The page of the names, whose texts are their docstrings."""
    parts = ["# Reference", "What each name says of itself; [the library](library.md) is shorter."]
    parts.append("## import gozero")
    parts += [f"::: {module}.{name}" for name, module in sorted(gozero._HOME.items())]
    parts.append("::: gozero.search.search.search")
    for title, names in MORE.items():
        parts += [f"## {title}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"
