"""``reservoir config``: names for deployments, in kubectl's words."""

from typing import Annotated, Final

import typer

from reservoir.cli.console import add_group, fail, messages, output
from reservoir.cli.output import Column, Form, Listing, Output, show
from reservoir.cli.stack.contexts import Context, Contexts, path_of, read, write

_Row = tuple[str, Context, bool]  # its name, and whether it is the current one
_LISTING: Final = Listing[_Row](
    (
        Column("CURRENT", lambda row: "*" if row[2] else ""),
        Column("NAME", lambda row: row[0]),
        Column("STACK", lambda row: row[1].stack),
        Column("REGION", lambda row: row[1].region or "-"),
        Column("PROFILE", lambda row: row[1].profile or "-"),
        Column("ENDPOINT", lambda row: row[1].endpoint_url or "-", is_wide=True),
    ),
    lambda row: row[0],
    lambda row: {
        "name": row[0],
        "current": row[2],
        **row[1].model_dump(by_alias=True, exclude_none=True),
    },
)


def _known_names() -> list[str]:
    from reservoir.cli.stack.contexts import names

    return names()


Name = Annotated[
    str, typer.Argument(help="The name of a context.", autocompletion=_known_names)
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add_group(
        app,
        "config",
        "Give deployments names, and choose one of them.",
        get_contexts,
        current_context,
        use_context,
        set_context,
        delete_context,
    )


def get_contexts(form: Output = Form.TABLE) -> None:
    """List the contexts. The current one has a star."""
    known = read(path_of())
    rows = [
        (name, context, name == known.current_context)
        for name, context in sorted(known.contexts.items())
    ]
    show(rows, _LISTING, form, nothing=f"no contexts in {path_of()}")


def current_context() -> None:
    """Print the name of the current context. Ends with 2 if there is none."""
    current = read(path_of()).current_context
    if current is None:
        fail("there is no current context; reservoir config use-context NAME chooses one")
    output().print(current)


def use_context(name: Name) -> None:
    """Choose the context that commands use where nothing else names a stack."""
    known = read(path_of())
    known.named(name, "use-context")
    write(path_of(), known.model_copy(update={"current_context": name}))
    output().print(f"the current context is {name}")


def set_context(
    name: Name,
    stack: Annotated[
        str | None, typer.Option(help="Name of the deployed stack; a new context needs it.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="AWS region of the stack.")] = None,
    profile: Annotated[str | None, typer.Option(help="AWS profile to use.")] = None,
    endpoint_url: Annotated[
        str | None, typer.Option(help="Where to reach AWS, if not where AWS is.")
    ] = None,
) -> None:
    """Make a context, or change what is given of one. It does not become the current one."""
    known = read(path_of())
    before = known.contexts.get(name)
    if before is None and stack is None:
        fail(f"a new context needs the name of a stack: set-context {name} --stack STACK")
    values = {
        "stack": stack,
        "region": region,
        "profile": profile,
        "endpoint_url": endpoint_url,
    }
    given = {field: value for field, value in values.items() if value is not None}
    context = (before or Context(stack="")).model_copy(update=given)
    _keep(known, {**known.contexts, name: context}, known.current_context)
    output().print(f"context {name} {'changed' if before else 'made'}")


def delete_context(name: Name) -> None:
    """Forget a context. The deployment itself stays as it is."""
    known = read(path_of())
    known.named(name, "delete-context")
    others = {key: context for key, context in known.contexts.items() if key != name}
    current = None if known.current_context == name else known.current_context
    _keep(known, others, current)
    output().print(f"context {name} deleted; its deployment stays as it is")
    if current != known.current_context:
        messages().print("it was the current context; there is none now")


def _keep(known: Contexts, contexts: dict[str, Context], current: str | None) -> None:
    changed = known.model_copy(update={"contexts": contexts, "current_context": current})
    write(path_of(), changed)
