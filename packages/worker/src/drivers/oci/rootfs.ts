import { chmod, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, posix } from "node:path";
import { makeFolder, makeFoldersBelow } from "../../host/make-folder.ts";
import { DriverError, type SandboxMount } from "../driver.ts";
import type { SystemLink } from "./mounts.ts";
import type { OciMount } from "./spec.ts";

/**
 * Makes the root folder with an empty mount point for everything that is mounted. The runtime cannot: inside the user namespace it
 * owns nothing here, which is also why nothing inside can change it.
 */
export async function makeRootfs(
  rootfs: string,
  mounts: readonly OciMount[],
  links: readonly SystemLink[],
): Promise<void> {
  await makeFolder(rootfs, 0o755);
  for (const link of links) await symlink(link.target, rootfs + link.path);
  await makeFolder(`${rootfs}/workspace`, 0o755);
  const covered: OciMount[] = [];
  for (const mount of mounts) {
    const over = covered.findLast((other) => isBelow(mount.destination, other.destination));
    if (over === undefined) await makeMountPoint(rootfs, mount);
    else await requireMountPoint(mount, over);
    covered.push(mount);
  }
}

async function makeMountPoint(rootfs: string, mount: OciMount): Promise<void> {
  const path = rootfs + mount.destination;
  if (mount.type !== "bind" || (await stat(mount.source)).isDirectory()) {
    await makeFoldersBelow(rootfs, mount.destination);
    // runc gives a tmpfs the mode of the folder it covers, whatever its own `mode=` says.
    const mode = mount.options.find((option) => option.startsWith("mode="))?.slice("mode=".length);
    if (mode !== undefined) await chmod(path, Number.parseInt(mode, 8));
    return;
  }
  await makeFoldersBelow(rootfs, dirname(mount.destination));
  await writeFile(path, "", { mode: 0o444 });
}

/** On a tmpfs the runtime makes the mount point itself; in a read-only bind it has to be there already. */
async function requireMountPoint(mount: OciMount, over: OciMount): Promise<void> {
  if (over.type !== "bind") return;
  const path = over.source + mount.destination.slice(over.destination.length);
  const found = await stat(path).catch(() => null);
  if (found !== null) return;
  throw invalid(
    `the mount target ${mount.destination} lies inside the mount of ${over.source} on ${over.destination}, but ${path} does not exist`,
    "make that path in the outer folder first, or mount side by side",
  );
}

/** Checks what a caller asked to have mounted; the edge that owns these paths. */
export async function checkMounts(mounts: readonly SandboxMount[]): Promise<void> {
  for (const { source, target } of mounts) {
    for (const [name, path] of Object.entries({ source, target })) {
      if (path.startsWith("/") && posix.normalize(path) === path && path !== "/" && !path.includes("\0")) continue;
      throw invalid(
        `the mount ${name} ${JSON.stringify(path)} is not a normal absolute path below /`,
        "resolve it first",
      );
    }
    if (RESERVED.some((reserved) => target === reserved || isBelow(target, reserved))) {
      throw invalid(
        `the mount target ${target} is reserved; ${RESERVED.join(", ")} are the sandbox's own`,
        "choose another target",
      );
    }
    const found = await stat(source).catch(() => null);
    if (found === null) throw invalid(`the mount source ${source} does not exist`, "make it before the start");
  }
}

const RESERVED = ["/proc", "/sys", "/dev", "/etc"];

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(`${folder}/`);
}

function invalid(message: string, hint: string): DriverError {
  return new DriverError("sandbox_spec_invalid", message, hint);
}
