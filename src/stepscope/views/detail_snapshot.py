"""What is said of a memory snapshot that cannot be used, in Chinese: patterns over the English text."""

from __future__ import annotations

_ASKS: tuple[tuple[str, str], ...] = (
    ("look up a name", "查找名字"),
    ("look up and call a name", "查找并调用名字"),
    ("call a function", "调用函数"),
    ("make an object", "构造对象"),
    ("set an object's state", "设置对象状态"),
    ("fetch a persistent object", "取外部持久对象"),
    ("use a registered extension", "使用已注册的扩展"),
    ("use a buffer from outside", "使用外部缓冲区"),
    ("make a set", "构造集合"),
    ("make a bytearray", "构造 bytearray"),
)
SNAPSHOT_ERROR: tuple[tuple[str, str], ...] = (
    *(
        (rf"the pickle asks to {asked}: refused", f"该 pickle 要求{chinese}：已拒绝")
        for asked, chinese in _ASKS
    ),
    (r"the pickle has more than ([\d,]+) opcodes: refused", r"该 pickle 超过 \1 条指令：已拒绝"),
    (r"the pickle makes more than ([\d,]+) containers: refused", r"该 pickle 超过 \1 个容器：已拒绝"),
    (r"the pickle is nested more than (\d+) deep: refused", r"该 pickle 嵌套超过 \1 层：已拒绝"),
    (r"the pickle holds a number of .*: refused", "该 pickle 含过长的整数：已拒绝"),
    (r"the pickle has an? (\w+) for a key: refused", r"该 pickle 以 \1 作为键：已拒绝"),
    (r"and nothing of it was run", "其中任何代码都未执行"),
    (r"the pickle breaks off( within a frame)?", "pickle 中途断开"),
    (r"the pickle holds no memory snapshot \(its keys: (.*)\)", r"该 pickle 中没有显存快照（其键：\1）"),
    (r"the pickle (?!asks|has|makes|is nested)[^;]*", "pickle 内部不一致"),
    (r"the snapshot holds no segment and no history", "快照中既没有段，也没有历史"),
    (
        r"the snapshot has more than ([\d,]+) blocks, entries and frames: refused",
        r"快照超过 \1 个块、条目与帧：已拒绝",
    ),
    (r"more than (\d+) MB come out of it: refused", r"解压后超过 \1 MB：已拒绝"),
)
SNAPSHOT_MEND: tuple[tuple[str, str], ...] = (
    (
        r"give what torch\.cuda\.memory\._dump_snapshot\(\) wrote",
        "请给出 torch.cuda.memory._dump_snapshot() 写出的文件",
    ),
    (r"record a shorter history \(max_entries\)", "请缩短历史（max_entries）"),
    (
        r"call torch\.cuda\.memory\._record_memory_history\(\) before the run",
        "请在运行前调用 torch.cuda.memory._record_memory_history()",
    ),
    (r"a memory snapshot is read only from a file of its own", "显存快照只能从单独的文件读取"),
)
