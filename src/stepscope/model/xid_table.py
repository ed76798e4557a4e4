"""Xids of NVIDIA's driver: names as its catalogue of 2025-10-29 lists them, meanings in our own words.

`*` in a name stands for `ROBUST_CHANNEL_`.
"""

from __future__ import annotations

from stepscope.model.text import Text

NAMES = """
1 *FIFO_ERROR_FIFO_METHOD
2 *FIFO_ERROR_SW_METHOD
3 *FIFO_ERROR_UNK_METHOD
4 *FIFO_ERROR_CHANNEL_BUSY
5 *FIFO_ERROR_RUNOUT_OVERFLOW
6 *FIFO_ERROR_PARSE_ERR
7 *FIFO_ERROR_PTE_ERR
8 *FIFO_ERROR_IDLE_TIMEOUT
9 *GR_ERROR_INSTANCE
10 *GR_ERROR_SINGLE_STEP
11 *GR_ERROR_MISSING_HW
12 *GR_ERROR_SW_METHOD
13 *GR_EXCEPTION
14 *FAKE_ERROR
15 *SCANLINE_TIMEOUT
16 *VBLANK_CALLBACK_TIMEOUT
17 *PARAMETER_ERROR
18 *BUS_MASTER_TIMEOUT_ERROR
19 *DISP_MISSED_NOTIFIER
20 *MPEG_ERROR_SW_METHOD
21 *ME_ERROR_SW_METHOD
22 *VP_ERROR_SW_METHOD
23 *RC_LOGGING_ENABLED
24 *GR_SEMAPHORE_TIMEOUT
25 *GR_ILLEGAL_NOTIFY
26 *FIFO_ERROR_FBISTATE_TIMEOUT
27 *VP_ERROR
28 *VP2_ERROR
29 *BSP_ERROR
30 *BAD_ADDR_ACCESS
31 *FIFO_ERROR_MMU_ERR_FLT
32 *PBDMA_ERROR
33 *SEC_ERROR
34 *MSVLD_ERROR
35 *MSPDEC_ERROR
36 *MSPPP_ERROR
37 *FECS_ERR_UNIMP_FIRMWARE_METHOD
38 *FECS_ERR_WATCHDOG_TIMEOUT
39 *CE0_ERROR
40 *CE1_ERROR
41 *CE2_ERROR
42 *VIC_ERROR
43 *RESETCHANNEL_VERIF_ERROR
44 *GR_FAULT_DURING_CTXSW
45 *PREEMPTIVE_REMOVAL
46 *GPU_TIMEOUT_ERROR
47 *NVENC0_ERROR
48 *GPU_ECC_DBE
49 SILENT_RUNNING_CONSTANT_LEVEL_SET_BY_REGISTRY
50 SILENT_RUNNING_LEVEL_TRANSITION_DUE_TO_RC_ERROR
51 SILENT_RUNNING_STRESS_TEST_FAILURE
52 SILENT_RUNNING_LEVEL_TRANS_DUE_TO_TEMP_RISE
53 SILENT_RUNNING_TEMP_REDUCED_CLOCKING
54 SILENT_RUNNING_PWR_REDUCED_CLOCKING
55 SILENT_RUNNING_TEMPERATURE_READ_ERROR
56 DISPLAY_CHANNEL_EXCEPTION
57 FB_LINK_TRAINING_FAILURE_ERROR
58 FB_MEMORY_ERROR
59 PMU_ERROR
60 *SEC2_ERROR
61 PMU_BREAKPOINT
62 PMU_HALT_ERROR
63 INFOROM_DRAM_RETIREMENT_EVENT
64 INFOROM_DRAM_RETIREMENT_FAILURE
65 *NVENC1_ERROR
66 *FECS_ERR_REG_ACCESS_VIOLATION
67 *FECS_ERR_VERIF_VIOLATION
68 *NVDEC0_ERROR
69 *GR_CLASS_ERROR
70 *CE3_ERROR
71 *CE4_ERROR
72 *CE5_ERROR
73 *NVENC2_ERROR
74 NVLINK_ERROR
75 *CE6_ERROR
76 *CE7_ERROR
77 *CE8_ERROR
78 VGPU_START_ERROR
79 *GPU_HAS_FALLEN_OFF_THE_BUS
80 PBDMA_PUSHBUFFER_CRC_MISMATCH
81 *VGA_SUBSYSTEM_ERROR
82 *NVJPG0_ERROR
83 *NVDEC1_ERROR
84 *NVDEC2_ERROR
85 *CE9_ERROR
86 *OFA0_ERROR
87 NVTELEMETRY_DRIVER_REPORT
88 *NVDEC3_ERROR
89 *NVDEC4_ERROR
90 LTC_ERROR
91 RESERVED_XID
92 EXCESSIVE_SBE_INTERRUPTS
93 INFOROM_ERASE_LIMIT_EXCEEDED
94 *CONTAINED_ERROR
95 *UNCONTAINED_ERROR
96 *NVDEC5_ERROR
97 *NVDEC6_ERROR
98 *NVDEC7_ERROR
99 *NVJPG1_ERROR
100 *NVJPG2_ERROR
101 *NVJPG3_ERROR
102 *NVJPG4_ERROR
103 *NVJPG5_ERROR
104 *NVJPG6_ERROR
105 *NVJPG7_ERROR
106 SMBPBI_TEST_MESSAGE
107 SMBPBI_TEST_MESSAGE_SILENT
108 NVLINK_REMOTE_TRANSLATION_ERROR
109 *CTXSW_TIMEOUT_ERROR
110 SEC_FAULT_ERROR
111 BUNDLE_ERROR_EVENT
112 DISP_SUPERVISOR_ERROR
113 DP_LT_FAILURE
114 HEAD_RG_UNDERFLOW
115 CORE_CHANNEL_REGS
116 WINDOW_CHANNEL_REGS
117 CURSOR_CHANNEL_REGS
118 HEAD_REGS
119 GSP_RPC_TIMEOUT
120 GSP_ERROR
121 C2C_ERROR
122 SPI_PMU_RPC_READ_FAIL
123 SPI_PMU_RPC_WRITE_FAIL
124 SPI_PMU_RPC_ERASE_FAIL
125 INFOROM_FS_ERROR
126 *CE10_ERROR
127 *CE11_ERROR
128 *CE12_ERROR
129 *CE13_ERROR
130 *CE14_ERROR
131 *CE15_ERROR
132 *CE16_ERROR
133 *CE17_ERROR
134 *CE18_ERROR
135 *CE19_ERROR
136 ALI_TRAINING_FAIL
137 NVLINK_PRIV_ERR
138 *DLA_ERROR
139 *OFA1_ERROR
140 UNRECOVERABLE_ECC_ERROR_ESCAPE
141 *FAST_PATH_ERROR
142 *NVENC3_ERROR
143 GPU_INIT_ERROR
144 NVLINK_SAW_ERROR
145 NVLINK_RLW_ERROR
146 NVLINK_TLW_ERROR
147 NVLINK_TREX_ERROR
148 NVLINK_NVLPW_CTRL_ERROR
149 NVLINK_NETIR_ERROR
150 NVLINK_MSE_ERROR
151 *KEY_ROTATION_ERROR
152 *DLA_SMMU_ERROR
153 *DLA_TIMEOUT
154 GPU_RECOVERY_ACTION_CHANGED
155 NVLINK_SW_DEFINED_ERROR
156 RESOURCE_RETIREMENT_EVENT
157 RESOURCE_RETIREMENT_FAILURE
158 GPU_FATAL_TIMEOUT
159 *CHI_NON_DATA_ERROR
160 CHANNEL_RETIREMENT_EVENT
161 CHANNEL_RETIREMENT_FAILURE
162 PSHC_REENGAGED
163 PSHC_DISENGAGED
164 PSHC_LOW_LIFETIME
165 PSHC_ZERO_LIFETIME
166 NVLINK_SECURE_CRYPTO_ERR
167 PCIE_FATAL_TIMEOUT
168 REDUCED_GPU_MEMORY_CAPACITY
169 SEC2_HALT_ERROR
170 NVLINK_SECURE_OTHER
171 UNCORRECTABLE_DRAM_ERROR
172 UNCORRECTABLE_SRAM_ERROR
173 -
"""
"""One code a line; `-` where the catalogue has a code without a name. 13 has a second one,
`ROBUST_CHANNEL_GR_ERROR_SW_NOTIFY`."""

