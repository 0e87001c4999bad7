import { stat } from "node:fs/promises";
import { isAbsolute, normalize } from "node:path";
import { DriverError } from "../driver.ts";
import type { MachineSpec } from "../machine.ts";

const ID = /^m[0-9a-z]{20}$/;

export function isMachineId(text: string): boolean {
  return ID.test(text);
}

/** Also an argument of the runtime's command line, a folder and a cgroup: nothing that could be an option or a path. */
export function checkMachineId(id: string): void {
  if (!isMachineId(id)) throw invalid(`the machine id ${JSON.stringify(id)} is not "m" and 20 characters of 0-9a-z`);
}

/** Checks a spec once, before anything is made. Past it, code trusts the fields. */
export async function checkMachineSpec(spec: MachineSpec): Promise<void> {
  checkMachineId(spec.id);
  if (!/^[a-z0-9]([a-z0-9-]{0,62})$/.test(spec.hostname)) {
    throw invalid(`the host name ${JSON.stringify(spec.hostname)} is not 1 to 63 lower-case letters, digits and "-"`);
  }
  const { vcpu, memoryBytes, diskBytes, processes } = spec;
  for (const [name, value] of Object.entries({ memoryBytes, diskBytes, processes })) {
    if (!Number.isSafeInteger(value) || value <= 0)
      throw invalid(`${name} is ${value}; a positive integer was expected`);
  }
  if (!(vcpu > 0 && vcpu <= 1024)) throw invalid(`vcpu is ${vcpu}; a number above 0 and at most 1024 was expected`);
  if (diskBytes < LEAST_DISK_BYTES)
    throw invalid(`diskBytes is ${diskBytes}; at least ${LEAST_DISK_BYTES} was expected`);
  for (const [name, value] of Object.entries(spec.environ)) {
    if (/^[^=\0]+$/.test(name) && !value.includes("\0")) continue;
    throw invalid(`the variable ${JSON.stringify(name)} has "=" or NUL in its name, or NUL in its value`);
  }
  if (spec.image.kind === "rootfs") await checkFolder(spec.image.folder);
}

/** mkfs.ext4 needs some room for itself. */
const LEAST_DISK_BYTES = 8 * 2 ** 20;

async function checkFolder(path: string): Promise<void> {
  checkPath(path);
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory() !== true) throw invalid(`the image's root ${JSON.stringify(path)} is not a folder`);
}

function checkPath(path: string): void {
  if (isAbsolute(path) && normalize(path) === path && !path.includes("\0")) return;
  throw invalid(`${JSON.stringify(path)} is not a normal absolute path`);
}

function invalid(message: string): DriverError {
  return new DriverError("sandbox_spec_invalid", message, "mend the request; nothing was made");
}
