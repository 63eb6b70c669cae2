"""The command line. Each command is one module, imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

from rowgate import __version__

COMMANDS = {
    "serve": ("rowgate.cli.serve:serve", "Run the gateway."),
    "demo": ("rowgate.cli.demo:demo", "Run the gateway with an embedded database, sign-in and example."),
    "config": ("rowgate.cli.config:config", "Validate and show the configuration."),
    "access": ("rowgate.cli.access:access", "Print who may use what."),
    "explain": ("rowgate.cli.explain:explain", "Print the decision about one call, step by step."),
    "api-keys": ("rowgate.cli.api_keys:api_keys", "Make API keys for applications."),
    "limits": ("rowgate.cli.limits:limits", "Prepare a database for counting requests."),
    "plugin": ("rowgate.cli.plugin:plugin", "Check what a plugin refuses."),
    "health": ("rowgate.cli.health:health", "Ask a running gateway whether it is ready."),
}


class LazyGroup(click.Group):
    """Lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rowgate")
@click.option(
    "--config",
    "config_path",
    metavar="PATH",
    default="config.yaml",
    envvar="ROWGATE_CONFIG",
    show_envvar=True,
    show_default=True,
    help="Configuration file.",
)
@click.pass_context
def main(context: click.Context, config_path: str) -> None:
    """rowgate: an authenticating reverse proxy for MCP in front of Supabase applications."""
    context.obj = config_path
