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
    | \$\([^()]{{1,200}}\)                 # make, Tekton, shells
    | %\{{[^{{}}]{{1,200}}\}}              # Terraform's directives
    | %\({_NAME}\)s                       # Python
    | <path:[^<>]{{1,200}}>               # Argo CD's plugin for Vault
    | \b(?:ref\+[a-z]{{1,20}}|op)://\S{{1,200}}      # helmfile, 1Password
    | \bvault:[\w/.-]{{1,200}}\#\S{{1,200}}          # Bank-Vaults
    | \bENC\[AES256_GCM,[^\[\]]{{1,2000}}\]         # SOPS
    | \$[A-Za-z_]\w{{0,63}}               # shells
    | \#\{{{_NAME}\}}\#?                  # Azure DevOps, Octopus
    | \{{[A-Za-z_]\w{{0,63}}\}}           # Python
    | \[\[[^\[\]]{{1,200}}\]\]            # Consul
    | \$\[[^\[\]]{{1,200}}\]             # Azure DevOps, when it runs
    | \(\({_NAME}\)\)                   # Concourse
    | %[A-Z][A-Z0-9_]{{1,63}}%            # Windows
    | @@?[A-Z][A-Z0-9_]{{1,63}}@@?        # autoconf, Maven
    | @@{_NAME}@@
    | \#\#{_NAME}\#\#
    | __[A-Z][A-Z0-9_]{{0,63}}__
    | <<?[A-Za-z_][\w .-]{{0,63}}>>?      # written by hand, as what follows
    | \[[A-Z][A-Z0-9_]{{2,63}}\]
    | (?<![A-Za-z0-9])(?i:your[_-][a-z][a-z0-9_-]{{1,63}}|(?:replace|change|fill)[_-]me)(?![A-Za-z0-9])
    | (?<![A-Za-z0-9])(?:(?:REPLACE|CHANGE)ME|(?:REPLACE_WITH|INSERT)_\w{{1,63}})(?![A-Za-z0-9])
    | (?<![A-Za-z0-9])(?:[A-Z][A-Z0-9]{{0,31}}_){{0,4}}PLACEHOLDER(?![A-Za-z0-9])
    | (?<![a-z])(?:ami|cr|pg|sg|snap|subnet|vpc)-[xX]{{3,17}}(?![A-Za-z0-9])
    | (?<![A-Za-z0-9])[xX]{{4,17}}(?![A-Za-z0-9])
    """,
    re.VERBOSE,
)
# Of these a file is no YAML, or another one, until they are replaced; the others are texts.
_OF_TEMPLATES: Final = re.compile(
    r"\{\{.{1,200}?\}\}|\{%.{1,200}?%\}|%\{.{1,200}?\}|[:-] +(?:%[A-Z][A-Z0-9_]{1,63}%|@@?[A-Z][A-Z0-9_]{1,63}@@?)"
)
# ytt writes what a value is to be into a comment: the file is YAML, and its values are absent.
_OF_YTT: Final = re.compile(r"(?:[:-]|^) *#@ +\S.{0,199}")
_MOST_NAMED: Final = 20


def unrendered(text: str, source: str) -> list[Problem]:
    """Return the parts that make a text no YAML because it is the template of one, the first of each line."""
    return _named(_OF_TEMPLATES, text, source)


def commented(text: str, source: str) -> list[Problem]:
    """Return the values that stand in comments, for ytt to put in their place, the first of each line."""
    return _named(_OF_YTT, text, source)


def _named(pattern: re.Pattern[str], text: str, source: str) -> list[Problem]:
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        part = pattern.search(line)
        if part is not None:
            name = part[0].lstrip(":- ")
            message = f"holds {name}, which nothing has replaced: render the template first"
            found.append(Problem("", "placeholder", message, number, source=source))
    return found[:_MOST_NAMED]
