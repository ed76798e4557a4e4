"""The least recordings that rules ask for."""

from __future__ import annotations

from stepscope.model.text import Text
from stepscope.rules.rule import Capture

FEW_STEPS = Capture(
    text=Text(
        en="Record both sides (ProfilerActivity.CPU and .CUDA) over at least 3 steps after a warm-up step, "
        "with prof.step() once a step.",
        zh="用 torch.profiler 同时记录 CPU 与设备（ProfilerActivity.CPU 和 .CUDA），"
        "预热一步后至少录 3 步，每步调用一次 prof.step()。",
    ),
    brief=Text(
        en="both sides (ProfilerActivity.CPU and .CUDA) over 3 steps",
        zh="同时记录 CPU 与设备（ProfilerActivity.CPU 和 .CUDA）的 3 步",
    ),
    command="stepscope diagnose {folder}",
)

DEVICE = Capture(
    text=Text(
        en="Record the accelerator's own activity beside the host's (its ProfilerActivity), with a warm-up "
        "step.",
        zh="录制时除主机外还要打开加速器自身的活动（其 ProfilerActivity），并预热一步。",
    ),
    brief=Text(
        en="the accelerator's activity beside the host's (its ProfilerActivity)",
        zh="除主机外还录制加速器的活动（其 ProfilerActivity）",
    ),
    command="stepscope doctor",
)

STACKS = Capture(
    text=Text(
        en="Record Python functions too (with_stack=True), or give the parts of the step names "
        "(torch.profiler.record_function).",
        zh="同时录制 Python 函数（with_stack=True），或为步内各部分命名（torch.profiler.record_function）。",
    ),
    brief=Text(en="Python functions (with_stack=True)", zh="录制 Python 函数（with_stack=True）"),
    command="stepscope diagnose {folder}",
)

SHAPES = Capture(
    text=Text(
        en="Record shapes too (record_shapes=True), over at least one step after a warm-up step.",
        zh="同时录制形状（record_shapes=True），预热一步后至少录一步。",
    ),
    brief=Text(en="shapes (record_shapes=True)", zh="录制形状（record_shapes=True）"),
    command="stepscope diagnose {folder}",
)

WHOLE = Capture(
    text=Text(
        en="The same recording, exported to its end into a file of its own.",
        zh="同样的录制，完整导出到单独的文件。",
    ),
    brief=Text(en="the whole trace", zh="完整的 trace"),
    command="stepscope diagnose NEW_TRACE",
)

MANY_STEPS = Capture(
    text=Text(
        en="Record at least 30 steps in a row (device activity alone is enough), or pass the step times.",
        zh="连续记录至少 30 步（只录设备活动即可），或提供每一步的耗时。",
    ),
    brief=Text(
        en="30 recorded steps (schedule(active=30)) to judge",
        zh="连续录到 30 步（schedule(active=30)）才能判定",
    ),
    command="stepscope diagnose {folder}",
)

ALL_RANKS = Capture(
    text=Text(
        en="The traces of all ranks over the same steps: who started each collective last, and how long the "
        "transfer itself took.",
        zh="所有 rank 在相同步上的 trace：可看出每次集合通信谁最后开始、传输本身用了多久。",
    ),
    brief=Text(
        en="the traces of all ranks over the same steps",
        zh="所有 rank 在相同步上的 trace",
    ),
    command="stepscope diagnose {folder}",
)

TRANSPORT = Capture(
    text=Text(
        en="NCCL's own log of a short run: the transport, the devices and the rings it chose.",
        zh="短跑一次并保留 NCCL 自身的日志：可看到它选择的传输通道、网卡和环。",
    ),
    brief=Text(
        en="NCCL's log of a short run (NCCL_DEBUG=INFO)",
        zh="短跑一次的 NCCL 日志（NCCL_DEBUG=INFO）",
    ),
    command="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET python train.py",
)

NODES = Capture(
    text=Text(
        en="Nsight Systems with CUDA graph nodes: it records every graph node, and the events and streams "
        "that work waits for.",
        zh="用 Nsight Systems 并打开 CUDA graph 节点级跟踪：可记录每个图节点，以及工作所等待的事件和流。",
    ),
    brief=Text(
        en="Nsight Systems with CUDA graph nodes",
        zh="Nsight Systems 的 CUDA graph 节点级跟踪",
    ),
    command="nsys profile --trace=cuda,nvtx,osrt --cuda-graph-trace=node --output=nodes python train.py",
)

GARBAGE = Capture(
    text=Text(
        en="Record Python functions and the collector's own runs (with_stack=True; newer versions of PyTorch "
        "record collections under experimental_config, older ones need gc.callbacks).",
        zh="同时录制 Python 函数与垃圾回收（with_stack=True；新版 PyTorch 可在 experimental_config 中打开，"
        "旧版可用 gc.callbacks 记录）。",
    ),
    brief=Text(
        en="the collector's own runs (with_stack=True, gc.callbacks)",
        zh="垃圾回收的运行记录（with_stack=True、gc.callbacks）",
    ),
    command="stepscope diagnose {folder}",
)

