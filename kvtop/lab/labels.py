"""What an experiment is called, in tables and over the lab's lanes."""

from __future__ import annotations

from collections.abc import Sequence

from kvtop.lab.experiment import Experiment

_POLICY_WORDS = {
    "reserve-max-model-len": "reserve max_model_len",
    "reserve-prompt-max-tokens": "reserve prompt + max_tokens",
}
_SETTING_WORDS = {
    "placement": "",
    "output_median": "median answer",
    "preempted": "preempted ones",
    "pool_tokens": "pool of",
}


def policy_words(policy: str) -> str:
    return _POLICY_WORDS.get(policy, policy)


def experiment_label(experiment: Experiment, varying: Sequence[str]) -> str:
    """Policy and block size, then the ``varying`` settings with their values."""
    words = _POLICY_WORDS.get(experiment.policy, f"paged, {experiment.block_size}-token blocks")
    told = (name for name in varying if name != "placement" or experiment.reserves)
    settings = (f"{_SETTING_WORDS.get(name, name)} {_value(experiment, name)}".strip() for name in told)
    return ", ".join([words, *settings])


def _value(experiment: Experiment, name: str) -> str:
    value = getattr(experiment, name)
    if name == "watermark":
        return f"{100 * value:g}%"
    if name == "output_median" and value is None:
        return "122"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
