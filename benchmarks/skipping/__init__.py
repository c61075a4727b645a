"""The AUC that each skip rule costs: the table of docs/skipping.md.

    python -m benchmarks.skipping [--share 0.3] [--seeds 3] [--jobs 2] [--minutes M]
        [--rules RULE ...] [--settings TEXT] [--log FOLDER] [--out FOLDER] [--docs FILE]

Every run is compared with full training from the same first weights on the same examples, and both
are scored on the same examples against the true chances of built-in data. Where the data drift, and
on a log (--log, a packed data set), a model is scored nine times over the last 40 % of its run on
the examples that come next, and the nine AUCs are averaged. A log is scored against its labels.

Results are lines in FOLDER/results.jsonl; the same command continues after a stop. Begin with a new
folder when the code has changed.
"""
