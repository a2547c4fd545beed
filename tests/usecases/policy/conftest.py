import pytest

from tests.fakes.stores.policy_store import MemoryPolicyStore


@pytest.fixture
def store() -> MemoryPolicyStore:
    return MemoryPolicyStore()
