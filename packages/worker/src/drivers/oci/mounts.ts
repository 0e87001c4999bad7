import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { type MountEntry, mountOf, mountsBelow, readMounts } from "../../host/mountinfo.ts";
import type { SandboxMount } from "../driver.ts";
import type { OciMount } from "./spec.ts";

/** Folders that on a merged-usr host are links into /usr, and folders of their own elsewhere. */
const SYSTEM_FOLDERS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

export interface SystemLink {
  path: string;
  target: string;
}

/** The kernel's file systems and the private tmpfs of every sandbox. */
export function kernelMounts(): OciMount[] {
  const tmpfs = (destination: string, options: string[]): OciMount => ({
    destination,
    type: "tmpfs",
    source: "tmpfs",
    options: ["nosuid", "nodev", ...options],
  });
  return [
    { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev", "hidepid=2"] },
    { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "noexec", "mode=755", "size=64k"] },
    {
      destination: "/dev/pts",
      type: "devpts",
      source: "devpts",
      options: ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
    },
    tmpfs("/dev/shm", ["noexec", "mode=1777", "size=64m"]),
    { destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", "ro"] },
    tmpfs("/run", ["mode=755", "size=64m"]),
    tmpfs("/tmp", ["mode=1777", "size=256m"]),
  ];
}

/** The host's programs and libraries, read-only. Nothing else of the host is visible. */
export function systemMounts(etc: string, mounts: readonly MountEntry[] = readMounts()): OciMount[] {
  const folders = ["/usr", ...SYSTEM_FOLDERS.filter((path) => existsSync(path) && !lstatSync(path).isSymbolicLink())];
  const bound = folders.flatMap((folder) => [folder, ...mountsBelow(folder, mounts)]);
  return [
    ...bound.map((path) => bindMount({ source: path, target: path, readOnly: true }, mounts)),
    bindMount({ source: etc, target: "/etc", readOnly: true }, mounts),
  ];
}

export function systemLinks(): SystemLink[] {
  return SYSTEM_FOLDERS.filter((path) => existsSync(path) && lstatSync(path).isSymbolicLink()).map((path) => ({
    path,
    target: readlinkSync(path),
  }));
}

/** Always nosuid and nodev, so that no bit or node on the host's disk works inside. */
export function bindMount(mount: SandboxMount, mounts: readonly MountEntry[] = readMounts()): OciMount {
  const options = new Set(["bind", mount.readOnly ? "ro" : "rw", "nosuid", "nodev", "private"]);
  // In a user namespace the source's own restrictions are locked: a remount that leaves one out is refused (mount_namespaces(7)).
  const source = mountOf(mount.source, mounts)?.options ?? [];
  if (source.includes("noexec")) options.add("noexec");
  if (source.includes("ro")) {
    options.delete("rw");
    options.add("ro");
  }
  return { destination: mount.target, type: "bind", source: mount.source, options: [...options] };
}
