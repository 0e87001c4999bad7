import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import type { MachineSpec } from "../../machine.ts";
import type { OciSpec } from "../../oci/spec.ts";
import type { MachineFolders } from "../folders.ts";
import type { MachineRuntime } from "../kind.ts";
import { type MachineRecord, type MadeWith, readJson } from "../record.ts";
import { architecture, hashFile, refused, type StateNeeds } from "./manifest.ts";

const hashes = new Map<string, Promise<string>>();

/** SHA-256 of a program, computed once for each file that stands there. */
export async function hashProgram(path: string): Promise<string> {
  const { dev, ino, size, mtimeMs } = await stat(path);
  const key = [path, dev, ino, size, mtimeMs].join(":");
  const hash = hashes.get(key) ?? hashFile(path);
  hashes.set(key, hash);
  return await hash;
}

/** What a machine is made with; its mounts keep these programs while it lives, whatever is installed later. */
export async function madeWith(runtime: MachineRuntime, agentPath: string): Promise<MadeWith> {
  const { name, version, path } = runtime;
  return {
    runtime: { name, version, sha256: await hashProgram(path) },
    agentSha256: await hashProgram(agentPath),
  };
}

/** What a machine that is prepared or runs offers to a state. */
export async function fingerprint(folders: MachineFolders, record: MachineRecord): Promise<StateNeeds> {
  const config = await readJson<OciSpec>(`${folders.bundle}/config.json`);
  const shim = await readJson<{ runtime: { flags: string[] } }>(folders.shimSettings);
  const { made, spec } = record;
  if (config === null || shim === null || made === undefined) {
    throw refused("the machine was made by an earlier release, or is gone", "make it anew");
  }
  const { flags } = shim.runtime;
  const { image, hash } = await imageOf(spec);
  return {
    runtime: made.runtime,
    agent_sha256: made.agentSha256,
    platform: flags.find((flag) => flag.startsWith("--platform="))?.slice("--platform=".length) ?? "unknown",
    architecture: architecture(),
    cpu_features: await cpuFeatures(),
    spec_hash: specHash(config, flags, folders.folder),
    image,
    image_hash: hash,
  };
}

/** Over what a restore may not change. Host name, variables, cgroups and where things lie on the host may. */
export function specHash(config: OciSpec, flags: readonly string[], folder: string): string {
  const { env: _env, ...process } = config.process;
  const { cgroupsPath: _path, namespaces, ...linux } = config.linux;
  const kept = {
    process,
    readonly: config.root.readonly,
    mounts: config.mounts.map(({ destination, type, options }) => ({ destination, type, options })),
    linux: { ...linux, namespaces: namespaces.map(({ type }) => type) },
    flags: flags.map((flag) => flag.replaceAll(folder, "")),
  };
  return `sha256:${createHash("sha256").update(JSON.stringify(kept)).digest("hex")}`;
}

async function cpuFeatures(): Promise<string[]> {
  const text = await readFile("/proc/cpuinfo", "utf8");
  const line = text.match(/^(?:flags|Features)\s*:\s*(.*)$/m)?.[1] ?? "";
  return line.split(" ").filter(Boolean).toSorted();
}

/** A root file system is known by the digest in its path; the host's programs by the list of its packages. */
async function imageOf({ image }: MachineSpec): Promise<{ image: string; hash: string }> {
  if (image.kind === "rootfs") {
    const digest = image.folder.match(/[0-9a-f]{64}/)?.[0];
    const id = digest === undefined ? `folder:${image.folder}` : `sha256:${digest}`;
    return { image: id, hash: id };
  }
  const hash = createHash("sha256");
  for (const file of [
    "/etc/os-release",
    "/var/lib/dpkg/status",
    "/lib/apk/db/installed",
    "/var/lib/rpm/rpmdb.sqlite",
  ]) {
    hash.update(`${file}\n`).update(await readFile(file).catch(() => Buffer.alloc(0)));
  }
  return { image: "host", hash: `sha256:${hash.digest("hex")}` };
}
