"""A driver's module that is not there: the functions of `pynvml` that the check calls, with set answers."""

from __future__ import annotations

from types import SimpleNamespace

UUID = "GPU-6a1c3f20-9d5e-4b7a-8c21-0f4e5d6b7a89"


class Fake:
    """Answers by attribute; `per_cent` are GPM's metrics by id, those not there are not supported."""

    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    nvmlMemory_v2 = 2

    class NVMLError(Exception):
        """What the driver refuses."""

    def __init__(self, *, per_cent=None, has_gpm=True, busy=0, pids=(), count=1, name="NVIDIA H200"):
        self.per_cent = {2: 95.0, 3: 40.0, 5: 80.0, 10: 30.0} if per_cent is None else per_cent
        self.has_gpm, self.busy, self.pids, self.count, self.name = has_gpm, busy, pids, count, name
        self.is_open, self.num_samples, self.num_freed = False, 0, 0
        self.is_lost = False

    def nvmlInit(self):
        self.is_open = True

    def nvmlShutdown(self):
        self.is_open = False

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return UUID if handle == 0 else f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle):
        return self.name.encode()

    def nvmlSystemGetDriverVersion(self):
        return "570.86.15"

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=int(self.has_gpm))

    def nvmlGpmSampleAlloc(self):
        self.num_samples += 1
        return f"sample {self.num_samples}"

    def nvmlGpmSampleFree(self, sample):
        self.num_freed += 1

    def nvmlGpmSampleGet(self, handle, sample):
        return sample

    def c_nvmlGpmMetricsGet_t(self):
        return SimpleNamespace(metrics=[SimpleNamespace() for _ in range(100)])

    def nvmlGpmMetricsGet(self, asked):
        assert asked.sample1 != asked.sample2
        for each in asked.metrics[: asked.numMetrics]:
            each.nvmlReturn = 0 if each.metricId in self.per_cent else 3
            each.value = self.per_cent.get(each.metricId, -1.0)

    def nvmlDeviceGetUtilizationRates(self, handle):
        if self.is_lost:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(gpu=self.busy, memory=0)

    def nvmlDeviceGetMemoryInfo(self, handle, version):
        return SimpleNamespace(used=3 << 30, free=77 << 30, reserved=1 << 29, total=80 << 30)

    def nvmlDeviceGetPowerUsage(self, handle):
        return 350_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetTemperature(self, handle, kind):
        return 51

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return 1485 if kind == self.NVML_CLOCK_SM else 2619

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return 0x4

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle):
        raise self.NVMLError("Not Supported")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=pid, usedGpuMemory=2 << 30) for pid in self.pids]