UNUSED = Text(
    "Listed without a use: current drivers are not known to raise it.",
    "目录中未注明用途：现行驱动据知不会报告。",
)
UNKNOWN = Text("Not in the catalogue that this version knows.", "不在本版本所知的目录中。")

# Engines that come in numbers: (codes in order, first number, English, Chinese).
ENGINES: tuple[tuple[tuple[int, ...], int, str, str], ...] = (
    (
        (
            39,
            40,
            41,
            70,
            71,
            72,
            75,
            76,
            77,
            85,
            126,
            127,
            128,
            129,
            130,
            131,
            132,
            133,
            134,
            135,
        ),
        0,
        "Copy engine {n} reported an error.",
        "拷贝引擎 {n} 报错。",
    ),
    (
        (
            68,
            83,
            84,
            88,
            89,
            96,
            97,
            98,
        ),
        0,
        "Video decoder {n} reported an error.",
        "视频解码器 {n} 报错。",
    ),
    (
        (
            47,
            65,
            73,
            142,
        ),
        0,
        "Video encoder {n} reported an error.",
        "视频编码器 {n} 报错。",
    ),
    (
        (
            82,
            99,
            100,
            101,
            102,
            103,
            104,
            105,
        ),
        0,
        "JPEG engine {n} reported an error.",
        "JPEG 引擎 {n} 报错。",
    ),
    (
        (
            86,
            139,
        ),
        0,
        "Optical-flow engine {n} reported an error.",
        "光流引擎 {n} 报错。",
    ),
)

