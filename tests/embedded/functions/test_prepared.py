"""Environments are forked from a process that has loaded the layers, and no function can tell."""

import io
import os
import signal
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest

from tests.embedded.conftest import Resources, unique, until
from tests.embedded.test_host import is_running

pytestmark = pytest.mark.embedded

LIBRARY = {
    "python/library/__init__.py": "import os\nhits = 0\n",
    "python/library/setting.py": "import os\nVALUE = os.environ.get('SETTING')\n",
    "python/library/everything.py": "import os\nCOPY = dict(os.environ)\n",
    "python/library/broken.py": "raise RuntimeError('this never loads')\n",
}


class Layered:
    """Functions with a layer of their own, and with what prepares it: an environment that has loaded ``loaded``."""

    def __init__(self, resources: Resources, loaded: str = "library") -> None:
        self.resources = resources
        name = unique("layer")
        files = {**LIBRARY, f"python/{name}.txt": "no layer is like another"}
        published = resources.lambda_.publish_layer_version(
            LayerName=name, Content={"ZipFile": packed(files)}
        )
        self.layer = published["LayerVersionArn"]
        self.parent = self.call(
            f"import os, {loaded}\ndef handle(event, context): return os.getppid()"
        )
        assert self.parent != resources.aws.pid

    def make(self, source: str, **variables: str) -> str:
        name = self.resources.function(source, timeout_s=300, **variables)
        self.resources.lambda_.update_function_configuration(
            FunctionName=name, Layers=[self.layer]
        )
        return name

    def call(self, source: str, **variables: str) -> Any:
        answer, failed = self.resources.invoke(self.make(source, **variables), {})
        assert not failed, answer
        return answer


def packed(files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()


def test_functions_with_the_same_layers_are_forked_from_one_process(
    resources: Resources,
) -> None:
    layered = Layered(resources)
    source = "import os, sys\ndef handle(event, context): return [os.getppid(), 'library' in sys.modules]"
    # loaded, although this function does not ask for it
    assert layered.call(source) == [layered.parent, True]
    other = Layered(resources)
    assert other.parent != layered.parent


def test_no_function_sees_what_another_did_to_a_module(resources: Resources) -> None:
    layered = Layered(resources)
    source = (
        "import library\nlibrary.hits += 1\ndef handle(event, context): return library.hits"
    )
    assert [layered.call(source) for _ in range(3)] == [1, 1, 1]


def test_a_package_that_is_in_no_layer_is_missing_whatever_others_have(
    resources: Resources,
) -> None:
    layered = Layered(resources)
    source = "import library\ndef handle(event, context): pass"
    assert layered.call(source) is None
    answer, failed = resources.invoke(resources.function(source), {})
    assert failed
    assert answer["errorType"] == "Runtime.ImportModuleError"


def test_code_that_brings_a_package_of_its_own_gets_that_one(resources: Resources) -> None:
    layered = Layered(resources)
    name = layered.make("def handle(event, context): pass")
    own = {
        "handler.py": "import library\ndef handle(event, context): return library.mine",
        "library.py": "mine = True",
    }
    resources.lambda_.update_function_code(FunctionName=name, ZipFile=packed(own))
    assert resources.invoke(name, {}) == (True, False)


def test_a_module_that_reads_a_variable_while_it_is_loaded_reads_that_of_its_function(
    resources: Resources,
) -> None:
    layered = Layered(resources, "library.setting")
    source = (
        "import library.setting\ndef handle(event, context): return library.setting.VALUE"
    )
    assert layered.call(source) is None
    assert [layered.call(source, SETTING=value) for value in ("one", "two")] == [
        "one",
        "two",
    ]


def test_a_module_that_reads_all_variables_reads_those_of_its_function(
    resources: Resources,
) -> None:
    layered = Layered(resources)
    source = "import library.everything\ndef handle(event, context): return library.everything.COPY.get('SETTING')"
    assert [layered.call(source, SETTING=value) for value in ("one", "two", "three")] == [
        "one",
        "two",
        "three",
    ]


def test_what_the_interpreter_reads_is_read_by_one_of_its_own(resources: Resources) -> None:
    layered = Layered(resources)
    source = "import os, sys\ndef handle(event, context): return [os.getppid(), sys.flags.utf8_mode]"
    parent, utf8_mode = layered.call(source, PYTHONUTF8="1")
    assert parent == resources.aws.pid
    assert utf8_mode == 1


def test_a_layer_that_cannot_be_loaded_fails_each_environment(resources: Resources) -> None:
    layered = Layered(resources)
    name = layered.make("import library.broken\ndef handle(event, context): pass")
    for _ in range(2):
        answer, failed = resources.invoke(name, {})
        assert failed
        assert answer["errorMessage"] == "this never loads"
    assert (
        layered.call("import library\ndef handle(event, context): return library.hits") == 0
    )


def test_environments_draw_random_numbers_of_their_own(resources: Resources) -> None:
    layered = Layered(resources)
    source = (
        "import random, uuid\n"
        "DRAWN = [random.random(), str(uuid.uuid4())]\n"
        "def handle(event, context): return DRAWN"
    )
    first, second = layered.call(source), layered.call(source)
    assert not set(first) & set(second)


def test_environments_and_their_parent_end_when_the_account_is_made_empty(
    resources: Resources,
) -> None:
    layered = Layered(resources)
    pid = layered.call("import os\ndef handle(event, context): return os.getpid()")
    assert is_running(pid)
    resources.aws.reset()
    until(lambda: not is_running(pid) and not is_running(layered.parent))


def test_what_is_killed_is_told_as_ever(resources: Resources) -> None:
    layered = Layered(resources)
    name = layered.make(
        "import os, signal\ndef handle(event, context): os.kill(os.getpid(), signal.SIGKILL)"
    )
    answer, failed = resources.invoke(name, {})
    assert failed
    assert answer["errorMessage"].endswith("Runtime exited with error: signal: SIGKILL")


def test_functions_run_when_the_prepared_process_is_gone(resources: Resources) -> None:
    layered = Layered(resources)
    os.kill(layered.parent, signal.SIGKILL)
    source = "import os, library\ndef handle(event, context): return os.getppid()"
    assert layered.call(source) == resources.aws.pid
    resources.aws.reset()
