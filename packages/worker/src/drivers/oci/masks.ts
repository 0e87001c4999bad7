/** Not even readable. The OCI runtimes' usual list, and what was found since. */
export const MASKED_PATHS = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kallsyms",
  "/proc/kcore",
  "/proc/keys",
  "/proc/key-users",
  "/proc/kmsg",
  "/proc/kpagecgroup",
  "/proc/kpagecount",
  "/proc/kpageflags",
  "/proc/latency_stats",
  "/proc/modules",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/sysrq-trigger",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/proc/vmallocinfo",
  "/sys/dev",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
  "/sys/fs",
  "/sys/hypervisor",
  "/sys/kernel",
  "/sys/module",
];

/** Mounted read-only over themselves: file modes alone would rest on the user namespace. */
export const READ_ONLY_PATHS = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];
