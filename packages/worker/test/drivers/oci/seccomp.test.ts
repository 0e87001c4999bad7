import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { blocksWithout, seccompProfile } from "../../../src/drivers/oci/seccomp.ts";
import { ALLOWED, DENIED } from "../../../src/drivers/oci/syscalls.ts";

const word = fc.integer({ min: 0, max: 0xffff_ffff });

describe("the system call filter", () => {
  test("blocks cover every 32-bit number but the excluded ones", () => {
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 3 }), word, (excluded, number) => {
        const covered = blocksWithout(excluded).some(({ mask, value }) => (number & mask) >>> 0 === value);
        return covered === !excluded.includes(number);
      }),
    );
  });

  test("a number that differs in one bit from an excluded one is covered", () => {
    const blocks = blocksWithout([0x5412]);
    expect(blocks).toHaveLength(32);
    for (let bit = 0; bit < 32; bit++) {
      const number = (0x5412 ^ (2 ** bit)) >>> 0;
      expect(blocks.filter(({ mask, value }) => (number & mask) >>> 0 === value)).toHaveLength(1);
    }
  });

  test("no call is both allowed and denied, or listed twice", () => {
    const all = [...ALLOWED, ...DENIED];
    expect(new Set(all).size).toBe(all.length);
  });

  test("what is not listed is ENOSYS, and only the machine's own calls exist", () => {
    const profile = seccompProfile("none", "x64");
    expect([profile.defaultAction, profile.defaultErrnoRet]).toEqual(["SCMP_ACT_ERRNO", 38]);
    expect(profile.architectures).toEqual(["SCMP_ARCH_X86_64"]);
    expect(seccompProfile("none", "arm64").architectures).toEqual(["SCMP_ARCH_AARCH64"]);
  });

  test("mounts, and new mount namespaces, are for the agent of a pool alone", () => {
    const allowed = (kind: "pool" | "none"): string[] =>
      seccompProfile(kind)
        .syscalls.filter((rule) => rule.action === "SCMP_ACT_ALLOW")
        .flatMap((rule) => rule.names);
    const always = allowed("none");
    const onlyPool = new Set(allowed("pool").filter((name) => !always.includes(name)));
    expect([...onlyPool].sort()).toEqual(["mount", "move_mount", "open_tree", "umount2", "unshare"]);
  });

  test("every number survives JSON", () => {
    const profile = seccompProfile("pool");
    expect(JSON.parse(JSON.stringify(profile))).toEqual(profile);
    for (const { args = [] } of profile.syscalls) {
      for (const { value, valueTwo = 0 } of args) expect([value, valueTwo].every(Number.isSafeInteger)).toBe(true);
    }
  });
});
