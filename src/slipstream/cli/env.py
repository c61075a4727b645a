"""`slipstream env`: what a bug report needs."""

from __future__ import annotations

import json

import typer

from slipstream.cli.terminal import print_line


def env(
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Print versions, processor, memory and devices: what a bug report needs.

    Example: slipstream env
    """
    from slipstream.analyze.environment import environment, summary_line

    facts = environment()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    print_line(f"slipstream {facts['slipstream']}, Python {facts['python']}, {facts['system']}")
    print_line(summary_line(facts))
    if "torch_error" in facts:
        print_line(f"torch cannot be imported: {facts['torch_error']}")
    else:
        cuda = f"CUDA {facts['cuda']}" if facts["cuda"] else "torch is built without CUDA"
        print_line(f"torch uses {facts['threads']} threads, {cuda}")
    print_line(", ".join(f"{name} {version}" for name, version in facts["packages"].items()))
    if facts["variables"]:
        print_line(", ".join(f"{name}={value}" for name, value in facts["variables"].items()))
