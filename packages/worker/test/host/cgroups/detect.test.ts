import { describe, expect, test } from "vitest";
import { detectCgroups } from "../../../src/host/cgroups/detect.ts";
import { mountOf, mountsBelow, parseMounts } from "../../../src/host/mountinfo.ts";

const folder = "/tmp";

describe("which cgroups a host has", () => {
  test("a hybrid host counts as version 1, and keeps every root for the removal", () => {
    const mounts = [
      { root: "/", point: folder, options: [], type: "cgroup", superOptions: ["rw", "memory"] },
      { root: "/", point: folder, options: [], type: "cgroup", superOptions: ["rw", "cpu", "cpuacct"] },
      { root: "/", point: "/elsewhere", options: [], type: "cgroup2", superOptions: ["rw"] },
    ];
    expect(detectCgroups(mounts)).toEqual({
      version: 1,
      controllers: { memory: folder, cpu: folder },
      roots: [folder, folder, "/elsewhere"],
    });
  });

  test("a hierarchy that cannot be written is none", () => {
    const mount = { root: "/", point: "/proc/sys/absent", options: [], type: "cgroup", superOptions: ["memory"] };
    expect(detectCgroups([mount])).toBeNull();
    expect(detectCgroups([])).toBeNull();
  });
});

describe("mountinfo", () => {
  const text = [
    "22 27 0:21 / / rw,relatime - ext4 /dev/sda rw",
    "23 22 0:22 / /usr ro,nodev shared:1 master:2 - ext4 /dev/sdb rw",
    "24 23 0:23 /sub /usr/local\\040files rw,noexec - tmpfs tmpfs rw,size=4k",
    "25 23 0:24 / /usrlocal rw - tmpfs tmpfs rw",
  ].join("\n");
  const mounts = parseMounts(text);

  test("optional fields and escaped spaces are read", () => {
    expect(mounts[2]).toEqual({
      root: "/sub",
      point: "/usr/local files",
      options: ["rw", "noexec"],
      type: "tmpfs",
      superOptions: ["rw", "size=4k"],
    });
  });

  test("a path belongs to its innermost mount, by whole names", () => {
    expect(mountOf("/usr/bin", mounts)?.point).toBe("/usr");
    expect(mountOf("/usr/local files/a", mounts)?.point).toBe("/usr/local files");
    expect(mountOf("/usrlocal2", mounts)?.point).toBe("/");
    expect(mountsBelow("/usr", mounts)).toEqual(["/usr/local files"]);
  });
});