LIGHT = Capture(
    text=Text(
        en="The same steps recorded lighter: a warm-up of the profiler (schedule(warmup=2)), no stacks, "
        "shapes or memory.",
        zh="以更轻的方式录制相同的步：给分析器预热（schedule(warmup=2)），不录调用栈、形状和内存。",
    ),
    brief=Text(
        en="a lighter trace (schedule(warmup=2), no stacks, shapes or memory)",
        zh="更轻的 trace（schedule(warmup=2)，不录调用栈、形状和内存）",
    ),
    command="stepscope diagnose {folder}",
)

SIZES = Capture(
    text=Text(
        en="The same steps with a newer PyTorch: it records the size and the group of each collective.",
        zh="用较新的 PyTorch 录制相同的步：它会记录每次集合通信的大小与进程组。",
    ),
    brief=Text(en="the sizes of collectives (a newer PyTorch)", zh="集合通信的大小（较新的 PyTorch）"),
    command="stepscope diagnose {folder}",
)

KIND_OF_MEMORY = Capture(
    text=Text(
        en="Whether the batches are pinned: print batch.is_pinned() once, before the copy.",
        zh="批次是否锁页：在拷贝之前打印一次 batch.is_pinned()。",
    ),
    brief=Text(en="whether batches are pinned (batch.is_pinned())", zh="批次是否锁页（batch.is_pinned()）"),
    command="stepscope explain pageable-copies",
)

MEMORY = Capture(
    text=Text(
        en="Record both sides over at least 10 steps after a warm-up step with profile_memory=True, and "
        "prof.step() once a step.",
        zh="用 torch.profiler 同时记录 CPU 与设备，打开 profile_memory=True，预热一步后至少录 10 步，"
        "每步调用一次 prof.step()。",
    ),
    brief=Text(
        en="10 recorded steps with profile_memory=True",
        zh="打开 profile_memory=True 录制 10 步",
    ),
    command="stepscope diagnose NEW_TRACE",
)

SNAPSHOT = Capture(
    text=Text(
        en="A memory snapshot of PyTorch with its history: torch.cuda.memory._record_memory_history() before "
        'the run, torch.cuda.memory._dump_snapshot("snapshot.pickle") behind the failure.',
        zh="带历史的 PyTorch 显存快照：运行前调用 torch.cuda.memory._record_memory_history()，失败后调用 "
        'torch.cuda.memory._dump_snapshot("snapshot.pickle")。',
    ),
    brief=Text(
        en="a memory snapshot with its history (torch.cuda.memory._dump_snapshot)",
        zh="带历史的显存快照（torch.cuda.memory._dump_snapshot）",
    ),
    command="stepscope diagnose snapshot.pickle",
)

COUNTERS = Capture(
    text=Text(
        en="The device's counters over the same time as the trace and some minutes around it, once a second "
        "or faster: dcgm-exporter, dcgmi dmon, or nvidia-smi --query-gpu with -l 1.",
        zh="与 trace 同一时段（前后再多几分钟）的设备计数器，每秒一次或更快：dcgm-exporter、dcgmi dmon，"
        "或带 -l 1 的 nvidia-smi --query-gpu。",
    ),
    brief=Text(
        en="the device's counters over the same time (dcgm-exporter, dcgmi dmon, nvidia-smi)",
        zh="同一时段的设备计数器（dcgm-exporter、dcgmi dmon、nvidia-smi）",
    ),
    command="stepscope diagnose {folder} --telemetry counters.csv",
)

CLOCKS = Capture(
    text=Text(
        en="Clocks under load and why they are lower than they could be, once a second over some minutes: "
        "nvidia-smi --query-gpu=timestamp,uuid,utilization.gpu,clocks.sm,clocks.max.sm,"
        "clocks_event_reasons.active,temperature.gpu,power.draw,enforced.power.limit --format=csv -l 1.",
        zh="负载下的时钟频率及其偏低的原因，每秒一次，持续数分钟："
        "nvidia-smi --query-gpu=timestamp,uuid,utilization.gpu,clocks.sm,clocks.max.sm,"
        "clocks_event_reasons.active,temperature.gpu,power.draw,enforced.power.limit --format=csv -l 1。",
    ),
    brief=Text(
        en="clocks and the reasons for lower ones, once a second (nvidia-smi, dcgmi dmon)",
        zh="每秒一次的时钟频率与降频原因（nvidia-smi、dcgmi dmon）",
    ),
    command="stepscope diagnose {folder} --telemetry counters.csv",
)

