"""Logs of NCCL: how ranks are joined, in the forms of 2.4 to 2.27."""

from __future__ import annotations

import pytest

from stepscope.model.log import Nccl
from stepscope.sources.catalog.log_nccl import bus_id
from stepscope.sources.log import read_log

PREFIX = "node1:100:200 [0] NCCL INFO "


def nccl_of(*lines: str) -> Nccl:
    nccl = read_log("nccl.log", data="\n".join(lines).encode()).nccl
    assert nccl is not None
    return nccl


def test_a_log_states_version_network_nics_ranks_devices_and_channels() -> None:
    nccl = nccl_of(
        "NCCL version 2.21.5+cuda12.4",
        PREFIX + "Bootstrap : Using eth0:10.0.0.1<0>",
        PREFIX + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        PREFIX + "Using network IB",
        PREFIX + "NCCL_IB_GID_INDEX set by environment to 3.",
        PREFIX
        + "ncclCommInitRank comm 0x55f2a1 rank 0 nranks 16 cudaDev 0 nvmlDev 3 busId 3b000 commId 0x1a - "
        "Init START",
        PREFIX + "comm 0x55f2a1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        PREFIX + "Channel 00/16 :    0   1   2   3",
        PREFIX
        + "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        PREFIX + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        PREFIX + "Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
        PREFIX + "Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        PREFIX + "Channel 00/0 : 0[0] -> 15[7] [send] via NET/IB/0(1)/GDRDMA/Shared",
        PREFIX + "AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..7}",
    )
    assert nccl == Nccl(
        version="2.21.5+cuda12.4",
        transports={"P2P/CUMEM": 2, "NET/IB": 1},
        network="IB",
        nics=("mlx5_0:1/IB", "mlx5_bond_1:1/RoCE"),
        is_p2p_disabled=False,
        has_gdr=True,
        num_nodes=2,
        num_ranks=16,
        num_channels=16,
        algorithms=("RING/SIMPLE",),
        variables={"NCCL_IB_GID_INDEX": "3"},
        devices={0: "0000:3b:00.0"},
        device_index={0: 3},
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Ring 00 : 0[0] -> 1[1] via P2P/IPC", "P2P/IPC"),
        ("Channel 00 : 0[1b000] -> 1[1c000] via P2P/direct pointer", "P2P/direct pointer"),
        ("Channel 00 : 0[1b000] -> 1[1c000] via direct shared memory", "SHM"),
        ("Channel 02/0 : 0[0] -> 1[1] via SHM/direct/direct", "SHM"),
        ("Channel 02/1 : 0[0] -> 1[1] via P2P/CUMEM comm 0x55f2a1 nRanks 02", "P2P/CUMEM"),
        ("Ring 00 : 3 -> 4 [send] via NET/Socket/0", "NET/Socket"),
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", "NET/AWS Libfabric"),
    ],
)
def test_a_channel_says_how_it_is_joined(line: str, kind: str) -> None:
    assert nccl_of(PREFIX + line).transports == {kind: 1}


@pytest.mark.parametrize(
    ("lines", "is_off"),
    [
        (["P2P is disabled between connected GPUs 1 and 0. You can repress this message"], True),
        (["NCCL_P2P_DISABLE set by environment to 1."], True),
        (["NCCL_P2P_DISABLE set to 1"], True),
        (["Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read"], False),
        (["Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct"], None),
    ],
)
def test_p2p_is_off_where_the_log_says_so(lines: list[str], is_off: bool | None) -> None:
    assert nccl_of(*(PREFIX + line for line in lines)).is_p2p_disabled is is_off


@pytest.mark.parametrize(
    ("lines", "has_gdr"),
    [
        (["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"], False),
        (["NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 0 'mlx5_0'"], True),
        # What channels use counts for more than what could be.
        (["NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0"], False),
        (["Using network Socket"], None),
    ],
)  # fmt: skip
def test_gpu_direct_is_told_by_the_channels_first(lines: list[str], has_gdr: bool | None) -> None:
    assert nccl_of(*(PREFIX + line for line in lines)).has_gdr is has_gdr


def test_a_torn_line_gives_no_device() -> None:
    line = "comm 0x55 rank {} nranks 8 cudaDev {} nvmlDev {} busId {}"
    nccl = nccl_of(
        PREFIX + line.format(0, 0, 0, "53node1:101:201 [6] NCCL INFO x"),
        PREFIX + line.format(2, 2, 2, "752.19, bootstrap 0.07, allgathers 0.01)"),
        PREFIX + line.format(1, 1, 1, "97000 - Init COMPLETE"),
    )
    assert nccl.devices == {1: "0000:97:00.0"}


def test_ranks_within_a_group_are_not_taken_for_ranks_of_the_job() -> None:
    line = "comm 0x5{} rank {} nranks {} cudaDev 0 nvmlDev {} busId {}000 commId 0x1 - Init START"
    nccl = nccl_of(PREFIX + line.format(1, 5, 8, 5, "8d"), PREFIX + line.format(2, 0, 2, 5, "8d"))
    assert (nccl.num_ranks, nccl.devices, nccl.device_index) == (8, {5: "0000:8d:00.0"}, {5: 5})


def test_a_file_of_one_process_names_its_rank_and_host() -> None:
    line = (
        "ncclCommInitRank comm 0x51 rank 5 nranks 8 cudaDev 5 nvmlDev 5 busId 8d000 commId 0x1 - Init START"
    )
    log = read_log("nccl.5.log", data=(PREFIX + line).encode())
    assert (log.format, log.rank, log.host) == ("nccl", 5, "node1")
    both = read_log("nccl.log", data=(PREFIX + line + "\nnode2:300:301 [0] NCCL INFO x").encode())
    assert (both.rank, both.host) == (None, None)


def test_a_warning_that_says_a_failure_is_an_event_and_others_are_kept() -> None:
    log = read_log(
        "nccl.log",
        data=(
            b"node1:100:210 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
            b"10.0.0.2<33234> with status=12 opcode=0 len=0 vendor err 129\n"
            b'[2025-05-01 12:00:00] node1:100:210 [0] NCCL WARN Missing "iommu=pt" from kernel command line\n'
        ),
    )
    assert log.nccl is not None
    assert [warning[:20] for warning in log.nccl.warnings] == ["NET/IB : Got complet", 'Missing "iommu=pt" f']
    assert [(event.what, event.code, event.line) for event in log.events] == [("nccl_error", 12, 1)]


def test_rccl_is_read_as_nccl_is() -> None:
    assert nccl_of("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e", PREFIX + "x").version == "2.18.3+hip6.0"


@pytest.mark.parametrize(
    ("number", "address"),
    [("3b000", "0000:3b:00.0"), ("1e0", "0000:00:1e.0"), ("100000", "0001:00:00.0"), ("7000", "0000:07:00.0"),
     ("80", "0000:00:08.0")],
)  # fmt: skip
def test_a_bus_id_is_written_out(number: str, address: str) -> None:
    assert bus_id(number) == address
