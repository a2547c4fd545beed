import pytest

from lab.fakes.stores.policy_store import MemoryPolicyStore


@pytest.fixture
def store() -> MemoryPolicyStore:
    return MemoryPolicyStore()
