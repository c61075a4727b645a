"""`slipstream env`: what a bug report needs."""

from __future__ import annotations

import json

import typer

from slipstream.commands.terminal import out, says_what_is_wrong


@says_what_is_wrong
def env(
    as_json: bool = typer.Option(False, "--json", help="Print it as JSON instead."),
) -> None:
    """Print versions, processor, memory and devices: what a bug report needs.

    Example: slipstream env
    """
    from slipstream.environment import environment, in_words

    found = environment()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    out.print(f"slipstream {found['slipstream']}, Python {found['python']}, {found['system']}")
    out.print(in_words(found), soft_wrap=True)
    out.print(f"torch uses {found['threads']} threads, CUDA {found['cuda'] or 'is not built in'}")
    if "torch_error" in found:
        out.print(f"torch cannot be imported: {found['torch_error']}", soft_wrap=True)
    told = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    out.print(told, soft_wrap=True)
    if found["variables"]:
        told = ", ".join(f"{name}={value}" for name, value in found["variables"].items())
        out.print(told, soft_wrap=True)
