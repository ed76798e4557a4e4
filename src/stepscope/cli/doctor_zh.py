"""What `stepscope doctor` says, in Simplified Chinese: patterns over the English text, as JSON keeps it."""

from __future__ import annotations

import re

from stepscope.views import chinese

STATES = {"ok": "正常", "missing": "缺少", "note": "提示"}

NAMES = {
    "NVIDIA driver": "NVIDIA 驱动",
    "profiling counters": "性能计数器",
    "AMD driver": "AMD 驱动",
    "Ascend driver": "昇腾驱动",
    "exporters": "指标导出器",
    "room for traces": "trace 可用空间",
    "shared memory": "共享内存",
    "run directory": "运行目录",
    "clock source": "时钟源",
    "kernel log": "内核日志",
}

FOUND: tuple[tuple[str, str], ...] = (
    (r"(\S+), native loader", r"\1，原生加载器"),
    (
        r"(\S+), fallback loader: same answers, about seven times slower on large traces",
        r"\1，后备加载器：结果相同，大 trace 上约慢七倍",
    ),
    (
        r"not in this environment: traces are read all the same, none can be recorded here",
        "不在此环境中：仍可读取 trace，但不能在此录制",
    ),
    (r"its Python binding is not installed", "其 Python 绑定未安装"),
    (r"no usable driver: (.*)", r"没有可用的驱动：\1"),
    (r"present, but refuses: (.*)", r"存在，但拒绝访问：\1"),
    (r"(.*) × no device", r"\1 × 无设备"),
    (r"the driver is there, its tool is not", "有驱动，但没有它的工具"),
    (r"allowed for this user", "此用户可用"),
    (r"for administrators only (\(.*\))", r"仅限管理员 \1"),
    (r"device found, no (\S+)", r"找到设备，但没有 \1"),
    (r"(\S+) serves its metrics", r"\1 提供其指标"),
    (r"(\S+) answers, with other metrics", r"\1 有应答，但是其他指标"),
    (r"none on this machine's loopback \(ports (.*)\)", r"本机环回地址上没有（端口 \1）"),
    (r"the least capture for a host that is late", "主机迟缓时所需的最少采集"),
    (r"(.*), but this user may not attach", r"\1，但此用户不得附加到进程"),
    (r"not for this user (\(.*\)): the agent goes without it", r"此用户不可读 \1：agent 将不使用它"),
    (r"(\S+) may be read", r"\1 可读"),
    (r"(\S+ GB) free in (.*)", r"\2 中可用 \1"),
    (r"(\S+): a mark makes no system call", r"\1：标记不产生系统调用"),
    (r"(\S+): each mark reads the clock by a system call, twice", r"\1：每个标记通过系统调用读取时钟两次"),
    (r"(.+) will be made by the first process that marks", r"\1 将由首个打标记的进程创建"),
    (r"(.+) is not there and cannot be made", r"\1 不存在，也无法创建"),
    (r"not usable: (.*)", r"不可用：\1"),
    (r"(.+) is no folder", r"\1 不是目录"),
    (r"(.+) is not safe: all may write there without a sticky bit", r"\1 不安全：所有人可写且无粘滞位"),
    (r"(.+) may not be written by this user", r"此用户不能写入 \1"),
    (r"(.+), rings there now: (\S+)", r"\1，现有环形缓冲文件：\2"),
)


def in_chinese(found: str) -> str:
    """The sentence in Chinese; a version, a path or a name stays as it is."""
    return re.sub(r"(?<=\d), (?=\d)", "、", chinese.in_chinese(found, FOUND))
