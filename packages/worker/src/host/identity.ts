import { readFileSync } from "node:fs";

/** A process that can be told from every later one with the same pid. */
export interface ProcessIdentity {
  pid: number;
  /** Field 22 of /proc/<pid>/stat, in clock ticks since boot. */
  startTime: string;
  bootId: string;
}

export function ownIdentity(): ProcessIdentity {
  return { pid: process.pid, startTime: readStartTime(process.pid) ?? "0", bootId: readBootId() };
}

/** False for a dead process, a recycled pid, and anything recorded before the last boot. */
export function isAlive(identity: ProcessIdentity): boolean {
  return identity.bootId === readBootId() && readStartTime(identity.pid) === identity.startTime;
}

/** Null when the process does not exist (or is a zombie: nothing of it runs any more). */
export function readStartTime(pid: number): string | null {
  const stat = readStat(pid);
  if (stat === null || stat.state === "Z" || stat.state === "X") return null;
  return stat.startTime;
}

export interface ProcessStat {
  pid: number;
  state: string;
  parent: number;
  group: number;
  session: number;
  startTime: string;
}

export function readStat(pid: number): ProcessStat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return null;
  }
  // The name in parentheses may itself hold spaces and parentheses: only what follows the last one can be split.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    pid,
    state: fields[0] ?? "X",
    parent: Number(fields[1]),
    group: Number(fields[2]),
    session: Number(fields[3]),
    startTime: fields[19] ?? "0",
  };
}

export function parseIdentity(value: unknown): ProcessIdentity | null {
  if (typeof value !== "object" || value === null) return null;
  const { pid, startTime, bootId } = value as Record<string, unknown>;
  if (!Number.isInteger(pid) || typeof startTime !== "string" || typeof bootId !== "string") return null;
  return { pid: pid as number, startTime, bootId };
}

let bootId: string | null = null;

function readBootId(): string {
  bootId ??= readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  return bootId;
}
