import { open, rename, rm } from "node:fs/promises";
import { makeFolder } from "../../host/make-folder.ts";
import { runTool } from "../../host/run.ts";
import { DriverError } from "../driver.ts";
import type { MachineSpec } from "../machine.ts";
import type { MachineFolders } from "../machines/folders.ts";
import type { MachineKind, MachineRuntime, Plan, PlanInput, ShimMount } from "../machines/kind.ts";
import { bindsOf, imageBind, machineOciSpec } from "../machines/plan.ts";
import { readJson, writeJson } from "../machines/record.ts";
import { findRuntime, isKnownVulnerable } from "../namespace/runtime.ts";

/** Where a link in an image would redirect what the runtime mounts (classes 4 to 7 of the escapes we know). */
const FOLDERS_OF_MOUNTS = ["proc", "sys", "dev", "dev/pts", "dev/shm", "run", "sandpool", "usr", "etc"];

/** Machines by an ordinary OCI runtime: the host's kernel, its native speed, and a user namespace of the machine's range. */
export const namespaceKind: MachineKind = {
  name: "namespace",
  canFork: false,
  unprivileged: true,
  detect,
  hostProcesses: (processes) => processes,
  makeLayer,
  plan,
  useDisk,
  tarArguments: (folders) => [
    "--inside",
    ...["tar", "--create", "--file=-", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--sparse"],
    ...[`--directory=${folders.folder}/disk/upper`, "."],
  ],
};

async function detect(): Promise<MachineRuntime | { reason: string; hint: string }> {
  if (process.platform !== "linux" || process.geteuid?.() !== 0) {
    return {
      reason: "machines need root on Linux: mounts and host uids of their own",
      hint: "start the server as root",
    };
  }
  const runtime = await findRuntime();
  if (runtime?.name !== "runc") return { reason: "runc is not installed", hint: "apt-get install -y runc" };
  if (isKnownVulnerable(runtime)) {
    return {
      reason: `runc ${runtime.version} predates 1.1.12, whose programs can reach the host (CVE-2024-21626)`,
      hint: "upgrade runc: apt-get install --only-upgrade -y runc",
    };
  }
  return { ...runtime, warnings: [] };
}

/** A sparse file: the exact limit, and no space before it is used. No journal: after a crash the disk is that of the last save. */
async function makeLayer(folders: MachineFolders, spec: MachineSpec): Promise<void> {
  await makeFolder(folders.layer, 0o700);
  const file = diskOf(folders);
  const handle = await open(file, "wx", 0o600);
  await handle.truncate(spec.diskBytes).finally(() => handle.close());
  const features = ["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", "-m", "0"];
  const made = await runTool("mkfs.ext4", ["-q", "-F", ...features, file], { timeoutMs: 60_000 });
  if (made.code === 0) return;
  await rm(file, { force: true });
  throw new DriverError(
    "sandbox_start_failed",
    `mkfs.ext4 could not make the machine's disk: ${made.stderr.trim().slice(0, 500)}`,
    "install e2fsprogs, and see that the data folder has room",
  );
}

function plan(input: PlanInput): Plan {
  const { folders, groups } = input;
  const [lower, disk, root] = ["lower", "disk", "root"].map((name) => `${folders.folder}/${name}`) as [
    string,
    string,
    string,
  ];
  return {
    userNamespace: false,
    runtime: { kind: "runc", path: input.runtime.path, flags: [] },
    mounts: [
      imageBind(input, lower),
      { kind: "ext4", source: diskOf(folders), target: disk, folders: ["upper", "work"], unpack: null },
      { kind: "overlay", lower, upper: `${disk}/upper`, work: `${disk}/work`, target: root },
      { kind: "check", root, folders: FOLDERS_OF_MOUNTS },
      ...bindsOf(input),
    ],
    config: machineOciSpec(input, {
      capabilities: "machine",
      isMapped: true,
      cgroupsPath: groups?.processPath ?? null,
      extraMounts: [],
    }),
  };
}

async function useDisk(folders: MachineFolders): Promise<void> {
  const tar = `${folders.layer}/disk.tar`;
  await rename(`${folders.data}/disk.tar`, tar);
  const settings = await readJson<{ mounts: ShimMount[] }>(folders.shimSettings);
  for (const mount of settings?.mounts ?? []) if (mount.kind === "ext4") mount.unpack = tar;
  await writeJson(folders.shimSettings, settings);
}

function diskOf(folders: MachineFolders): string {
  return `${folders.layer}/disk.ext4`;
}
