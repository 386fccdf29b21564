"""What is read of the kernel's types before programs are loaded, beside bpftool."""

import pytest

from kernel_delay.host.preflight import BTF
from kernel_delay.loader.features import KernelFeatures, read_kernel_features
from tests.requirements.btf import Types

pytestmark = pytest.mark.skipif(not BTF.exists(), reason="this kernel has no BTF")


@pytest.fixture(scope="module")
def types() -> Types:
    return Types.read(BTF)


@pytest.fixture(scope="module")
def features() -> KernelFeatures:
    return read_kernel_features()


def names_in(types: Types, kind: str, name: str) -> set[str]:
    """The members or enumerators of the first type of that kind and name."""
    found = next((each for each in types.named.get(name, ()) if each.kind == kind), None)
    return {each.name for each in (*found.members, *found.values)} if found else set()


def test_members_are_those_bpftool_finds(types: Types, features: KernelFeatures) -> None:
    flavored = "srcu_reader_flavor" in names_in(types, "STRUCT", "srcu_struct")
    sleeps = "might_sleep" in names_in(types, "STRUCT", "bpf_subprog_info")
    assert (features.preempts_tracepoints, features.calls_unpreempted) == (flavored, sleeps)


def test_helpers_are_those_bpftool_finds(types: Types, features: KernelFeatures) -> None:
    helpers = names_in(types, "ENUM", "bpf_func_id")
    assert features.reads_other_processes == ("BPF_FUNC_copy_from_user_task" in helpers)
    assert features.knows_earlier_calls == ("BPF_FUNC_task_pt_regs" in helpers)


def test_count_of_contexts_is_where_bpftool_finds_it(
    types: Types, features: KernelFeatures
) -> None:
    sections = types.named.get(".data..percpu", ())
    places = {types[each.type_id].name: each.offset for one in sections for each in one.vars}
    if not {"__preempt_count", "runqueues"} <= places.keys():
        pytest.skip("this kernel keeps it elsewhere")
    assert features.contexts_distance == places["__preempt_count"] - places["runqueues"]
