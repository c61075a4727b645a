"""What the benchmark of a GPU has found, as lines and as one table of floors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Found = dict[str, Any]
BATCHES = (2048, 16384)
_FLOORS = {2048: 6e6, 16384: 15e6}
_AGAINST = {"hybrid": {2048: 25, 16384: 50}, "fbgemm": {2048: 8, 16384: 3}}
_NAMES = {"hybrid": "plain PyTorch hybrid", "fbgemm": "FBGEMM UVM caching, 5 % of rows"}
CLAIMS = {
    "plain": "the baseline of the papers",
    "fae": "1.5x a CPU-GPU baseline, 2.3x a CPU one",
    "hotline": "2.2x Intel-optimized DLRM",
    "bagpipe": "up to 5.6x, in a cluster",
    "slipstream": "2x XDL, 1.2x FAE, 1.175x Hotline",
    "fast": "",
}


class Goal(NamedTuple):
    """A floor, and what was reached; None where it was not measured."""

    what: str
    floor: float
    reached: float | None = None
    unit: str = "x"

    @property
    def line(self) -> str:
        """One line of the table."""
        head = f"{self.what:66} {_shown(self.floor, self.unit):>9}"
        if self.reached is None:
            return f"{head} {'-':>10} {'-':>7}  not measured"
        ratio = self.reached / self.floor
        verdict = "reached" if ratio >= 1 else "MISSED"
        return f"{head} {_shown(self.reached, self.unit):>10} {ratio:7.2f}  {verdict}"


def _shown(value: float, unit: str) -> str:
    return f"{value / 1e6:.2f} M/s" if unit == "M/s" else f"{value:.2f}{unit}"


def head(one: Found) -> str:
    """What a contender is called."""
    name = one.get("strategy") or " ".join([one["part"], one.get("of", "")]).strip()
    name += f" skip {one['rule']}" if "rule" in one else ""
    words = [name, f"{one['exponent']:g}", str(one.get("optimizer", ""))]
    words += [f"dim {one['dim']}" if one.get("dim", 16) != 16 else "", one.get("memory") or ""]
    words += [one.get("precision", ""), one.get("way", "")]
    return f"{' '.join(word for word in words if word):44} {one['batch']:>7,}"


COLUMNS = f"{'':44} {'batch':>7} {'samples/s':>11} {'wall ms':>8} {'busy':>7} {'copies':>7} "
COLUMNS += f"{'misses':>7} {'hits':>6} {'bytes':>6} {'MiB':>7} {'estimate':>8} {'AUC':>7}"


def line(one: Found) -> str:
    """What was found of a contender."""
    if "why_not" in one and not one.get("samples_per_second"):
        return f"{head(one)}  not measured: {one['why_not'][:160]}"
    cells = [f"{one['samples_per_second'] / 1e6:9.3f} M"]
    for key, form, width in (
        *(("wall_ms", ".3f", 8), ("busy_ms", ".3f", 7), ("copies_ms", ".3f", 7)),
        *(("misses", ".3f", 7), ("hit_rate", ".3f", 6), ("bytes", ".0f", 6)),
        *(("device_mib", ".0f", 7), ("estimate_mib", ".0f", 8), ("auc", ".4f", 7)),
    ):
        value = one.get(key)
        cells.append(f"{'' if value is None else format(value, form):>{width}}")
    return f"{head(one)} {' '.join(cells)}"


def goals(found: Sequence[Found]) -> Iterator[Goal]:
    """Every floor with what was reached, as far as it was measured."""
    for exponent in (1.05, 1.1):
        for batch in BATCHES:
            for optimizer in ("rowwise_adagrad", "sgd"):
                rate = _rate(found, "fast", exponent, batch, optimizer=optimizer)
                what = f"5 % in HBM, exponent {exponent:g}, {optimizer}, batch {batch:,}"
                yield Goal(what, _FLOORS[batch], rate, "M/s")
            rate = _rate(found, "fast", exponent, batch, optimizer="rowwise_adagrad")
            for peer, floors in _AGAINST.items():
                other = _rate(found, peer, exponent, batch)
                what = f"  against {_NAMES[peer]}, batch {batch:,}"
                yield Goal(what, floors[batch], _ratio(rate, other))
            whole = _rate(found, "resident", exponent, batch)
            what = f"  against all rows in HBM, batch {batch:,}"
            yield Goal(what, 0.95, _ratio(rate, whole))
    large = _rate(found, "dim64", 1.05, 16384, memory="5%")
    yield Goal("dim 64, 5 % in HBM, batch 16,384", 8e6, large, "M/s")
    fits = _rate(found, "dim64", 1.05, 16384, memory="100%")
    terabyte = _rate(found, "terabyte", 1.05, 16384)
    what = "Terabyte shape, dim 64, 2 GiB of HBM, against tables that fit"
    yield Goal(what, 0.8, _ratio(terabyte, fits))
    best = max((one.get("samples_per_second", 0.0) for one in _of(found, "fast")), default=None)
    yield Goal("the aim: batch 16,384, the best of all", 40e6, best or None, "M/s")
    wrong = [_off(one) for one in found if one.get("device_mib") and one.get("estimate_mib")]
    within = min((1.1 / max(1.1, 1 + one) for one in wrong), default=None)
    yield Goal("`estimate` of device memory within 10 %, the worst", 1.0, within)


def _off(one: Found) -> float:
    return abs(one["estimate_mib"] / one["device_mib"] - 1)


def _of(found: Sequence[Found], part: str) -> list[Found]:
    return [one for one in found if one["part"] == part]


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _rate(
    found: Sequence[Found], part: str, exponent: float, batch: int, **others: Any
) -> float | None:
    """Samples a second: of several runs of one kind the mean."""
    same = {"exponent": exponent, "full_batch": batch, **others}
    mine = (one for one in _of(found, part) if all(one.get(k) == v for k, v in same.items()))
    rates = [one["samples_per_second"] for one in mine if one.get("samples_per_second")]
    return sum(rates) / len(rates) if rates else None


def by_strategy(found: Sequence[Found]) -> Iterator[str]:
    """For each strategy the time of a million inputs, beside what its paper claims."""
    some = [one for one in _of(found, "strategies") if one.get("samples_per_second")]
    if not some:
        return
    plain = next((one for one in some if one["strategy"] == "plain"), None)
    yield f"{'strategy':12} {'s a million':>11} {'of plain':>9} {'bytes':>7} {'hits':>7} {'trained':>8} {'AUC':>7}  the paper"  # noqa: E501
    for one in some:
        seconds = 1e6 / one["samples_per_second"]
        times = "" if plain is None else f"{1e6 / plain['samples_per_second'] / seconds:.2f}x"
        hits = "" if one["hit_rate"] is None else f"{one['hit_rate']:.3f}"
        yield (
            f"{one['strategy']:12} {seconds:11.4f} {times:>9} {one['bytes']:7.0f} {hits:>7} "
            f"{one['trained_share']:8.3f} {one['auc'] or 0:7.4f}  {CLAIMS[one['strategy']]}"
        )


def by_rule(found: Sequence[Found]) -> Iterator[str]:
    """For each rule how fast the log is passed through, beside training on all of it."""
    some = [one for one in _of(found, "skipping") if one.get("samples_per_second")]
    if not some:
        return
    yield f"{'rule':12} {'dim':>4} {'log, inputs/s':>14} {'of none':>8} {'trained':>8} {'AUC':>7}"
    for one in some:
        dim = one.get("dim", 16)
        all_of_it = next((o for o in some if o["rule"] == "none" and o.get("dim", 16) == dim), None)
        rate = one["samples_per_second"]
        times = "" if all_of_it is None else f"{rate / all_of_it['samples_per_second']:.2f}x"
        yield (
            f"{one['rule']:12} {dim:4} {rate / 1e6:12.2f} M {times:>8} "
            f"{one['trained_share']:8.3f} {one['auc'] or 0:7.4f}"
        )
