"""What skipping costs and saves: AUC lost against inputs skipped, for every rule and its controls.

    python -m benchmarks.skipping [curves] [method] [overhead] [log]
        [--jobs N] [--minutes M] [--out FOLDER] [--show]

curves: built-in data at 25 % and 3 % positives, stationary and drifting; every rule at three
shares.
method: the published method with its own order of inputs (cold ones first), beside its controls in
the same order; full training in that order is what they are paired with.
overhead: what deciding takes of training time: Criteo-Kaggle shape, default model, batch 2,048.
log: a packed data set of one's own (--log FOLDER), scored against its labels.

Every run is paired with full training from the same first weights on the same inputs in the same
order, and both are scored on the same inputs against the true chances of built-in data (truth.py).
Where nothing drifts these are the evaluation part. Where something does (and on a log), the model
is scored nine times over the last 40 % of the run on the inputs that come next, before it has seen
any of them, and the nine AUCs are averaged (tail.py): what is far ahead has drifted away from any
model, and a single moment is mostly luck.

Seeds are added, all of one before the next, where one more can help: until the standard error of
the loss is at most a tenth of it, or its 95 % interval lies within 0.0002 AUC of nothing, or
--most-seeds or the time is used up (settled.py). Each line says which it was.

Outcomes are lines in FOLDER/results.jsonl. Stop it at any time; the same command goes on. Tables,
pictures and verdicts are of what there is; --show makes them again and measures nothing. Status 1
if a goal is missed, 2 if one could not be judged.
"""
