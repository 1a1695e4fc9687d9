"""Make one web page of a recording, that plays it anywhere: for slides and tickets.

  kvtop export load.kvrec --html load.html                            all of it
  kvtop export load.kvrec --html jam.html --from-step 900 --to-step 1300   a part, in full detail

The page needs nothing but a browser: no font, script or picture comes from elsewhere. It stays under --limit (8 MiB):
of a long recording every few steps are shown and the least telling types of event are left out, and the page says so.
Open it at a step with load.html#step=1284.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvtop.commands.engine_flags import add_flag, say_warnings, settings_from, typed
from kvtop.commands.record_output import say_cut
from kvtop.failure import Failure
from kvtop.parsing import integer
from kvtop.parsing import size as parse_size
from kvtop.settings import SETTINGS
from kvtop.view.clean import clean_line
from kvtop.view.words import size

LEAST_LIMIT_BYTES = 256 << 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="FILE", type=Path, help="a recording (kvtop live --record FILE)")
    parser.add_argument("--html", metavar="OUT", type=Path, required=True, help="the page, a new file")
    parser.add_argument("--from-step", metavar="N", type=typed(integer(0)), help="from this step on")
    parser.add_argument("--to-step", metavar="N", type=typed(integer(0)), help="up to this step")
    parser.add_argument("--title", metavar="TEXT", help="what stands above it (default: the recording's name)")
    parser.add_argument(
        "--limit", metavar="SIZE", type=typed(_limit), default=8 << 20, help="largest page (default: 8 MiB)"
    )
    for setting in SETTINGS:
        if setting.name == "theme":
            add_flag(parser, setting)


def _limit(text: str) -> int:
    limit = parse_size(text)
    if limit < LEAST_LIMIT_BYTES:
        raise ValueError(f"{size(LEAST_LIMIT_BYTES)} or more")
    return limit


def run(args: argparse.Namespace) -> int:
    from kvtop.app.theme_files import load_themes
    from kvtop.page.document import make_bounded_document
    from kvtop.page.film import Bounds, Film, make_film
    from kvtop.page.look import look_of
    from kvtop.sources.recording import Recording

    settings = settings_from(args)
    say_warnings(settings)
    themes, _ = load_themes(settings.config_path.parent / "themes")
    if settings["theme"] not in themes:
        raise Failure(f"there is no theme {settings['theme']!r}, expected one of {', '.join(themes)}")
    with Recording(args.recording) as recording:
        if recording.lost_bytes:
            say_cut(recording)

        def film(bounds: Bounds) -> Film:
            return make_film(recording.timeline, bounds, args.from_step, args.to_step)

        title = clean_line(args.title or args.recording.stem, 200)
        page = make_bounded_document(film, title, look_of(themes[settings["theme"]]), args.limit)
    _write(args.html, page)
    return 0


def _write(path: Path, page: str) -> None:
    data = page.encode()
    try:
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise Failure(f"{path}: exists already; choose another name, or remove it") from None
    except OSError as error:
        raise Failure(f"{path}: cannot be written ({error.strerror})") from None
    print(f"wrote {clean_line(str(path), 500)}, {size(len(data))}", file=sys.stderr)