PROCESSES = Capture(
    text=Text(
        en="The processes on the device and what each takes, once a second: nvidia-smi pmon -s um -d 1.",
        zh="设备上的进程及各自的占用，每秒一次：nvidia-smi pmon -s um -d 1。",
    ),
    brief=Text(en="the processes on the device (nvidia-smi pmon)", zh="设备上的进程列表（nvidia-smi pmon）"),
    command="stepscope diagnose {folder} --telemetry processes.txt",
)

HOST_COUNTERS = Capture(
    text=Text(
        en="The host's counters over the same time as the trace: processor and run queue, disks, major page "
        "faults, the container's throttling (node_exporter, cAdvisor).",
        zh="与 trace 同一时段的主机计数器：处理器与运行队列、磁盘、主缺页、容器的 CPU 限流"
        "（node_exporter、cAdvisor）。",
    ),
    brief=Text(
        en="the host's counters over the same time (node_exporter)",
        zh="同一时段的主机计数器（node_exporter）",
    ),
    command="stepscope diagnose {folder} --telemetry host.prom",
)

HOSTS_OF_RANKS = Capture(
    text=Text(
        en="The counters of the ranks' hosts over the same time as the trace: processor busy and run queue, "
        "major page faults, disks, the container's throttling (node_exporter, cAdvisor, or stepscope's "
        "agent).",
        zh="与 trace 同一时段各 rank 所在主机的计数器：处理器忙碌率与运行队列、主缺页、磁盘、容器的 CPU 限流"
        "（node_exporter、cAdvisor，或 stepscope 的 agent）。",
    ),
    brief=Text(
        en="the counters of the ranks' hosts over the same time (processor busy, run queue, major faults, "
        "throttling of the container; node_exporter)",
        zh="同一时段各 rank 所在主机的计数器（处理器忙碌率、运行队列、主缺页、容器限流；node_exporter）",
    ),
    command="stepscope diagnose {folder} --telemetry host.prom",
)

RUN_LOG = Capture(
    text=Text(
        en="The training log with a time in front of each line that states a step.",
        zh="训练日志，每个写有步数的行前带时间。",
    ),
    brief=Text(en="the training log, its lines with times", zh="带时间的训练日志"),
    command="stepscope diagnose {folder} --logs train.log",
)

KERNEL_LOG = Capture(
    text=Text(
        en="The kernel's log of the node over the run (journalctl -k -o short-iso): it holds every Xid with "
        "its time, where counters keep the last one only.",
        zh="运行期间该节点的内核日志（journalctl -k -o short-iso）：其中有每个 Xid 及其时间，"
        "而计数器只保留最后一个。",
    ),
    brief=Text(en="the kernel's log (journalctl -k)", zh="内核日志（journalctl -k）"),
    command="stepscope diagnose {folder} --logs kernel.log",
)

PY_SPY = Capture(
    text=Text(
        en="The stacks of all ranks while they stand still (py-spy dump): equal ones are the waiting, the "
        "odd "
        "one out is the one they wait for. Where all stand in a collective, PyTorch's flight recorder of "
        "collectives tells which rank never came.",
        zh="停住时所有 rank 的调用栈（py-spy dump）：相同的是在等待，不同的那个就是被等的。"
        "若都停在集合通信里，PyTorch 的集合通信飞行记录器可指出哪个 rank 没有到。",
    ),
    brief=Text(
        en="the stacks of all ranks while they stand still (py-spy dump)",
        zh="停住时所有 rank 的调用栈（py-spy dump）",
    ),
    command="py-spy dump --pid PID",
)

FLIGHTS = Capture(
    text=Text(
        en="PyTorch's flight recorder of collectives, the dump of every rank: it says who entered which "
        "collective. TORCH_FR_BUFFER_SIZE (before 2.9 TORCH_NCCL_TRACE_BUFFER_SIZE) keeps them, "
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 writes them when a watchdog ends the job.",
        zh="PyTorch 的集合通信飞行记录器，需要每个 rank 的转储：其中有谁进入了哪次集合通信。"
        "TORCH_FR_BUFFER_SIZE（2.9 之前为 TORCH_NCCL_TRACE_BUFFER_SIZE）用于保留记录，"
        "TORCH_NCCL_DUMP_ON_TIMEOUT=1 在看门狗终止作业时写出。",
    ),
    brief=Text(en="the flight recorder's dump of every rank", zh="每个 rank 的飞行记录器转储"),
    command="stepscope diagnose {folder} --logs DUMPS",
)

BESIDE_TIME = (MANY_STEPS, MEMORY, SNAPSHOT, KERNEL_LOG)
"""Recordings that show what comes at intervals, what fills memory or what broke: none of them answers why
every step is as slow as it is, so none is the next thing to do."""
