import { readFileSync } from "node:fs";
import { availableParallelism, freemem, totalmem } from "node:os";

/** The host's own bounds, for `sandpool doctor` and for what a sandbox may be given. Null: the kernel does not say. */
export interface HostLimits {
  cores: number;
  memoryBytes: number;
  availableMemoryBytes: number;
  pids: number | null;
  threads: number | null;
  /** Hard limit of this process, and the most any process may be given. */
  openFiles: number;
  openFilesOfAnyProcess: number | null;
  mounts: number | null;
  userNamespaces: number | null;
}

export function readLimits(): HostLimits {
  return {
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    availableMemoryBytes: freemem(),
    pids: readNumber("/proc/sys/kernel/pid_max"),
    threads: readNumber("/proc/sys/kernel/threads-max"),
    openFiles: openFilesLimit(),
    openFilesOfAnyProcess: readNumber("/proc/sys/fs/nr_open"),
    mounts: readNumber("/proc/sys/fs/mount-max"),
    userNamespaces: readNumber("/proc/sys/user/max_user_namespaces"),
  };
}

/** The hard RLIMIT_NOFILE of this process; what it starts cannot have more (raising it takes CAP_SYS_RESOURCE, which a service may lack). */
export function openFilesLimit(): number {
  const text = readFileSync("/proc/self/limits", "latin1");
  const hard = text.match(/^Max open files\s+\S+\s+(\S+)/m)?.[1];
  return hard === undefined || hard === "unlimited" ? 1_048_576 : Number(hard);
}

export function readNumber(file: string): number | null {
  try {
    const value = Number(readFileSync(file, "latin1").trim());
    return Number.isFinite(value) ? value : null;
  } catch {
    return null;
  }
}
