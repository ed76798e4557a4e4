/* A libnvidia-ml.so.1 of our own: the functions that the agent calls, over devices that a test commands.
 *
 * fake_set(key, device, value) turns the knobs; each call counts. Layouts are those of nvml.h. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, LOST = 15,
       VERSION = 25, INSUFFICIENT = 7 };
enum { MOST = 16, INSTANCES = 7 };
typedef unsigned long long u64;
typedef struct { int index, instance, is_lost, num_instances, has_gpm, supports_violation, pid, sm, is_unknown; u64 energy_mj, nvlink_kib; } Device;
typedef struct { u64 at_ns; int index, instance; } Sample;

static Device devices[MOST], instances[MOST][INSTANCES];
static int num_devices = 2, is_up, driver_code, num_inits, is_ready, num_calls, hang_ms;
static struct { int device; u64 code; } xids[64];
static int num_xids, next_xid;
static struct { int registered[MOST]; } event_set;

static void ready(void) {
  if (is_ready) return;
  is_ready = 1;
  for (int i = 0; i < MOST; i++) {
    Device d = { .index = i, .instance = -1, .has_gpm = 1, .supports_violation = 1, .sm = 10 * (i + 1), .energy_mj = 1000000 };
    devices[i] = d;
    for (int k = 0; k < INSTANCES; k++) { instances[i][k] = d; instances[i][k].instance = k + 3; }
  }
}
void fake_set(const char *key, int device, long long value) {
  ready();
  Device *d = &devices[device];
  if (!strcmp(key, "count")) num_devices = (int)value;
  else if (!strcmp(key, "driver")) { driver_code = (int)value; if (value) is_up = 0; }
  else if (!strcmp(key, "lost")) d->is_lost = (int)value;
  else if (!strcmp(key, "mig")) d->num_instances = (int)value;
  else if (!strcmp(key, "gpm")) d->has_gpm = (int)value;
  else if (!strcmp(key, "violation")) d->supports_violation = (int)value;
  else if (!strcmp(key, "energy")) d->energy_mj = (u64)value;
  else if (!strcmp(key, "nvlink")) d->nvlink_kib = (u64)value;
  else if (!strcmp(key, "pid")) d->pid = (int)value;
  else if (!strcmp(key, "sm")) d->sm = (int)value;
  else if (!strcmp(key, "unknown")) d->is_unknown = (int)value;
  else if (!strcmp(key, "hang_ms")) hang_ms = (int)value;
  else if (!strcmp(key, "xid")) { xids[num_xids % 64].device = device; xids[num_xids++ % 64].code = (u64)value; }
}
int fake_get(const char *key) { return !strcmp(key, "inits") ? num_inits : num_calls; }

static int state(Device *d) {
  num_calls++;
  if (driver_code) return driver_code;
  if (!is_up) return UNINITIALIZED;
  if (!d) return INVALID;
  if (devices[d->index].is_lost) return LOST;
  return OK;
}
#define CHECK(d) do { int code_ = state(d); if (code_) return code_; } while (0)
#define WHOLE(d) do { CHECK(d); if ((d)->instance >= 0) return NOT_SUPPORTED; } while (0)

int nvmlInitWithFlags(unsigned flags) { ready(); if (driver_code) return driver_code; is_up++; num_inits++; return OK; }
int nvmlShutdown(void) { if (!is_up) return UNINITIALIZED; is_up--; return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { if (driver_code) return driver_code; if (!is_up) return UNINITIALIZED; *n = (unsigned)num_devices; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device **d) { if (driver_code) return driver_code; if (!is_up) return UNINITIALIZED; if ((int)i >= num_devices) return INVALID; if (devices[i].is_lost) return LOST; *d = &devices[i]; return OK; }
int nvmlDeviceGetUUID(Device *d, char *s, unsigned n) {
  CHECK(d);
  if (d->instance < 0) snprintf(s, n, "GPU-0000000%d-0000-0000-0000-000000000000", d->index);
  else snprintf(s, n, "MIG-0000000%d-0000-0000-0000-00000000000%d", d->index, d->instance);
  return OK;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *d, Pci *p) { CHECK(d); memset(p, 0, sizeof *p); snprintf(p->bus_id, 32, "00000000:%02X:00.0", 0x3b + d->index); return OK; }
int nvmlDeviceGetName(Device *d, char *s, unsigned n) { CHECK(d); snprintf(s, n, "NVIDIA H100 80GB HBM3"); return OK; }
int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *later) { CHECK(d); *now = *later = d->num_instances > 0; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *n) { CHECK(d); *n = INSTANCES; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned i, Device **m) { CHECK(d); if ((int)i >= d->num_instances) return NOT_FOUND; *m = &instances[d->index][i]; return OK; }
int nvmlDeviceGetGpuInstanceId(Device *d, unsigned *n) { CHECK(d); if (d->instance < 0) return INVALID; *n = (unsigned)d->instance; return OK; }

int nvmlDeviceGetUtilizationRates(Device *d, unsigned u[2]) { if (hang_ms) usleep(1000 * hang_ms); WHOLE(d); u[0] = 90; u[1] = 40; return OK; }
int nvmlDeviceGetEncoderUtilization(Device *d, unsigned *u, unsigned *p) { WHOLE(d); *u = 0; *p = 1000; return OK; }
int nvmlDeviceGetDecoderUtilization(Device *d, unsigned *u, unsigned *p) { WHOLE(d); *u = 5; *p = 1000; return OK; }
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory *m) { CHECK(d); if (m->version != 0x02000028) return VERSION; m->total = 80ull << 30; m->reserved = 1ull << 30; m->used = 20ull << 30; m->free = 59ull << 30; return OK; }
int nvmlDeviceGetPowerUsage(Device *d, unsigned *mw) { WHOLE(d); if (d->is_unknown) return 999; *mw = 350000 + 1000 * d->index; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *mw) { WHOLE(d); *mw = 700000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(Device *d, unsigned *mw) { WHOLE(d); *mw = 700000; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(Device *d, u64 *mj) { WHOLE(d); *mj = d->energy_mj; return OK; }
int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *t) { WHOLE(d); *t = 60; return OK; }
int nvmlDeviceGetTemperatureThreshold(Device *d, int kind, unsigned *t) { WHOLE(d); *t = kind ? 87 : 92; return OK; }
int nvmlDeviceGetClockInfo(Device *d, int kind, unsigned *mhz) { WHOLE(d); *mhz = kind == 2 ? 2619 : 1755; return OK; }
int nvmlDeviceGetMaxClockInfo(Device *d, int kind, unsigned *mhz) { WHOLE(d); *mhz = kind == 2 ? 2619 : 1980; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(Device *d, u64 *bits) { WHOLE(d); *bits = 4; return OK; }
int nvmlDeviceGetPerformanceState(Device *d, int *p) { WHOLE(d); *p = 0; return OK; }
int nvmlDeviceGetViolationStatus(Device *d, int kind, u64 v[2]) { WHOLE(d); if (!d->supports_violation) return NOT_SUPPORTED; v[0] = 1; v[1] = 2500000000ull; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *n) { WHOLE(d); *n = 5; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *n) { WHOLE(d); *n = 16; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *n) { WHOLE(d); *n = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *n) { WHOLE(d); *n = 16; return OK; }
int nvmlDeviceGetPcieReplayCounter(Device *d, unsigned *n) { WHOLE(d); *n = 3; return OK; }
int nvmlDeviceGetPcieThroughput(Device *d, int way, unsigned *kbs) { WHOLE(d); *kbs = way ? 2000 : 1000; return OK; }

typedef struct { unsigned field, scope; long long at, latency; int type, code; union { double d; u64 u; } value; } Value;
int nvmlDeviceGetFieldValues(Device *d, int n, Value *v) {
  WHOLE(d);
  for (int i = 0; i < n; i++) {
    v[i].code = v[i].field == 138 || v[i].field == 139 ? OK : NOT_SUPPORTED;
    v[i].value.u = d->nvlink_kib * (v[i].field == 138 ? 1 : 2);
  }
  return OK;
}
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *n, Process *p) {
  CHECK(d);
  unsigned num = d->pid != 0, room = *n;
  *n = num;
  if (!num) return OK;
  if (room < num || !p) return INSUFFICIENT;
  p[0].pid = (unsigned)d->pid; p[0].used = 5ull << 30; p[0].gi = p[0].ci = ~0u;
  return OK;
}

int nvmlEventSetCreate(void **s) { if (!is_up) return UNINITIALIZED; *s = &event_set; return OK; }
int nvmlEventSetFree(void *s) { return OK; }
int nvmlDeviceRegisterEvents(Device *d, u64 types, void *s) { WHOLE(d); event_set.registered[d->index] = (int)types; return OK; }
typedef struct { Device *device; u64 type, data; unsigned gi, ci; } EventData;
int nvmlEventSetWait_v2(void *s, EventData *e, unsigned ms) {
  if (driver_code) return driver_code;
  if (!is_up) return UNINITIALIZED;
  while (next_xid < num_xids) {
    int at = next_xid++ % 64, i = xids[at].device;
    if (!(event_set.registered[i] & 8)) continue;
    e->device = &devices[i]; e->type = 8; e->data = xids[at].code; e->gi = e->ci = ~0u;
    return OK;
  }
  return TIMEOUT;
}

typedef struct { unsigned version, is_supported; } Support;
int nvmlGpmQueryDeviceSupport(Device *d, Support *s) { CHECK(d); if (s->version != 1) return VERSION; s->is_supported = (unsigned)d->has_gpm; return OK; }
static Sample samples[256];
static int num_samples;
int nvmlGpmSampleAlloc(Sample **s) { if (!is_up) return UNINITIALIZED; *s = &samples[num_samples++ % 256]; return OK; }
int nvmlGpmSampleFree(Sample *s) { return OK; }
static u64 now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec; }
int nvmlGpmSampleGet(Device *d, Sample *s) { WHOLE(d); if (!d->has_gpm) return NOT_SUPPORTED; s->at_ns = now_ns(); s->index = d->index; s->instance = -1; return OK; }
int nvmlGpmMigSampleGet(Device *d, unsigned gi, Sample *s) { WHOLE(d); s->at_ns = now_ns(); s->index = d->index; s->instance = (int)gi; return OK; }
typedef struct { unsigned id; int code; double value; char *names[3]; } Metric;
typedef struct { unsigned version, num; Sample *one, *two; Metric metrics[1]; } Metrics;
int nvmlGpmMetricsGet(Metrics *m) {
  CHECK(&devices[m->one ? m->one->index : 0]);
  if (m->version != 1) return VERSION;
  if (!m->one || !m->two || m->two->at_ns <= m->one->at_ns || m->one->index != m->two->index) return INVALID;
  for (unsigned i = 0; i < m->num; i++) {
    Metric *x = &m->metrics[i];
    x->code = x->id == 7 ? NOT_SUPPORTED : OK;
    x->value = x->id == 2 ? devices[m->one->index].sm + (m->one->instance > 0 ? 1 : 0) : x->id == 20 ? 1.0 : x->id == 9 ? 0.0 / 0.0 : 50.0;
  }
  return OK;
}
