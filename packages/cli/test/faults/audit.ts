import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { FaultServer } from "./faultServer.ts";

const MACHINE_ID = /m[0-9a-z]{20}/;

/**
 * Everything on this host that belongs to a server's machines, but for machines that are `known`: processes, mounts, cgroups,
 * interfaces, rules, files, uid ranges, loop devices. Empty when nothing leaked.
 */
export function leaks({ dataDir, hostKey, machines }: FaultServer, known: readonly string[]): string[] {
  const found = [
    ...list(machines).map((id) => `folder ${id}`),
    ...list(`${dataDir}/machines`).map((id) => `data ${id}`),
    ...uidSlots(hostKey),
    ...lines("/proc/self/mountinfo")
      .filter((line) => line.includes(hostKey) || line.includes(`${dataDir}/machines`))
      .map((line) => `mount ${line}`),
    ...groups(hostKey),
    ...interfaces(hostKey),
    ...loops(dataDir),
    ...processes(hostKey),
    ...drafts(dataDir),
  ];
  return found.filter((held) => {
    const id = MACHINE_ID.exec(held)?.[0];
    return id === undefined || !known.includes(id);
  });
}

function uidSlots(hostKey: string): string[] {
  const folder = "/run/sandpool/uids";
  const claims = list(folder).map((name) => [name, read(`${folder}/${name}`)] as const);
  return claims.filter(([, text]) => text.includes(`"${hostKey}"`)).map(([name, text]) => `uids ${name} ${text}`);
}

function groups(hostKey: string): string[] {
  const roots = lines("/proc/self/mountinfo")
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return roots.flatMap((root) => {
    const server = list(root).find((name) => name.includes(hostKey));
    return list(`${root}/${server}`)
      .filter((name) => MACHINE_ID.test(name))
      .map((name) => `cgroup ${root}/${server}/${name}`);
  });
}

/** Interfaces by their alias, and rules whose interface is gone. */
function interfaces(hostKey: string): string[] {
  const { stdout } = spawnSync("ip", ["-json", "link"], { encoding: "utf8" });
  const links = JSON.parse(stdout === "" ? "[]" : stdout) as { ifname: string; ifalias?: string }[];
  const ours = links.filter(({ ifalias }) => ifalias?.includes(hostKey) === true);
  const table = spawnSync("nft", ["list", "map", "inet", `sandpool_${hostKey}`, "policies"], { encoding: "utf8" });
  const ruled = [...table.stdout.matchAll(/"(spm[0-9a-f]{12})"/g)].map(([, name]) => name);
  return [
    ...ours.map(({ ifname, ifalias }) => `interface ${ifname} ${ifalias}`),
    ...ruled.filter((name) => !links.some(({ ifname }) => ifname === name)).map((name) => `rule for ${name}`),
  ];
}

function loops(dataDir: string): string[] {
  const names = list("/sys/block").filter((name) => name.startsWith("loop"));
  const files = names.map((name) => `${name} ${read(`/sys/block/${name}/loop/backing_file`).trim()}`);
  return files.filter((text) => text.includes(dataDir));
}

/** Processes of machines, alive: in their groups, or called with their folder. */
function processes(hostKey: string): string[] {
  return list("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      const text = `${read(`/proc/${pid}/cgroup`)} ${read(`/proc/${pid}/cmdline`)}`;
      const place = text.indexOf(hostKey);
      const id = place === -1 ? undefined : MACHINE_ID.exec(text.slice(place))?.[0];
      const isGone = /^State:\s+[ZX]/m.test(read(`/proc/${pid}/status`));
      return id === undefined || isGone ? [] : [`process ${pid} of ${id}: ${text.slice(place, place + 200)}`];
    });
}

/** Files that something was being written to, beside the saved disks. */
function drafts(dataDir: string): string[] {
  return list(`${dataDir}/machines`).flatMap((id) =>
    list(`${dataDir}/machines/${id}`)
      .filter((name) => name.includes("draft"))
      .map((name) => `half a file ${name} in ${dataDir}`),
  );
}

function lines(file: string): string[] {
  return read(file).split("\n");
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}
