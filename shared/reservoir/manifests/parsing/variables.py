"""What whoever made a file should have replaced, in the forms of the tools that replace it."""

import re
from typing import Final

from reservoir.manifests.parsing.problems import Problem

_NAME: Final = r"[A-Za-z_][\w.-]{0,63}"
VARIABLE: Final = re.compile(
    rf"""
      \$?\{{\{{.{{1,200}}?\}}\}}          # Helm, Jinja, GitHub
    | \{{%.{{1,200}}?%\}}                 # Jinja
    | <%.{{1,200}}?%>                     # ERB
    | \$\{{[^{{}}]{{1,200}}\}}            # shells, Terraform
    | \$\({_NAME}\)                       # make, Tekton
    | \$[A-Za-z_]\w{{0,63}}               # shells
    | \#\{{{_NAME}\}}\#?                  # Azure DevOps, Octopus
    | \{{[A-Za-z_]\w{{0,63}}\}}           # Python
    | \[\[\s*{_NAME}\s*\]\]               # Consul
    | \$\[[^\[\]]{{1,200}}\]             # Azure DevOps, when it runs
    | \(\({_NAME}\)\)                   # Concourse
    | %[A-Z][A-Z0-9_]{{1,63}}%            # Windows
    | @@?[A-Z][A-Z0-9_]{{1,63}}@@?        # autoconf, Maven
    | @@{_NAME}@@
    | \#\#{_NAME}\#\#
    | __[A-Z][A-Z0-9_]{{0,63}}__
    | <<?[A-Za-z_][\w .-]{{0,63}}>>?      # written by hand, as what follows
    | \[[A-Z][A-Z0-9_]{{2,63}}\]
    | (?<![A-Za-z0-9])(?:YOUR_[A-Z0-9_]{{1,63}}|(?:REPLACE|CHANGE)_?ME|REPLACE_WITH_\w{{1,63}})(?![A-Za-z0-9])
    | (?<![A-Za-z0-9])(?:your-[a-z][a-z0-9-]{{1,63}}|(?:replace|change)-me)(?![A-Za-z0-9])
    | (?<![a-z])(?:ami|cr|pg|sg|snap|subnet|vpc)-[xX]{{3,17}}(?![A-Za-z0-9])
    | (?<![A-Za-z0-9])[xX]{{4,17}}(?![A-Za-z0-9])
    """,
    re.VERBOSE,
)
# Of these a file is no YAML, or another one, until they are replaced; the others are texts.
_OF_TEMPLATES: Final = re.compile(
    r"\{\{.{1,200}?\}\}|\{%.{1,200}?%\}|[:-] +(?:%[A-Z][A-Z0-9_]{1,63}%|@@?[A-Z][A-Z0-9_]{1,63}@@?)"
)
_MOST_NAMED: Final = 20


def unrendered(text: str, source: str) -> list[Problem]:
    """Return the parts that make a text no YAML because it is the template of one, the first of each line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        part = _OF_TEMPLATES.search(line)
        if part is not None:
            name = part[0].lstrip(":- ")
            message = f"holds {name}, which nothing has replaced: render the template first"
            found.append(Problem("", "placeholder", message, number, source=source))
    return found[:_MOST_NAMED]
