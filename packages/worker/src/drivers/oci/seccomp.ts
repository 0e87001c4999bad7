import { ALLOWED, DENIED } from "./syscalls.ts";

export interface SeccompArgument {
  index: number;
  value: number;
  valueTwo?: number;
  op: "SCMP_CMP_EQ" | "SCMP_CMP_MASKED_EQ";
}

export interface SeccompRule {
  names: string[];
  action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  errnoRet?: number;
  args?: SeccompArgument[];
}

export interface SeccompProfile {
  defaultAction: "SCMP_ACT_ERRNO";
  defaultErrnoRet: number;
  architectures: string[];
  syscalls: SeccompRule[];
}

const EPERM = 1;
const ENOSYS = 38;

/**
 * The allow-list of a sandbox, by hand. Unknown calls are ENOSYS, so that newer libraries fall back; known dangerous ones EPERM.
 * Other word sizes (32-bit entry, x32) are not in `architectures` and kill the process.
 * `pool` adds what the agent does for an environment; the agent stacks a narrower filter before anything of the user's runs.
 * `build` is for the making of images: chroot, and mounts that bind what is there already, never a new file system or namespace.
 */
export function seccompProfile(kind: "pool" | "build" | "none", architecture: string = process.arch): SeccompProfile {
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: ENOSYS,
    architectures: [architecture === "arm64" ? "SCMP_ARCH_AARCH64" : "SCMP_ARCH_X86_64"],
    syscalls: [
      { names: ALLOWED, action: "SCMP_ACT_ALLOW" },
      deny(DENIED.filter((name) => kind !== "build" || name !== "chroot")),
      ...(kind === "build" ? [CHROOT] : []),
      // Its flags lie in memory, where no filter can look; the C library then falls back to clone.
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
      ...cloneRules(),
      ...socketRules(),
      ...terminalRules(),
      ...personalityRules(),
      ...(kind === "pool" ? mountRules() : kind === "build" ? bindRules() : [deny(["mount", "umount2", "unshare"])]),
    ],
  };
}

const CHROOT: SeccompRule = { names: ["chroot"], action: "SCMP_ACT_ALLOW" };

const NAMESPACE_FLAGS = [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

function cloneRules(): SeccompRule[] {
  const all = NAMESPACE_FLAGS.reduce((sum, flag) => sum + flag, 0);
  return [
    allow("clone", masked(0, all, 0)),
    ...NAMESPACE_FLAGS.map((flag) => ({ ...deny(["clone"]), args: [masked(0, flag, flag)] })),
  ];
}

function socketRules(): SeccompRule[] {
  const families = { unix: 1, ipv4: 2, ipv6: 10, netlink: 16 };
  return Object.values(families).map((family) => allow("socket", equal(0, family)));
}

/** Everything but TIOCSTI and TIOCLINUX, which type into a terminal. The kernel looks at 32 bits only, so must the rule. */
function terminalRules(): SeccompRule[] {
  return blocksWithout([0x5412, 0x541c]).map((block) => allow("ioctl", masked(1, block.mask, block.value)));
}

/** Linux, a 32-bit-looking uname, their sum, and the question what it is. */
function personalityRules(): SeccompRule[] {
  return [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff].map((value) => allow("personality", equal(0, value)));
}

const MOUNT_FLAGS = {
  readOnly: 0x1,
  noSuid: 0x2,
  noDevices: 0x4,
  noExecute: 0x8,
  remount: 0x20,
  bind: 0x1000,
  recursive: 0x4000,
  silent: 0x8000,
  private: 0x4_0000,
  slave: 0x8_0000,
};
const DETACH = 2;
const NO_FOLLOW = 8;
const NEW_MOUNTS = 0x2_0000;
const CLONE_CLOSE_ON_EXEC = 0x8_0001;
const FROM_DESCRIPTOR = 0x4;

/**
 * New mounts, binds, remounts; never a move or a shared mount. New namespaces: mounts only, nothing else in the same call.
 * The new interface only as far as handing a detached copy of a workspace to the fork of a live environment needs it.
 */
function mountRules(): SeccompRule[] {
  const known = Object.values(MOUNT_FLAGS).reduce((sum, flag) => sum + flag, 0);
  return [
    allow("mount", masked(3, 0xffff_ffff - known, 0)),
    ...[0, DETACH, DETACH | NO_FOLLOW].map((flags) => allow("umount2", equal(1, flags))),
    allow("unshare", equal(0, NEW_MOUNTS)),
    allow("open_tree", equal(2, CLONE_CLOSE_ON_EXEC)),
    allow("move_mount", equal(4, FROM_DESCRIPTOR)),
  ];
}

/** Mounts of a build: what is bound has the flags and masks it had. */
function bindRules(): SeccompRule[] {
  const kept = MOUNT_FLAGS.bind | MOUNT_FLAGS.recursive | MOUNT_FLAGS.silent;
  return [
    allow("mount", masked(3, 0xffff_ffff - (kept - MOUNT_FLAGS.bind), MOUNT_FLAGS.bind)),
    ...[0, DETACH, DETACH | NO_FOLLOW].map((flags) => allow("umount2", equal(1, flags))),
    deny(["unshare"]),
  ];
}

/** The largest aligned blocks of 32-bit numbers that hold none of `excluded`, as mask and value. */
export function blocksWithout(excluded: readonly number[]): { mask: number; value: number }[] {
  const split = (value: number, bits: number): { mask: number; value: number }[] => {
    const size = 2 ** bits;
    const inside = excluded.some((number) => number >= value && number < value + size);
    if (!inside) return [{ mask: 2 ** 32 - size, value }];
    return bits === 0 ? [] : [...split(value, bits - 1), ...split(value + size / 2, bits - 1)];
  };
  return split(0, 32);
}

function allow(name: string, argument: SeccompArgument): SeccompRule {
  return { names: [name], action: "SCMP_ACT_ALLOW", args: [argument] };
}

function deny(names: string[]): SeccompRule {
  return { names, action: "SCMP_ACT_ERRNO", errnoRet: EPERM };
}

function equal(index: number, value: number): SeccompArgument {
  return { index, value, op: "SCMP_CMP_EQ" };
}

/** True where `argument & mask == value`. */
function masked(index: number, mask: number, value: number): SeccompArgument {
  return { index, value: mask, valueTwo: value, op: "SCMP_CMP_MASKED_EQ" };
}
