"""NCCL itself says that it takes another way than the hardware has.

Sockets where there is RDMA, the host's memory between devices that a faster link joins, or peer-to-peer
switched off. Often a variable that somebody set while looking for a hang, or a container that lacks what the
faster way needs. It is constant from the first step on, where congestion comes and goes.
"""

from stepscope.analyse.features.peer import transfer_link_share
from stepscope.analyse.features.telemetry import (
    nccl_host_memory_share,
    nccl_p2p_disabled,
    nccl_socket_share,
    nvlink_in_collectives_link_share,
    pcie_in_collectives_link_share,
    unhidden_transfer_share,
    wrong_way,
)
from stepscope.model.text import Text
from stepscope.rules.capture import TRANSPORT
from stepscope.rules.reference import BUS_INSTEAD, LINK_UNUSED
from stepscope.rules.rule import Layer, Patch, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

NO_LEFTOVERS = Patch(
    kind="env",
    before="NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=eth0",
    after="unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_SOCKET_IFNAME",
)

RULE = Rule(
    id="wrong-transport",
    cause="a transport that is not the fastest there is",
    layer=Layer.FRAMEWORK,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(en="NCCL takes a slower way than the hardware has", zh="NCCL 走的通道慢于硬件所具备的通道"),
    explanation=Text(
        en="Its log names sockets, the host's memory or peer-to-peer switched off where a faster link joins "
        "the devices. Every collective pays for it, in every step.",
        zh="其日志显示：在设备之间有更快链路的情况下走了 socket 或主机内存，或关闭了 P2P。"
        "每一步的每次集合通信都为此付出代价。",
    ),
    when=(wrong_way >= 1, unhidden_transfer_share >= 0.05),
    corroborated_by=(
        nvlink_in_collectives_link_share <= 0.02,
        pcie_in_collectives_link_share >= 0.10,
        transfer_link_share <= 0.20,
    ),
    cost=unhidden_transfer_share,
    readings=(
        Reading(
            Text(
                en="NCCL has peer-to-peer switched off, and takes a slower way between devices",
                zh="NCCL 关闭了 P2P，设备之间走较慢的通道",
            ),
            only_if=(nccl_p2p_disabled >= 1,),
        ),
        Reading(
            Text(
                en="NCCL moves its bytes over sockets, where the hardware has a faster way",
                zh="NCCL 通过 socket 传输，而硬件具备更快的通道",
            ),
            only_if=(nccl_socket_share > 0,),
        ),
        Reading(
            Text(
                en="NCCL moves its bytes through the host's memory, where a faster link joins the devices",
                zh="NCCL 经主机内存传输，而设备之间有更快的链路",
            ),
            only_if=(nccl_host_memory_share > 0,),
        ),
    ),
    checks=(
        Text(
            en="Which NCCL_ variables does the job's environment hold, and who set them?",
            zh="作业环境中有哪些 NCCL_ 变量，由谁设置？",
        ),
        Text(
            en="Does the container see the RDMA devices (/dev/infiniband), may it lock memory (ulimit -l) "
            "and "
            "has it room in /dev/shm?",
            zh="容器是否能看到 RDMA 设备（/dev/infiniband），能否锁定内存（ulimit -l），/dev/shm 是否够大？",
        ),
        Text(
            en="Does nccl-tests between the same devices reach the link's rate? If not, it is the machine "
            "(IOMMU or ACS on, a missing module), and not the job.",
            zh="在同样的设备间 nccl-tests 能否达到链路速率？若不能，是机器的问题（IOMMU 或 ACS 打开、"
            "缺少内核模块），而非作业。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Remove the NCCL variables that were left in the environment: they were for debugging.",
                zh="移除环境中残留的 NCCL 变量：它们是为调试而设的。",
            ),
            clears=wrong_way < 1,
            patch=NO_LEFTOVERS,
        ),
        Remedy(
            Text(
                en="Switch peer-to-peer on again where the machine has it off: IOMMU and PCIe ACS redirect "
                "it "
                "on bare machines.",
                zh="若机器关闭了 P2P，请重新打开：裸机上 IOMMU 与 PCIe ACS 会使其改道。",
            ),
            only_if=(nccl_p2p_disabled >= 1,),
            clears=wrong_way < 1,
            patch=Patch(kind="command", after="nvidia-smi topo -p2p r  # then IOMMU and ACS of the bridges"),
        ),
        Remedy(
            Text(
                en="Give the container the RDMA devices and the right to lock memory, and let NCCL name the "
                "adapters.",
                zh="给容器 RDMA 设备与锁定内存的权限，并让 NCCL 指定网卡。",
            ),
            only_if=(nccl_socket_share > 0,),
            clears=wrong_way < 1,
            patch=Patch(
                kind="command",
                after="docker run --device=/dev/infiniband --ulimit memlock=-1 --shm-size=16g "
                "-e NCCL_IB_HCA=ADAPTERS IMAGE",
            ),
        ),
    ),
    references={
        wrong_way: Text(
            en="our choice, any channel: NCCL's documentation says of these variables that they are for "
            "debugging and may slow a run down",
            zh="自定，只要有一个通道：NCCL 文档（NCCL's documentation）说明这些变量用于调试，可能使运行变慢",
        ),
        unhidden_transfer_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        nvlink_in_collectives_link_share: LINK_UNUSED,
        pcie_in_collectives_link_share: BUS_INSTEAD,
        transfer_link_share: Text(
            en="our choice, a fifth: nccl-tests reach most of the link with large messages",
            zh="自定，五分之一：大消息下 nccl-tests 可达链路的大部分",
        ),
        nccl_p2p_disabled: Text(
            en="NCCL's documentation: its log says so in a line of its own",
            zh="NCCL 文档：其日志有单独一行说明",
        ),
        nccl_socket_share: Text(
            en="any channel at all: one slow channel is waited for by all",
            zh="只要有：所有通道都要等最慢的那个",
        ),
        nccl_host_memory_share: Text(
            en="any channel at all: one slow channel is waited for by all",
            zh="只要有：所有通道都要等最慢的那个",
        ),
    },
    needs=TRANSPORT,
    explains=(
        "exposed-communication",
        "communication-bound",
        "slow-group",
        "slow-transfer",
        "tiny-collectives",
    ),
    signature=Signature(
        caption=Text(
            en="All ranks start together; the bytes go through the host, and the link stays empty.",
            zh="各 rank 同时开始；数据经主机传输，链路空着。",
        ),
        lanes=(
            Lane(HOST, "...xxxxxxx|...xxxxxxx"),
            Lane(DEVICE, "cccnnnnnnn|cccnnnnnnn"),
            Lane(Text(en="fast link", zh="高速链路"), "..........|.........."),
        ),
    ),
)
