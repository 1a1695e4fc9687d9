"""Several values for one setting make several rows: all combinations, in a fixed order, none twice.

Policies come first (reservations before paged, as in the published table), then block sizes, then the other settings in
the order of ``Experiment``. What a policy takes no notice of makes no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from kvtop.lab.experiment import Experiment

POLICIES = ("reserve-max-model-len", "reserve-prompt-max-tokens", "paged")
PUBLISHED_BLOCK_SIZES = (256, 16)
DEFAULTS: Mapping[str, tuple[Any, ...]] = {"policy": POLICIES, "block_size": PUBLISHED_BLOCK_SIZES}
_FIXED = ("lookahead_slots", "region_block_size")
SETTINGS = tuple(field.name for field in fields(Experiment) if field.name not in _FIXED)
_STANDARD = Experiment()


def combinations(values: Mapping[str, Sequence[Any]]) -> list[Experiment]:
    """The experiments for ``values``, by setting; a setting that is not there has its default (all four rows of the
    published table, if nothing is given)."""
    lists = [values.get(name) or DEFAULTS.get(name) or (getattr(_STANDARD, name),) for name in SETTINGS]
    made = (
        _without_idle_settings(Experiment(**dict(zip(SETTINGS, chosen, strict=True)))) for chosen in product(*lists)
    )
    return list(dict.fromkeys(made))


def _without_idle_settings(experiment: Experiment) -> Experiment:
    """The experiment with everything that its policy takes no notice of at its default."""
    if experiment.reserves:
        names = ["block_size", "victim", "preempted"]
    else:
        names = ["placement"]
    return replace(experiment, **{name: getattr(_STANDARD, name) for name in names})


def varying(experiments: Sequence[Experiment]) -> list[str]:
    """The settings beside policy and block size in which the rows differ."""
    names = [name for name in SETTINGS if name not in ("policy", "block_size")]
    return [name for name in names if len({getattr(experiment, name) for experiment in experiments}) > 1]
