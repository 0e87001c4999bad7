import { readdirSync, readFileSync } from "node:fs";
import { sleep } from "../../host/concurrency.ts";
import { type ProcessStat, readStat } from "../../host/identity.ts";

const ROUND_MS = 20;
const LIMIT_MS = 3_000;

/**
 * Kills every process that came from `root`: its descendants, whoever is in the session it leads, and whoever carries its mark in
 * the environment, which a process that left both still has. Rounds go on until none is found twice running, so that one that
 * forks meanwhile, or whose environment could not be read in the middle of an exec, is met in the next.
 * @param includeRoot whether `root` still runs and is ours to signal.
 * @returns pids still alive after three seconds.
 */
export async function killDescendants(root: number, mark: string, includeRoot: boolean): Promise<number[]> {
  const deadline = performance.now() + LIMIT_MS;
  const known = new Map<number, string>();
  for (let emptyRounds = 0; ; ) {
    const alive = findDescendants(root, mark, known, includeRoot);
    emptyRounds = alive.length === 0 ? emptyRounds + 1 : 0;
    if (emptyRounds === 2) return [];
    // Stopped first: a parent that is killed last cannot start another child in between.
    for (const stat of alive) signal(stat, "SIGSTOP");
    for (const stat of findDescendants(root, mark, known, includeRoot)) signal(stat, "SIGKILL");
    if (performance.now() > deadline) return findDescendants(root, mark, known, includeRoot).map(({ pid }) => pid);
    await sleep(ROUND_MS);
  }
}

function findDescendants(root: number, mark: string, known: Map<number, string>, includeRoot: boolean): ProcessStat[] {
  const all = readAll();
  const ours = new Set<number>();
  const belongs = (stat: ProcessStat): boolean =>
    (stat.pid === root ? includeRoot : stat.session === root || ours.has(stat.parent) || stat.parent === root) ||
    known.get(stat.pid) === stat.startTime ||
    carriesMark(stat.pid, mark);
  for (let before = -1; before !== ours.size; ) {
    before = ours.size;
    for (const stat of all) if (!ours.has(stat.pid) && belongs(stat)) ours.add(stat.pid);
  }
  const found = all.filter((stat) => ours.has(stat.pid) && stat.state !== "Z" && stat.state !== "X");
  for (const stat of found) known.set(stat.pid, stat.startTime);
  return found;
}

function readAll(): ProcessStat[] {
  return readdirSync("/proc").flatMap((name) => {
    const stat = /^\d+$/.test(name) && Number(name) !== process.pid ? readStat(Number(name)) : null;
    return stat === null ? [] : [stat];
  });
}

function carriesMark(pid: number, mark: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`SANDPOOL_SANDBOX=${mark}`);
  } catch {
    return false;
  }
}

/** Compares the start time right before the signal; Node has no pidfd, and the window left is a few microseconds. */
function signal(stat: ProcessStat, name: NodeJS.Signals): void {
  if (readStat(stat.pid)?.startTime !== stat.startTime) return;
  try {
    process.kill(stat.pid, name);
  } catch {
    // Gone, or another user's.
  }
}
