import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import { StatementSync } from "node:sqlite";
import { Duplex } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Armed, FromServer, Step, ToServer } from "./messages.ts";

// Loaded into a server under test before anything else (node --import). Every call by which the server changes something
// outside of itself is a step: files, its store, programs it starts, what it tells a shim. Just before the step it was
// armed for, a fault strikes. The server's own code knows nothing of this.

type Method = (this: unknown, ...values: unknown[]) => unknown;
type Methods = Record<string, Method>;

const FILE_CALLS = "writeFile appendFile mkdir rename link symlink unlink rm rmdir chown chmod copyFile truncate".split(
  " ",
);

delete process.env.NODE_OPTIONS;
let armed: Armed | null = null;
let steps: Step[] = [];
let isStruck = false;

for (const [owner, ending] of [
  [fs.promises, ""],
  [fs, ""],
  [fs, "Sync"],
] as unknown as [Methods, string][]) {
  for (const name of FILE_CALLS) wrap(owner, name + ending, (values) => fileLabel(name, values));
  wrap(owner, `open${ending}`, (values) => (isReading(values[1]) ? null : fileLabel("open", values)));
}
for (const name of ["spawn", "execFile", "spawnSync", "execFileSync"]) {
  wrap(childProcess as unknown as Methods, name, ([file, first]) => `start ${programLabel(file, first)}`);
}
wrap(StatementSync.prototype as unknown as Methods, "run", (_values, statement) => {
  return `store ${(statement as StatementSync).sourceSQL.split(/[ (]/, 3).slice(0, 3).join(" ")}`;
});
watchShims();
syncBuiltinESMExports();

process.on("message", (message: ToServer) => {
  if ("arm" in message) {
    [armed, steps, isStruck] = [message.arm, [], false];
    answer({ armed: true });
  } else if ("disarm" in message) {
    answer({ steps, isStruck });
    armed = null;
  } else {
    answer({ bytes: liveBytes() });
  }
});
process.channel?.unref();

function wrap(owner: Methods, name: string, label: (values: unknown[], self: unknown) => string | null): void {
  const original = owner[name];
  if (original === undefined) return;
  owner[name] = function (...values) {
    if (armed !== null) {
      const found = label(values, this);
      if (found !== null) step(armed, found);
    }
    return original.apply(this, values);
  };
  // `promisify(execFile)` has a form of its own.
  for (const symbol of Object.getOwnPropertySymbols(original)) {
    Object.defineProperty(owner[name], symbol, Object.getOwnPropertyDescriptor(original, symbol) as PropertyDescriptor);
  }
}

function step(arm: Armed, label: string): void {
  const earlier = steps.filter((one) => one.label === label).length;
  steps.push({ label, earlier });
  if (isStruck || arm.at?.label !== label || arm.at.earlier !== earlier) return;
  if (arm.fault === "kill") process.kill(process.pid, "SIGKILL");
  if (arm.fault === "terminate") {
    isStruck = true;
    process.kill(process.pid, "SIGTERM");
    return;
  }
  for (const id of fs.readdirSync(arm.machines).filter((name) => !arm.spared.includes(name))) {
    const pid = pidIn(`${arm.machines}/${id}/${arm.fault === "shim" ? "shim.pid" : "sandbox.json"}`);
    if (pid === null) continue;
    isStruck = true;
    process.kill(pid, "SIGKILL");
  }
}

/** Null where it was not written yet, or its process has ended. */
function pidIn(file: string): number | null {
  try {
    const { pid } = JSON.parse(fs.readFileSync(file, "utf8")) as { pid: number };
    process.kill(pid, 0);
    return pid;
  } catch {
    return null;
  }
}

function fileLabel(name: string, values: unknown[]): string | null {
  const path = values.slice(0, 2).findLast((value) => typeof value === "string" && value.startsWith("/"));
  if (typeof path !== "string" || path.startsWith("/proc/")) return null;
  return `${name} ${path.split("/").slice(-2).join("/")}`
    .replace(/m[0-9a-z]{20}|[0-9a-f-]{36}|[0-9a-f]{12}/g, "<id>")
    .replace(/uids\/\d+/, "uids/<n>");
}

function isReading(flags: unknown): boolean {
  if (typeof flags === "number") return (flags & (fs.constants.O_WRONLY | fs.constants.O_RDWR)) === 0;
  return flags === undefined || typeof flags === "function" || flags === "r" || flags === "rs";
}

function programLabel(file: unknown, first: unknown): string {
  const name = String(file).split("/").at(-1) ?? "";
  if (!Array.isArray(first)) return name;
  return `${name} ${String(first[0]).split("/").at(-1)}`.replace(/m[0-9a-z]{20}/, "<id>");
}

/** Requests to shims and agents are steps too. */
function watchShims(): void {
  const shims = new WeakSet<object>();
  const prototype = net.Socket.prototype as unknown as Methods;
  const connect = prototype.connect as Method;
  prototype.connect = function (...values) {
    const [first] = (Array.isArray(values[0]) ? values[0] : values) as unknown[];
    const path = typeof first === "string" ? first : (first as { path?: unknown } | undefined)?.path;
    if (typeof path === "string" && path.endsWith("/shim.sock")) shims.add(this as object);
    return connect.apply(this, values);
  };
  const write = Duplex.prototype.write as unknown as Method;
  prototype.write = function (...values) {
    if (armed !== null && shims.has(this as object) && Buffer.isBuffer(values[0])) {
      const operation = /"op":"([a-z.]+)"/.exec(values[0].toString("latin1"))?.[1];
      if (operation !== undefined) step(armed, `ask ${operation}`);
    }
    return write.apply(this, values);
  };
}

/** What is reachable, in bytes, after a full collection. */
function liveBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function answer(message: FromServer): void {
  process.send?.(message);
}
