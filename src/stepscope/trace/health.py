"""What is wrong with a trace, before anything is concluded from it.

Each finding is a `HealthIssue` with what it touches; the functions that bend data (cut a duration, leave
out a row) say so in the same breath. Thresholds carry the case that set them (docs/reference/health.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, overlap_ns, union
from stepscope.model.report import Effect, HealthIssue
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import DEVICE_KINDS, HOST_KINDS, Kind, is_of
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import UNEXPLAINED, Activities

DAY_NS = 86_400 * 10**9
HARMLESS_OVERLAP_NS = 100_000
"""Overlaps on one stream up to here are rounding, clock drift or programmatic dependent launch
(kineto#136)."""
OVERRUN_SHARE = 0.10
"""A suspect overruns its successor by more than this share of what the stream's other work sums to."""
SUSPECT_FACTOR = 4.0
"""A cut duration counts as work up to this multiple of the median of the same name's other durations."""
CONTAINED_SUCCESSORS = 3
"""An in-order stream cannot run three later launches inside one kernel."""
FAR_FACTOR = 10.0
"""The last activity of a stream has no successor to be judged by: it must dwarf all the others together."""
DEGRADED_SHARE, WITHHELD_SHARE = 0.05, 0.50
"""Device time without launch that degrades, and that withholds, idle causes."""
SURE_OFFSET_NS, LIKELY_OFFSET_NS, SAME_DELAY = 100_000, 100_000, 2
"""A wait for the device that returns so long before its work ends cannot be rounding; and the least time
from a launch to its work is 2 to 45 microseconds in traces of eleven kinds of device, where they idle. Delays
that differ by more than the factor are a queue's (our choice)."""
PAUSE_NS = 5_000
"""What a device takes at most to start the next kernel of its queue: launching one takes the host as long."""
LEAST_PAIRS, IDLE_OF_OFFSET = 20, 0.10
"""So many launches, and so much idle time, for none to start soon by chance."""
_DEVICE_WAITS = frozenset(("cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize"))
INVERSION_SHARE = 0.5
"""Kernels before their launch in more than half of all pairs mean two clocks, not single bad records."""


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue before its rank is known."""

    code: str
    count: int
    effect: Effect
    detail: str
    affects: tuple[str, ...] = ()

    def for_rank(self, rank: int | None) -> HealthIssue:
        """The issue as the report writes it."""
        return HealthIssue(
            code=self.code,
            count=self.count,
            effect=self.effect,
            detail=self.detail,
            affects=self.affects,
            rank=rank,
        )


def far_rows(trace: Trace, kinds: I32) -> npt.NDArray[np.bool_]:
    """Which spans begin far from all others, whatever their kind and duration.

    Far is zero or a sentinel among epoch-sized times, or more than a day from the median of the events that
    are judged by their time (no profiler runs for a day).
    """
    start = trace.spans.ts_ns
    far = np.zeros(len(start), dtype=bool)
    # A zero is a writer's blank wherever the others lie more than an hour from it (kineto PR 1381).
    base = _base_ns(trace)
    blank = start == base
    # Times within a day of one another are within a day of their median, which is then not needed.
    if blank.any() or (len(start) and int(start.max()) - int(start.min()) > DAY_NS):
        timed = _timed(kinds)
        middle = int(np.median(start[timed] if timed.any() else start))
        far = (start < middle - DAY_NS) | (start > middle + DAY_NS)
        if abs(middle - base) > 3_600 * 10**9:
            far |= blank
    return far


def good_rows(
    trace: Trace, kinds: I32, is_far: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], list[Issue]]:
    """Which spans have a believable time: not those that are far (`far_rows`) or of negative duration."""
    bad = (is_far | (trace.spans.dur_ns < 0)) & (timed := _timed(kinds))
    count = int(bad.sum())
    if not count:
        return ~bad, []
    return ~bad, [
        Issue(
            "bad_timestamp",
            count,
            "none" if count <= 0.01 * timed.sum() else "degraded",
            f"{count} events have a zero, negative or far-off time and were left out",
        )
    ]


def _timed(kinds: I32) -> npt.NDArray[np.bool_]:
    return is_of(kinds, *DEVICE_KINDS, *HOST_KINDS, Kind.OVERHEAD, Kind.UNSEEN)


def _base_ns(trace: Trace) -> int:
    """What a written `ts` of 0 became."""
    base = trace.metadata.get("baseTimeNanoseconds", 0)
    return base if isinstance(base, int) and not isinstance(base, bool) and trace.anchor == "base" else 0


def cut_corrupt(trace: Trace, activities: Activities) -> tuple[Activities, list[Issue]]:
    """Cut durations that cannot be true at the next activity of their stream.

    Judged against the stream's own summed time, never the span, which the corrupt record itself may have
    made. A cut one counts as work where its length is believable for its name, else as unexplained time.
    """
    end = activities.end_ns.copy()
    part = activities.part.copy()
    num_cut, num_unexplained, bound_ns, overlaps = 0, 0, 0, 0
    if not len(activities):
        return activities, []
    order = np.lexsort((activities.start_ns, activities.stream, activities.device))
    key = np.stack([activities.device[order].astype(np.int64), activities.stream[order]])
    heads = np.flatnonzero(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0)))
    last_other = _last_end(trace, activities)
    for low, high in zip(heads, np.append(heads[1:], len(order)), strict=True):
        lane = order[low:high]
        if len(lane) < 2:
            continue
        start, stop = activities.start_ns[lane], activities.end_ns[lane]
        duration = stop - start
        successor = np.append(start[1:], np.iinfo(np.int64).max)
        # Activities that start together are one graph's or one record's twins: judge against the next
        # later start.
        ties = successor == start
        if ties.any():
            later = np.searchsorted(start, start, side="right")
            successor = np.where(
                later < len(start), start[np.minimum(later, len(start) - 1)], np.iinfo(np.int64).max
            )
        overrun = np.where(successor < np.iinfo(np.int64).max, stop - successor, 0)
        others = int(duration.sum()) - duration
        overlaps += int((overrun > HARMLESS_OVERLAP_NS).sum())
        candidates = np.flatnonzero((overrun > HARMLESS_OVERLAP_NS) | (successor == np.iinfo(np.int64).max))
        if not len(candidates):
            continue
        usual = _usual_ns(trace.spans.name_id[activities.row[lane]], duration)
        soonest = np.append(np.minimum.accumulate(stop[::-1])[::-1][1:], np.iinfo(np.int64).max)
        stream = _Stream(start, stop, others, successor, usual, soonest, activities.correlation[lane])
        for i in candidates.tolist():
            if not _is_corrupt(stream, i, last_other):
                continue
            at = int(lane[i])
            if successor[i] < np.iinfo(np.int64).max:
                end[at] = successor[i]
            else:
                end[at] = min(int(stop[i]), max(last_other, int(start[i])))
            num_cut += 1
            if end[at] - start[i] > SUSPECT_FACTOR * usual[i]:
                part[at] = UNEXPLAINED
                num_unexplained += 1
                bound_ns += int(end[at] - start[i])
    issues = []
    if num_cut:
        detail = (
            "1 device duration cannot be true and was cut at the next activity of its stream"
            if num_cut == 1
            else f"{num_cut} device durations cannot be true and were cut at the next activity of "
            "their stream"
        )
        if num_unexplained:
            part_of_them = f"{num_unexplained} of them {'stays' if num_unexplained == 1 else 'stay'}"
            all_stay = "it stays" if num_cut == 1 else "all of them stay"
            stay = all_stay if num_unexplained == num_cut else part_of_them
            detail += f"; {stay} unexplained, at most {bound_ns / 1000:,.0f} µs together"
        issues.append(
            Issue(
                "corrupt_duration",
                num_cut,
                "degraded" if num_unexplained else "none",
                detail,
                ("idle",) if num_unexplained else (),
            )
        )
    overlaps -= num_cut
    if overlaps > 0:
        issues.append(
            Issue(
                "stream_overlap",
                overlaps,
                "none",
                (
                    "1 activity overlaps the next one on its stream"
                    if overlaps == 1
                    else f"{overlaps} activities overlap the next one on their stream"
                )
                + f" by more than {HARMLESS_OVERLAP_NS // 1000} µs; time is counted once",
            )
        )
    return replace(activities, end_ns=end, part=part), issues


def _last_end(trace: Trace, activities: Activities) -> int:
    """The end of everything but the longest-reaching activity: host rows and other device work."""
    spans = trace.spans
    is_device = np.zeros(len(spans.ts_ns), dtype=bool)
    is_device[activities.row] = True
    host = ~is_device & (spans.dur_ns >= 0)
    host_end = int((spans.ts_ns[host] + spans.dur_ns[host]).max()) if host.any() else np.iinfo(np.int64).min
    ends = np.sort(activities.end_ns)
    return max(host_end, int(ends[-2]) if len(ends) > 1 else np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The activities of one stream by start: arrays of one length.

    `others` is the summed time of all others, `successor` the next later start, `usual` see `_usual_ns`,
    `soonest` the earliest end of those behind.
    """

    start: I64
    stop: I64
    others: I64
    successor: I64
    usual: npt.NDArray[np.float64]
    soonest: I64
    correlation: I64


def _usual_ns(name: I32, duration: I64) -> npt.NDArray[np.float64]:
    """For each activity the median duration of the others of its name, NaN where there are none."""
    order = np.lexsort((duration, name))
    d, n = duration[order], name[order]
    first = np.searchsorted(n, n, side="left")
    num_others = np.searchsorted(n, n, side="right") - first - 1
    own = np.arange(len(n)) - first

    def at(place: I64) -> I64:
        # Those behind the activity itself move up by one.
        found: I64 = d[first + np.minimum(np.where(place < own, place, place + 1), num_others)]
        return found

    median = (at((num_others - 1) // 2) + at(num_others // 2)) / 2
    usual = np.empty(len(n))
    usual[order] = np.where(num_others > 0, median, np.nan)
    return usual


def _is_corrupt(stream: _Stream, i: int, last_other: int) -> bool:
    """One suspect: does it overrun what the stream's own summed time allows?"""
    start, stop, others = int(stream.start[i]), int(stream.stop[i]), int(stream.others[i])
    duration = stop - start
    if stream.successor[i] == np.iinfo(np.int64).max:
        beyond = stop - max(last_other, start)
        return duration > FAR_FACTOR * others > 0 and beyond > duration // 2
    if stop - int(stream.successor[i]) > OVERRUN_SHARE * others:
        # The next one must lie inside, or two long kernels that touch would do.
        return bool(stream.soonest[i] <= stop)
    # Every comparison with NaN is false.
    if not duration > FAR_FACTOR * stream.usual[i]:
        return False
    inside = slice(i + 1, int(np.searchsorted(stream.start, stop, side="left")))
    is_other = stream.correlation[inside] != stream.correlation[i]
    return int(((stream.stop[inside] <= stop) & is_other).sum()) >= CONTAINED_SUCCESSORS


def unlaunched_share(activities: Activities, within: Intervals) -> float:
    """Share of device time inside these windows that no recorded call launched, 0..1."""
    busy = overlap_ns(activities.start_ns, activities.end_ns, within)
    total = int(busy.sum())
    return float(busy[activities.launch_row < 0].sum() / total) if total else 0.0


def unlaunched_effect(share: float) -> Effect:
    """What missing launches do to idle causes."""
    return "withheld" if share > WITHHELD_SHARE else "degraded" if share > DEGRADED_SHARE else "none"


def missing_launch(activities: Activities, kinds: I32, share: float) -> list[Issue]:
    """Work without a recorded launch; `share` is of device time in the windows that decide."""
    without = activities.launch_row < 0
    if not without.any():
        return []
    is_kernel, num = kinds[activities.row] == Kind.KERNEL, int(without.sum())
    have = "1 device activity has" if num == 1 else f"{num} device activities have"
    copies = "a copy" if num == 1 else "all of them copies"
    kernels = f"{100 * float(without[is_kernel].mean()):.0f} % of kernels" if is_kernel.any() else copies
    detail = f"{have} no recorded launch ({kernels})"
    before = int(activities.is_before_trace.sum())
    if before:
        part_of_them = f"{before} of them {'was' if before == 1 else 'were'}"
        all_were = "it was" if num == 1 else "all of them were"
        detail += f", {all_were if before == num else part_of_them} launched before the trace began"
    if not (kinds == Kind.CALL).any():
        detail += "; no host calls were recorded at all"
    effect = unlaunched_effect(share)
    if effect != "none":
        they = "it is" if num == 1 else "they are"
        detail += f"; {they} {100 * share:.0f} % of device time, so causes of idle time are {effect}"
    return [Issue("missing_launch", num, effect, detail, ("idle",) if effect != "none" else ())]


def launch_issues(
    trace: Trace, activities: Activities, kinds: I32, is_launch_call: npt.NDArray[np.bool_]
) -> list[Issue]:
    """Launches without work, and clock inversions."""
    issues: list[Issue] = []
    launched = np.zeros(len(kinds), dtype=bool)
    launched[activities.launch_row[activities.launch_row >= 0]] = True
    calls = int(is_launch_call.sum())
    without = int((is_launch_call & ~launched).sum())
    if len(activities) and without:
        lost = without / calls
        issues.append(
            Issue(
                "missing_kernels",
                without,
                "degraded" if lost > DEGRADED_SHARE else "none",
                f"{without} of {calls} launches {'has' if without == 1 else 'have'} no device activity",
                ("idle", "kernels") if lost > DEGRADED_SHARE else (),
            )
        )
    has = activities.launch_row >= 0
    lead = trace.spans.ts_ns[activities.launch_row[has]] - activities.start_ns[has]
    inverted = lead[lead > 0]
    if len(inverted):
        share_inverted = len(inverted) / len(lead)
        worst = int(inverted.max())
        if share_inverted > INVERSION_SHARE:
            offset = int(np.median(inverted))
            detail = (
                f"{len(inverted)} of {len(lead)} activities start before their launch: host and device "
                f"clocks differ by at least {offset / 1000:g} µs; launch delays are unreliable"
            )
            issues.append(Issue("clock_inversion", len(inverted), "degraded", detail, ("launch_delay",)))
        else:
            issues.append(
                Issue(
                    "clock_inversion",
                    len(inverted),
                    "none",
                    (
                        "1 activity starts before its launch"
                        if len(inverted) == 1
                        else f"{len(inverted)} activities start before their launch"
                    )
                    + f", by at most {worst / 1000:g} µs",
                )
            )
    return issues


def clock_offset(
    trace: Trace, activities: Activities, kinds: I32, tracks: npt.NDArray[np.intp]
) -> list[Issue]:
    """A device clock ahead of the host's: then work seems to have been issued long before it starts, and idle
    time before it would be blamed on the device.

    Certain where the host's wait for the whole device returns before work that was issued before it ends;
    likely where hardly any work starts soon after its launch, all as late, although the device stands idle.
    """
    has = np.flatnonzero(activities.launch_row >= 0)
    if len(has) < LEAST_PAIRS:
        return []
    has = has[np.argsort(activities.called_ns[has], kind="stable")]
    called, start, end = activities.called_ns[has], activities.start_ns[has], activities.end_ns[has]
    is_wait = np.array([name in _DEVICE_WAITS for name in trace.names] or [False])
    waits = np.flatnonzero((kinds == Kind.CALL) & is_wait[trace.spans.name_id])
    waits = waits[np.isin(trace.spans.track_id[waits], tracks)]
    before = np.searchsorted(called, trace.spans.ts_ns[waits], side="left") - 1
    waits, before = waits[before >= 0], before[before >= 0]
    early = np.maximum.accumulate(end)[before] - (trace.spans.ts_ns[waits] + trace.spans.dur_ns[waits])
    affects = ("idle", "launch_delay")
    # Of several devices nobody knows which one is waited for.
    is_one_device = len(np.unique(activities.device)) == 1
    if is_one_device and len(early) and int(np.median(early)) > SURE_OFFSET_NS:
        detail = (
            f"{int((early > SURE_OFFSET_NS).sum())} of {len(early)} waits for the device return before its "
            f"work ends: its clock is ahead of the host's by at least {int(early.max()) / 1000:g} µs; "
            "which side waits cannot be told, so causes of idle time are withheld"
        )
        return [Issue("clock_offset", len(early), "withheld", detail, affects)]
    # From the end of the call: a slow call holds its own work up.
    launch = activities.launch_row[has]
    delay = start - trace.spans.ts_ns[launch] - trace.spans.dur_ns[launch]
    soonest, latest = (int(each) for each in np.percentile(delay, (1, 90)))
    # Pauses between queued kernels are no idle time that anybody could be late for.
    work = union(activities.start_ns, activities.end_ns + PAUSE_NS)
    span = int(work.end[-1] - work.start[0]) if len(work) else 0
    idle = 1.0 - work.total_ns / span if span > 0 else 0.0
    # In a queue each work waits as long as what is before it; an offset is the same for all.
    if soonest >= LIKELY_OFFSET_NS and latest <= SAME_DELAY * soonest and idle >= IDLE_OF_OFFSET:
        detail = (
            f"hardly any work starts sooner than {soonest / 1000:g} µs after its launch, and the device is "
            f"idle for {100 * idle:.0f} %: its clock may be ahead of the host's; "
            "which side waits cannot be told, so causes of idle time are withheld"
        )
        return [Issue("clock_offset", len(has), "withheld", detail, affects)]
    return []


def class_issues(activities: Activities, kinds: I32) -> tuple[float, list[Issue]]:
    """Share of kernel time no row of the class table names, 0..1."""
    is_kernel = kinds[activities.row] == Kind.KERNEL
    busy = (activities.end_ns - activities.start_ns)[is_kernel]
    other = activities.cls[is_kernel] == CLASSES.index("other")
    total = int(busy.sum())
    share = float(busy[other].sum() / total) if total else 0.0
    if share <= DEGRADED_SHARE:
        return share, []
    return share, [
        Issue(
            "unclassified_kernels",
            int(other.sum()),
            "none",
            f"{100 * share:.0f} % of kernel time is of no known class",
        )
    ]


def impossible_utilisation(share: float, device: str | None, *, is_given: bool) -> Issue:
    """More arithmetic than the device can do in that time."""
    cause = (
        "the model FLOPs that were given (they are of one rank and one step)"
        if is_given
        else "the recorded shapes, their precision or the kernels of an op"
    )
    detail = (
        f"the run would use {100 * share:.4g} % of the peak of {device or 'the device'}: {cause} are wrong, "
        "or the device's name is; no utilisation is given"
    )
    return Issue("impossible_rate", 1, "none", detail, ("operators",))


def impossible_rate(op: str, share: float, model: str, num_calls: int) -> Issue:
    """Arithmetic that takes longer at the device's peak than the device took for it."""
    detail = (
        f"{op} would reach {100 * share:.4g} % of the peak of {model}: its recorded shapes, its precision, "
        "the kernels recorded for it or the device's name cannot be right; its rates are left out"
    )
    return Issue("impossible_rate", num_calls, "none", detail, ("operators",))


def loss_issues(trace: Trace) -> list[Issue]:
    """What the loader had to give up. More than 5 % of the events degrades; a cut withholds, for it takes the
    device work of steps whose host rows stand before it."""
    issues = []
    for loss in trace.losses:
        share = loss.count / max(trace.num_events + loss.count, 1)
        if loss.is_cut:
            issues.append(Issue(loss.code, loss.count, "withheld", loss.detail, ("accounting", "idle")))
        elif share > DEGRADED_SHARE:
            issues.append(Issue(loss.code, loss.count, "degraded", loss.detail, ("accounting", "idle")))
        else:
            issues.append(Issue(loss.code, loss.count, "none", loss.detail))
    return issues


_BY_WEIGHT: tuple[Effect, ...] = ("none", "degraded", "withheld")


def worst(effects: Iterable[Effect]) -> Effect:
    """The worst of several effects, `none` where there is none."""
    return max(effects, key=_BY_WEIGHT.index, default="none")


def merge(issues: Iterable[Issue]) -> list[Issue]:
    """One issue a code: counts added, the worst effect, details joined."""
    merged: dict[str, Issue] = {}
    for issue in issues:
        have = merged.get(issue.code)
        if have is None:
            merged[issue.code] = issue
            continue
        merged[issue.code] = Issue(
            issue.code,
            have.count + issue.count,
            worst((have.effect, issue.effect)),
            have.detail if have.detail == issue.detail else f"{have.detail}; {issue.detail}",
            tuple(dict.fromkeys((*have.affects, *issue.affects))),
        )
    return list(merged.values())
