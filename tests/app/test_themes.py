"""Themes: whole, legible, told apart; and a bad file is a warning that helps."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from rich.color import Color

from kvtop.app.app import AppSettings
from kvtop.app.palette import ACTIVE, CACHED, FREE, Cell, Palette
from kvtop.app.theme_files import load_themes
from kvtop.view.colours import Depth, Rgb, contrast, mix
from tests.app.feed import story
from tests.app.stage import on_stage, text

THEMES, _ = load_themes()
MULTICOLOUR = [name for name, theme in THEMES.items() if len(theme.owners.colors) > 4]


def apart(one: Rgb, other: Rgb) -> float:
    """How different two colours look: distance in Oklab, times 100."""

    def oklab(colour: Rgb) -> tuple[float, float, float]:
        r, g, b = (c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
        long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
        middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
        short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
        return (
            0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
        )

    return 100 * sum((a - b) ** 2 for a, b in zip(oklab(one), oklab(other), strict=True)) ** 0.5


def rgb(color: Color | None) -> Rgb:
    assert color is not None and color.triplet is not None
    return color.triplet.red, color.triplet.green, color.triplet.blue


def test_five_themes_come_with_it() -> None:
    assert {"dark", "light", "high-contrast", "colour-blind", "monochrome"} <= set(THEMES)
    assert THEMES["dark"].dark and not THEMES["light"].dark


@pytest.mark.parametrize("name", THEMES)
def test_words_can_be_read(name: str) -> None:
    colours = THEMES[name].colors
    for ink, least in (("text", 7), ("muted", 4), ("accent", 4.5), ("bad", 4.5), ("warning", 4.5), ("good", 4)):
        assert contrast(getattr(colours, ink), colours.background) >= least, ink


@pytest.mark.parametrize("name", THEMES)
def test_the_glyph_can_be_read_on_every_owners_colour(name: str) -> None:
    palette = Palette(THEMES[name], Depth.TRUE)
    for slot in range(len(THEMES[name].owners.colors)):
        for cell in (Cell(ACTIVE, slot), Cell(ACTIVE, slot, 0), Cell(ACTIVE, slot, shared=True)):
            style = palette.cell(cell)
            assert contrast(rgb(style.color), rgb(style.bgcolor)) >= 3, cell


LEAST_APART = {"dark": 14, "light": 11, "high-contrast": 18, "colour-blind": 9.9}
"""Of the blocks of any two of the first twelve owners, in Oklab times 100. The best that a search over each theme's
colours found, whose glyphs can be read; below 2 two areas side by side look alike."""


def owner_blocks(name: str, depth: Depth = Depth.TRUE, owners: int = 12) -> list[Rgb]:
    """What full blocks of the first owners look like."""
    palette = Palette(THEMES[name], depth)
    papers = [palette.cell(Cell(ACTIVE, slot)).bgcolor for slot in range(owners)]
    triplets = [paper.get_truecolor() for paper in papers if paper is not None]
    return [(triplet.red, triplet.green, triplet.blue) for triplet in triplets]


@pytest.mark.parametrize("name", MULTICOLOUR)
def test_the_first_twelve_owners_are_as_far_apart_as_they_can_be(name: str) -> None:
    for (i, one), (j, other) in itertools.combinations(enumerate(owner_blocks(name)), 2):
        assert apart(one, other) >= LEAST_APART[name], (i, j)


@pytest.mark.parametrize("name", MULTICOLOUR)
def test_on_256_colours_the_first_twelve_owners_can_be_told_apart(name: str) -> None:
    for (i, one), (j, other) in itertools.combinations(enumerate(owner_blocks(name, Depth.PALETTE)), 2):
        assert apart(one, other) >= 5, (i, j)


@pytest.mark.parametrize("name", MULTICOLOUR)
@pytest.mark.parametrize("depth", [Depth.TRUE, Depth.PALETTE, Depth.ANSI])
def test_no_two_of_the_first_owners_share_a_colour_at_any_depth(name: str, depth: Depth) -> None:
    palette = Palette(THEMES[name], depth)
    assert len({palette.cell(Cell(ACTIVE, slot)) for slot in range(len(THEMES[name].owners.colors_16))}) == 12


@pytest.mark.parametrize("name", THEMES)
@pytest.mark.parametrize("depth", list(Depth))
def test_full_partial_shared_cached_and_free_look_different(name: str, depth: Depth) -> None:
    palette = Palette(THEMES[name], depth)
    cells = [
        Cell(ACTIVE, 0),
        Cell(ACTIVE, 0, 2),
        Cell(ACTIVE, 0, shared=True),
        Cell(CACHED, 0),
        Cell(ACTIVE, 0, dimmed=True),
    ]
    looks = [("A", palette.cell(cell)) for cell in cells] + [("·", palette.cell(Cell(FREE)))]
    assert len(set(looks[:4])) == 4 and looks[4] != looks[0] and looks[5] not in looks[:5]


# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def seen_with(blindness: str, colour: Rgb) -> Rgb:
    linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    mixed = [sum(m * c for m, c in zip(row, linear, strict=True)) for row in BLINDNESS[blindness]]
    clipped = [min(1.0, max(0.0, c)) for c in mixed]
    r, g, b = (round(255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055)) for c in clipped)
    return r, g, b


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_the_colour_blind_theme_tells_twelve_owners_and_all_states_apart(blindness: str) -> None:
    theme = THEMES["colour-blind"]
    for one, other in itertools.combinations(owner_blocks("colour-blind"), 2):
        assert apart(seen_with(blindness, one), seen_with(blindness, other)) >= 8.5, (one, other)
    states = [theme.colors.good, theme.colors.warning, theme.colors.bad]
    for one, other in itertools.combinations(states, 2):
        assert apart(seen_with(blindness, one), seen_with(blindness, other)) >= 10, (one, other)


def test_mixing_nothing_and_everything() -> None:
    assert mix((0, 0, 0), (10, 20, 30), 0) == (0, 0, 0)
    assert mix((0, 0, 0), (10, 20, 30), 1) == (10, 20, 30)


BAD_FILES = {
    'name = "x"\n[colors]\ntext = "red"\n': "colors.text: is 'red', expected a colour like \"#78aef2\"",
    'name = "x"\n[colors]\ntexts = "#ffffff"\n': "colors.texts: unknown key, allowed are background, raised",
    'name = "x"\n[variables]\nfull = 3\n': "variables.full: is 3, expected a number from 0 to 1",
    'name = "x"\n[owners]\ncolors = []\n': "owners.colors: is [], expected a list of at least one colour",
    'name = "x"\n[owners]\ncolors_16 = ["pink"]\n': "owners.colors_16: 'pink' is not one of black, red",
    'name = "x"\ncolours = 1\n': "colours: unknown key, allowed are name, dark, colors, variables, owners",
    'name = "x"\ndark = "yes"\n': "dark: is 'yes', expected true or false",
    'name = "x"\ncolors = 1\n': "colors: is 1, expected a table",
    "name = ": "Invalid value",
}


@pytest.mark.parametrize(("content", "said"), BAD_FILES.items())
def test_a_bad_file_is_left_out_with_file_key_and_what_is_allowed(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(content)
    themes, warnings = load_themes(tmp_path)
    assert set(themes) == set(THEMES)
    assert len(warnings) == 1 and "mine.toml" in warnings[0] and said in warnings[0]


def test_a_theme_of_ones_own_says_only_what_differs(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('dark = false\n[colors]\naccent = "#123456"\n')
    themes, warnings = load_themes(tmp_path)
    assert not warnings
    assert themes["mine"].colors.accent == (0x12, 0x34, 0x56)
    assert themes["mine"].colors.text == themes["light"].colors.text


async def test_the_program_starts_with_bad_files_and_an_unknown_theme_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[colors]\ntext = "red"\n')
    settings = AppSettings(theme="nope", theme_place="/k.toml: screen.theme", themes_folder=tmp_path)
    async with on_stage(story(96), settings=settings) as (app, pilot):
        await pilot.pause(0.3)
        shown = text(app)
        assert "mine.toml" in shown and "/k.toml: screen.theme is 'nope'" in shown
        assert app.scene.palette.theme.name == "dark"


@pytest.mark.parametrize("name", THEMES)
def test_beside_a_selection_the_others_are_neither_cached_nor_brighter_than_it(name: str) -> None:
    palette, background = Palette(THEMES[name], Depth.TRUE), THEMES[name].colors.background
    for slot in range(len(THEMES[name].owners.colors)):
        lit, other, new, kept = (
            apart(rgb(palette.cell(cell).bgcolor), background)
            for cell in (
                Cell(ACTIVE, slot),
                Cell(ACTIVE, slot, dimmed=True),
                Cell(ACTIVE, slot, dimmed=True, changed=True),
                Cell(CACHED, slot, dimmed=True),
            )
        )
        assert new == other < 0.7 * lit and other > kept + 5, slot
