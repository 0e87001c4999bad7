import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { arch } from "node:os";
import { DriverError } from "../../driver.ts";
import type { MachineSpec } from "../../machine.ts";
import type { MadeWith } from "../record.ts";

/** `manifest.json` of a state; contract: docs/internals/machine-states.md. */
export interface StateManifest {
  version: 1;
  machine: string;
  generation: number;
  /** Milliseconds since 1970. */
  created_at: number;
  runtime: MadeWith["runtime"];
  platform: string;
  architecture: string;
  cpu_features: string[];
  spec_hash: string;
  /** `host`, or the image's id. */
  image: string;
  image_hash: string;
  /** Without the values of its variables, which are not the state's to give away. */
  spec: MachineSpec;
  agent_sha256: string;
  /** `sha256` null: a transient state. */
  files: { name: string; bytes: number; sha256: string | null }[];
  parent: string | null;
}

/** What a host and a prepared machine offer to a state. */
export type StateNeeds = Pick<
  StateManifest,
  "runtime" | "platform" | "architecture" | "cpu_features" | "spec_hash" | "image" | "image_hash" | "agent_sha256"
>;

export const MANIFEST_FILE = "manifest.json";
/** Folder of the runtime's own files, in that of the state. */
export const IMAGE_FOLDER = "image";

/** @throws `state_refused` when there is none that can be read */
export async function readManifest(folder: string): Promise<StateManifest> {
  const text = await readFile(`${folder}/${MANIFEST_FILE}`, "utf8").catch((error: Error) => {
    throw refused(`the state ${folder} has no manifest (${error.message})`, "a state that was cut off in the making");
  });
  const manifest = parse(text);
  if (manifest?.version === 1 && Array.isArray(manifest.files)) return manifest;
  throw refused(
    `the manifest of ${folder} is no manifest of version 1`,
    "it was changed, or written by a later release",
  );
}

/** @throws `state_refused` with the first thing that does not fit */
export function checkFits(manifest: StateManifest, here: StateNeeds): void {
  const missing = manifest.cpu_features.filter((feature) => !here.cpu_features.includes(feature));
  const { runtime } = manifest;
  const checks: [boolean, string, string, string][] = [
    [runtime.sha256 === here.runtime.sha256, "runtime", named(runtime), named(here.runtime)],
    [manifest.agent_sha256 === here.agent_sha256, "agent", manifest.agent_sha256, here.agent_sha256],
    [manifest.platform === here.platform, "platform", manifest.platform, here.platform],
    [manifest.architecture === here.architecture, "architecture", manifest.architecture, here.architecture],
    [missing.length === 0, "processor features", missing.join(" "), "a processor without them"],
    [manifest.image === here.image, "image", manifest.image, here.image],
    [manifest.image_hash === here.image_hash, "image's content", manifest.image_hash, here.image_hash],
    [manifest.spec_hash === here.spec_hash, "spec", manifest.spec_hash, here.spec_hash],
  ];
  const wrong = checks.find(([fits]) => !fits);
  if (wrong === undefined) return;
  const [, what, expected, found] = wrong;
  throw refused(
    `the state needs another ${what}: expected ${expected}, found ${found}`,
    "restore it where it was saved, or save it anew here",
    { what, expected, found },
  );
}

/** @throws `state_refused` when a file is missing, or has another size or content */
export async function checkFiles(folder: string, manifest: StateManifest): Promise<void> {
  await Promise.all(
    manifest.files.map(async ({ name, bytes, sha256 }) => {
      const path = `${folder}/${IMAGE_FOLDER}/${name}`;
      const found = /^[\w.-]+$/.test(name) ? await stat(path).catch(() => null) : null;
      if (found?.isFile() !== true) throw damaged(name, "a file", "none");
      if (found.size !== bytes) throw damaged(name, `${bytes} bytes`, `${found.size}`);
      if (sha256 === null) return;
      const hash = await hashFile(path);
      if (hash !== sha256) throw damaged(name, sha256, hash);
    }),
  );
}

export async function hashFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 2 ** 20 })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

export function architecture(): string {
  return arch();
}

export function refused(message: string, hint: string, details: Record<string, unknown> = {}): DriverError {
  return new DriverError("state_refused", message, hint, details);
}

function damaged(name: string, expected: string, found: string): DriverError {
  return refused(
    `the state is damaged: ${name} should be ${expected}, found ${found}`,
    "nothing was started; use another state",
    { what: "files", name, expected, found },
  );
}

function named({ name, version, sha256 }: MadeWith["runtime"]): string {
  return `${name} ${version} (${sha256.slice(0, 12)})`;
}

function parse(text: string): StateManifest | null {
  try {
    return JSON.parse(text) as StateManifest | null;
  } catch {
    return null;
  }
}
