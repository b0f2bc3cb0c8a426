"""The commands and what becomes of errors: one sentence and exit 2, never a traceback, never a cell."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from perinstance.cli.audit_command import audit
from perinstance.cli.demo_command import demo
from perinstance.cli.explain_command import explain
from perinstance.cli.ledger_command import app as ledger
from perinstance.cli.notices import announcing
from perinstance.cli.release_command import release
from perinstance.cli.reproduce_command import reproduce
from perinstance.cli.warm_up_command import warm_up

app = typer.Typer(
    name="perinstance",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # its tracebacks show local variables, which hold people's rows
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What did this release cost each person? The exact privacy loss of everybody in a published regression.",
)
app.command()(audit)
app.command()(release)
app.command()(demo)
app.command()(explain)
app.command()(reproduce)
app.command("warm-up")(warm_up)
app.add_typer(ledger, name="ledger")


def version(show: bool) -> None:
    """Print the version and stop."""
    if show:
        from perinstance import __version__

        typer.echo(f"perinstance {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Show the version."),
) -> None:
    """What did this release cost each person? The exact privacy loss of everybody in a published regression."""


def main() -> None:
    """Run the command line: exit 0 fine, 1 a limit asked for is exceeded, 2 bad input."""
    from perinstance.errors import PerinstanceError

    try:
        with announcing():
            app()
    except PerinstanceError as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("interrupted; nothing half-written was left behind", 130)
    except BrokenPipeError:
        # Whoever read our output has left; without this Python would complain once more while shutting down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except MemoryError:
        _stop("out of memory; pass a Parquet file, which is read block by block")
    except OSError as error:
        place = f" ({os.path.basename(str(error.filename))})" if error.filename else ""
        _stop(f"{error.strerror or 'the system refused'}{place}; check the path and its permissions")
    except Exception as error:
        # The text of an unforeseen error may quote a cell: name its type and place only.
        last = traceback.extract_tb(error.__traceback__)[-1]
        _stop(
            f"unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line {last.lineno}; "
            "this is a bug of perinstance: please report this line (it carries no data)"
        )


def _stop(sentence: str, code: int = 2) -> None:
    """Print one sentence where errors go and leave."""
    print(f"perinstance: {sentence}", file=sys.stderr)
    raise SystemExit(code) from None
