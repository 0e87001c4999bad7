import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { ShimConnection } from "../../../src/drivers/machine.ts";
import { checkFits, type StateManifest } from "../../../src/drivers/machines/states/manifest.ts";
import { quiet, restore, statePlace } from "./states-support.ts";
import {
  Guest,
  killProcess,
  LIMIT_MS,
  machineFolder,
  machineLeftovers,
  machineSpec,
  makeMachineHost,
  pidOf,
  startGuest,
} from "./support.ts";

const host = makeMachineHost("gvisor");
const probe = await host.driver.probeMachines();
const IDENTITY = { generation: 1, machineId: "0".repeat(32), copy: true };

describe.skipIf(!probe.available)("states of machines that fail", { timeout: 4 * LIMIT_MS }, () => {
  const { driver } = host;
  const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS);

  afterEach(async () => {
    for (const id of await driver.list()) await driver.remove(id);
    expect(await machineLeftovers(host)).toEqual([]);
  });
  afterAll(() => host.remove());

  async function save(source: Guest): Promise<string> {
    const folder = statePlace(host);
    await driver.checkpoint(source.id, folder, quiet(source), { parent: null });
    return folder;
  }

  test("row 49: a state that is damaged or does not fit is refused with the reason, before anything of it runs", async () => {
    const source = await startGuest(host);
    const folder = await save(source);
    const refuse = async (message: string, spec = {}): Promise<void> => {
      await expect(restore(host, folder, { spec })).rejects.toMatchObject({
        code: "state_refused",
        message: expect.stringContaining(message),
      });
      expect(await driver.list()).toEqual([source.id]);
    };
    await refuse("another spec", { diskBytes: 128 * 2 ** 20 });
    for (const name of ["checkpoint.img", "pages.img", "pages_meta.img"]) {
      const file = `${folder}/image/${name}`;
      const whole = readFileSync(file);
      const flipped = Buffer.from(whole);
      flipped[whole.length >> 1] = (flipped[whole.length >> 1] ?? 0) ^ 1;
      writeFileSync(file, flipped);
      await refuse(`damaged: ${name}`);
      writeFileSync(file, whole);
    }
    const manifest = readFileSync(`${folder}/manifest.json`, "utf8");
    writeFileSync(`${folder}/manifest.json`, manifest.slice(0, -20));
    await refuse("is no manifest");
    writeFileSync(`${folder}/manifest.json`, manifest);
    expect(await (await restore(host, folder)).guest.shell("echo whole")).toBe("whole\n");
  });

  test("row 49: whatever a state needs and the host has not is named", () => {
    const here = {
      ...{ runtime: { name: "runsc", version: "1", sha256: "aa" }, platform: "systrap", architecture: "x64" },
      ...{ cpu_features: ["avx", "sse"], spec_hash: "s", image: "host", image_hash: "h", agent_sha256: "a" },
    };
    const needs = (other: Partial<StateManifest>): (() => void) => {
      return () => checkFits({ ...here, ...other } as StateManifest, here);
    };
    expect(needs({})).not.toThrow();
    expect(needs({ cpu_features: ["sse"] })).not.toThrow();
    const wrong: [Partial<StateManifest>, string][] = [
      [
        { runtime: { name: "runsc", version: "2", sha256: "bb" } },
        "another runtime: expected runsc 2 (bb), found runsc 1",
      ],
      [{ platform: "kvm" }, "another platform: expected kvm, found systrap"],
      [{ cpu_features: ["amx", "sse"] }, "another processor features: expected amx"],
      [{ agent_sha256: "b" }, "another agent"],
      [{ image: "sha256:1" }, "another image"],
      [{ spec_hash: "t" }, "another spec"],
    ];
    for (const [other, message] of wrong) expect(needs(other)).toThrow(message);
  });

  test("a full disk leaves the machine as it was, and no state", async () => {
    const source = await startGuest(host);
    const counted = await source.start(["/bin/sh", "-c", "until [ -e /srv/go ]; do sleep 0.02; done; echo went on"]);
    const small = `${host.dataDir}/small`;
    mkdirSync(small);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=256k", "tmpfs", small]);
    try {
      await expect(
        driver.checkpoint(source.id, `${small}/state`, quiet(source), { parent: null }),
      ).rejects.toMatchObject({ code: "state_failed" });
      expect(readdirSync(small)).toEqual([]);
    } finally {
      execFileSync("umount", [small]);
    }
    await source.shell("echo >/srv/go");
    const { body } = await source.channel.ask({ op: "exec.wait", id: counted, collect: true });
    expect(body.toString()).toBe("went on\n");
    const copy = await restore(host, await save(source));
    expect(await copy.guest.shell("ls /srv")).toBe("go\n");
  });

  test("the runtime, or the shim, killed while the state is written: the machine lives or says how it ended, and no half state is there", async () => {
    for (const kill of ["checkpoint", "shim"] as const) {
      const source = await startGuest(host);
      const folder = statePlace(host);
      const written = driver.checkpoint(source.id, folder, quiet(source), { parent: null }).then(
        () => "written",
        (error: { code: string }) => error.code,
      );
      const pid = kill === "shim" ? pidOf(host, source.id, "shim.pid") : await findCheckpoint(source.id);
      if (pid !== null) await killProcess(pid).catch(() => undefined);
      const outcome = await written;
      expect([kill, outcome]).toEqual([kill, expect.stringMatching(/^(written|state_failed)$/)]);
      expect([existsSync(folder), existsSync(`${folder}.draft`)]).toEqual([outcome === "written", false]);
      const later = new Guest((await host.restart().adopt(source.id)) as ShimConnection);
      expect(await later.shell("echo lives")).toBe("lives\n");
      await driver.remove(source.id);
    }
  });

  test("a machine that was to be restored is removed whole when its shim or its sandbox is killed, at any moment", async () => {
    const source = await startGuest(host);
    const folder = await save(source);
    for (const victim of ["shim.pid", "sandbox.json"] as const) {
      for (const ms of [-1, 0, 20, 60, 120]) {
        const spec = machineSpec();
        await driver.prepareRestore(spec, signal());
        const pid = pidOf(host, spec.id, victim);
        if (ms < 0) await killProcess(pid);
        const restored = driver.restore(spec.id, folder, IDENTITY, signal()).then(
          () => "ran",
          () => "failed",
        );
        if (ms >= 0) {
          await sleep(ms);
          await killProcess(pid).catch(() => undefined);
        }
        expect(["ran", "failed"]).toContain(await restored);
        await driver.remove(spec.id);
        expect(await driver.list()).toEqual([source.id]);
      }
    }
    expect(existsSync(`${folder}/manifest.json`)).toBe(true);
    expect(await source.shell("echo lives")).toBe("lives\n");
  });

  test("an abort, and a server that died before the restore, leave nothing of the copy", async () => {
    const source = await startGuest(host);
    const folder = await save(source);
    const aborted = machineSpec();
    await driver.prepareRestore(aborted, signal());
    const controller = new AbortController();
    const restoring = driver.restore(aborted.id, folder, IDENTITY, controller.signal);
    controller.abort(new Error("enough"));
    await expect(restoring).rejects.toThrow("enough");
    const prepared = machineSpec();
    await driver.prepareRestore(prepared, signal());
    expect(await host.restart().adopt(prepared.id)).toMatchObject({ started: false });
    await driver.remove(prepared.id);
    expect(await driver.list()).toEqual([source.id]);
    // A transient state is for the process that wrote it.
    const transient = statePlace(host);
    await driver.checkpoint(source.id, transient, quiet(source), { parent: null, transient: true });
    const other = machineSpec();
    await driver.prepareRestore(other, signal());
    await expect(host.restart().restore(other.id, transient, IDENTITY, signal())).rejects.toMatchObject({
      code: "state_refused",
    });
  });

  test("the driver namespace keeps no states, and names the one that does", async () => {
    const namespace = makeMachineHost("namespace");
    const { id } = machineSpec();
    const refusal = { code: "fork_unsupported", hint: expect.stringContaining("gvisor") };
    const session = { quiesce: async () => undefined, thaw: async () => undefined };
    const calls = [
      namespace.driver.pause(id),
      namespace.driver.resume(id),
      namespace.driver.checkpoint(id, statePlace(namespace), session, { parent: null }),
      namespace.driver.prepareRestore(machineSpec(), signal()),
      namespace.driver.restore(id, statePlace(namespace), IDENTITY, signal()),
    ];
    for (const call of calls) await expect(call).rejects.toMatchObject(refusal);
    namespace.remove();
  });
});

/** Pid of the runtime's call that writes a machine's state; null when it has ended already. */
async function findCheckpoint(id: string): Promise<number | null> {
  for (let again = 0; again < 2000; again += 1) {
    for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
      const command = readCommand(pid);
      if (command.includes(id) && command.includes("checkpoint\0--image-path")) return Number(pid);
    }
    if (existsSync(`${machineFolder(host, id)}/exit.json`)) return null;
    await sleep(1);
  }
  return null;
}

function readCommand(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}
