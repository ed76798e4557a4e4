"""What runs beside a job would have recorded: device counters, host metrics, processes.

    meter      what a rank's kernels, copies and exchanges do to its device, on a fine grid, as they are
    played
    place      which device, process and host each rank has
    device     the grid as the device's own state: clocks, power, temperature, memory, errors
    host       the same for the host
    dcgm, node, process   text as the exporters print it

Times are true nanoseconds until a text is written.
"""
