"""What the job, NCCL and the kernel would have written: lines with the clock of the host that writes them."""