MEANINGS: dict[int, Text] = {
    8: Text("A channel's work did not go on in time.", "某通道的工作未能按时推进。"),
    11: Text("The command stream sent to the GPU was not valid.", "发给 GPU 的命令流无效。"),
    13: Text(
        "A kernel did something that its multiprocessor refuses, such as a bad address or instruction.",
        "核函数做了多处理器拒绝的事，例如非法地址或指令。",
    ),
    25: Text(
        "The command stream sent to the GPU holds what it does not accept.",
        "发给 GPU 的命令流含有不被接受的内容。",
    ),
    31: Text("The GPU touched an address that is not mapped.", "GPU 访问了未映射的地址。"),
    32: Text("The unit that fetches commands met a damaged command stream.", "取指令单元遇到损坏的命令流。"),
    37: Text(
        "The firmware of the context scheduler was asked for what it does not have.",
        "上下文调度固件收到不支持的请求。",
    ),
    38: Text("The watchdog of the context scheduler's firmware ran out.", "上下文调度固件的看门狗超时。"),
    43: Text(
        "A channel was stopped and reset after a fault of its program.", "程序出错后，其通道被停止并复位。"
    ),
    44: Text("The graphics engine faulted while contexts were switched.", "切换上下文时图形引擎出错。"),
    45: Text(
        "The driver took away channels of a process that was ending or had failed.",
        "驱动清理了正在结束或已失败进程的通道。",
    ),
    46: Text("The GPU did not answer in time.", "GPU 未在时限内应答。"),
    48: Text(
        "A memory word with two wrong bits, which ECC cannot repair.", "显存出现双比特错误，ECC 无法纠正。"
    ),
    54: Text(
        "The board's extra power plug is missing or loose: it runs at low clocks.",
        "板卡辅助供电未接或松动：以低频运行。",
    ),
    60: Text("The security engine reported an error.", "安全引擎报错。"),
    61: Text("The power-management controller stopped at a breakpoint.", "电源管理控制器停在断点。"),
    62: Text("The power-management controller halted.", "电源管理控制器停止工作。"),
    63: Text("A faulty memory row was put down for replacement.", "已登记替换一行有缺陷的显存。"),
    64: Text("A faulty memory row could not be replaced.", "有缺陷的显存行无法替换。"),
    66: Text("The driver touched a register that it may not.", "驱动访问了不允许的寄存器。"),
    67: Text(
        "A check of the context scheduler found an access that is not allowed.",
        "上下文调度器检查发现不允许的访问。",
    ),
    69: Text(
        "The graphics engine was given a class of work that it does not know.", "图形引擎收到未知类型的工作。"
    ),
    74: Text("A link between GPUs, or to a switch, had errors.", "GPU 之间或到交换芯片的链路出错。"),
    78: Text("A virtual GPU could not be started.", "虚拟 GPU 无法启动。"),
    79: Text("The GPU cannot be reached over PCIe any more.", "GPU 已无法通过 PCIe 访问。"),
    80: Text("Commands arrived at the GPU damaged.", "命令到达 GPU 时已损坏。"),
    92: Text("Many single-bit memory errors, all repaired.", "大量单比特显存错误，均已纠正。"),
    93: Text("The board's settings memory is written too often.", "板卡信息存储写入过于频繁。"),
    94: Text(
        "A memory error that could not be repaired, kept to the program that used the memory.",
        "无法纠正的显存错误，影响限于使用该显存的程序。",
    ),
    95: Text(
        "A memory error that could not be repaired and may have reached other programs.",
        "无法纠正的显存错误，可能已波及其他程序。",
    ),
    106: Text("A test message of the board's management bus.", "板卡管理总线的测试消息。"),
    107: Text("A silent test message of the board's management bus.", "板卡管理总线的静默测试消息。"),
    109: Text("Contexts could not be switched in time.", "上下文切换超时。"),
    110: Text("A security check of the GPU failed.", "GPU 安全检查失败。"),
    119: Text(
        "The GPU's system processor did not answer the driver in time.", "GPU 系统处理器未按时应答驱动。"
    ),
    120: Text("The GPU's system processor reported an error.", "GPU 系统处理器报错。"),
    121: Text(
        "The link between processor and GPU of one module had errors.", "同一模组内 CPU 与 GPU 间链路出错。"
    ),
    136: Text("A link could not be trained.", "链路训练失败。"),
    137: Text(
        "A remote GPU was asked over the link for memory that it does not allow.",
        "经链路访问了对端 GPU 不允许的显存。",
    ),
    140: Text(
        "A memory error that could not be repaired got past the usual containment.",
        "无法纠正的显存错误越过了常规隔离。",
    ),
    141: Text("An error of a fast path of CUDA.", "CUDA 快速路径出错。"),
    143: Text("The GPU could not be brought up.", "GPU 初始化失败。"),
    144: Text(
        "Link of the fifth generation: an error in the unit named SAW.", "第五代 NVLink：SAW 单元出错。"
    ),
    145: Text(
        "Link of the fifth generation: an error in the unit named RLW.", "第五代 NVLink：RLW 单元出错。"
    ),
    146: Text(
        "Link of the fifth generation: an error in the unit named TLW.", "第五代 NVLink：TLW 单元出错。"
    ),
    147: Text(
        "Link of the fifth generation: an error in the unit named TREX.", "第五代 NVLink：TREX 单元出错。"
    ),
    148: Text(
        "Link of the fifth generation: an error in the unit named NVLPW.", "第五代 NVLink：NVLPW 单元出错。"
    ),
    149: Text(
        "Link of the fifth generation: an error in the unit named NETIR.", "第五代 NVLink：NETIR 单元出错。"
    ),
    150: Text(
        "Link of the fifth generation: an error in the unit named MSE.", "第五代 NVLink：MSE 单元出错。"
    ),
    151: Text("Keys of confidential computing could not be changed.", "机密计算的密钥轮换失败。"),
    152: Text(
        "The deep-learning accelerator met a fault of address translation.", "深度学习加速器地址转换出错。"
    ),
    153: Text("The deep-learning accelerator did not answer in time.", "深度学习加速器超时。"),
    154: Text("The driver changed what it asks for to recover the GPU.", "驱动更改了恢复 GPU 所需的操作。"),
    155: Text("The driver declared an error of its links.", "驱动判定链路出错。"),
    156: Text("A part of the GPU is taken out of use.", "GPU 的某项资源被停用。"),
    157: Text("A part of the GPU could not be taken out of use.", "GPU 的某项资源停用失败。"),
    158: Text("The GPU met a timeout that it cannot recover from.", "GPU 出现无法恢复的超时。"),
    159: Text(
        "An error on the coherent bus to the processor, not of data.", "与 CPU 的一致性总线出现非数据错误。"
    ),
    160: Text("A memory channel is taken out of use.", "某显存通道被停用。"),
    161: Text("A memory channel could not be taken out of use.", "显存通道停用失败。"),
    162: Text("The circuit that smooths power is at work again.", "功率平滑电路重新启用。"),
    163: Text("The circuit that smooths power is off.", "功率平滑电路已停用。"),
    164: Text("The circuit that smooths power is nearly worn out.", "功率平滑电路寿命将尽。"),
    165: Text("The circuit that smooths power is worn out.", "功率平滑电路寿命已尽。"),
    166: Text(
        "Encrypted traffic came over a link before it was set up for that.", "链路尚未配置好即出现加密流量。"
    ),
    167: Text("A request over PCIe ran out of time.", "PCIe 请求超时。"),
    168: Text("Errors in protected memory: the GPU offers less memory.", "受保护显存有错误：可用显存减少。"),
    169: Text("The security engine's controller halted.", "安全引擎控制器停止工作。"),
    170: Text("A link raised an alarm under confidential computing.", "机密计算下链路告警。"),
    171: Text(
        "Details of an error in device memory that could not be repaired.",
        "无法纠正的显存（DRAM）错误的细节。",
    ),
    172: Text(
        "Details of an error in on-chip memory that could not be repaired.",
        "无法纠正的片上存储（SRAM）错误的细节。",
    ),
    173: Text(
        "A code of the catalogue that has neither name nor description.", "目录中既无名称也无说明的代码。"
    ),
}
