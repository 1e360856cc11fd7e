"""The palette: its text can be read, and pages take their colours from it."""

import re
from importlib.resources import files

import pytest

from kbert.io import palette

SCHEMES = ("light", "dark")


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2's definition."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in palette.read_rgb(colour))
    ]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, WCAG 2.2's definition: 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_enough_contrast(scheme):
    texts = {"ink": palette.INK, "dim": palette.DIM}
    texts |= {f"series {number}": colour for number, colour in enumerate(palette.SERIES)}
    for name, text in texts.items():
        for ground in (palette.PAPER, palette.SOFT):
            ratio = contrast(getattr(text, scheme), getattr(ground, scheme))
            assert ratio >= 4.5, (name, ratio)  # WCAG AA
    for kind, (fill, _) in palette.KINDS.items():
        assert contrast(getattr(palette.INK, scheme), getattr(fill, scheme)) >= 7, kind


@pytest.mark.parametrize("scheme", SCHEMES)
def test_larger_weights_stand_out_more(scheme):
    """Luminance goes one way only, so the scale can be read in grey print."""
    ramp = [luminance(colour) for colour in palette.WEIGHTS[scheme]]
    assert ramp == sorted(ramp, reverse=scheme == "light") and len(set(ramp)) == len(ramp)


def test_css_has_both_schemes_of_each_variable():
    css = f"{palette.write_css()}\n{palette.write_series_css()}"
    for name in (
        *("--paper", "--ink", "--series-4"),
        *(r"^\.k-embedding .*--fill", r"^\.k-encoder .*--stroke"),
    ):
        (colours,) = re.findall(rf"{name}: light-dark\(([^)]+)\);", css, re.MULTILINE)
        light, dark = colours.split(", ")
        assert luminance(light) != luminance(dark)
    assert set(re.findall(r"var\(--([\w-]+)\)", css)) <= set(re.findall(r"--([\w-]+):", css))


@pytest.mark.parametrize(
    "style",
    [
        files("kbert.show.explorer") / "page/style.css",
        files("kbert.show.explorer") / "page/attention/attention.css",
        files("kbert.training.run") / "report.css",
    ],
)
def test_pages_define_no_colours(style):
    assert not re.findall(r"--[\w-]+:[^;]*#[0-9a-f]{3}", style.read_text(encoding="utf-8"))
