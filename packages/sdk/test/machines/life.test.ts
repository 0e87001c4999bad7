import { describe, expect, test } from "vitest";
import { ArgumentError, type Machine, MachineStateError, NotFoundError, Sandbox } from "../../src/index.ts";
import { useMachines } from "../support/machines.ts";

const bench = useMachines();
const SMALL = { driver: "namespace", isolated: true } as const;

describe("a machine", () => {
  test("is what was asked for, and found by its id, its name, its labels", async () => {
    const phases = new Set<string>();
    const made = await bench().newMachine({
      name: "asked",
      size: { vcpu: 1, memory: "512MiB", disk: "1GiB" },
      environment: { GREETING: "hello" },
      labels: { team: "a=b" },
      lifetimeSeconds: 3600,
      onProgress: ({ phase }) => phases.add(phase),
    });
    const { machines } = bench();
    expect(made).toMatchObject({
      name: "asked",
      state: "running",
      size: { vcpu: 1, memory: 2 ** 29, disk: 2 ** 30 },
      environment: ["GREETING"],
      labels: { team: "a=b" },
      lifetime: 3600,
      network: "isolated",
    } satisfies Partial<Machine>);
    expect(phases.has("start")).toBe(true);
    expect((await machines.get("asked")).id).toBe(made.id);
    expect((await machines.list({ labels: { team: "a=b" }, state: "running" })).map(({ id }) => id)).toEqual([made.id]);
    expect(await machines.list({ labels: { team: "other" } })).toEqual([]);
    expect((await machines.exec("asked", { command: "echo $GREETING" })).stdout).toBe("hello\n");
    const changed = await machines.update(made.id, { name: "renamed", labels: {}, lifetimeSeconds: null });
    expect(changed).toMatchObject({ name: "renamed", labels: {}, lifetime: null });
    await machines.delete("renamed");
    await expect(machines.get(made.id)).rejects.toBeInstanceOf(NotFoundError);
  });

  test("that is stopped says so to every call, and starts again", async () => {
    const { machines } = bench();
    const { id } = await bench().newMachine({ name: "stops" });
    expect((await machines.stop(id)).state).toBe("stopped");
    const refused = machines.exec(id, { command: "true" });
    await expect(refused).rejects.toBeInstanceOf(MachineStateError);
    await expect(machines.waitUntilReady(id)).rejects.toMatchObject({ code: "machine_state", message: /stopped/ });
    await machines.start(id);
    expect((await machines.waitUntilReady(id)).state).toBe("running");
    await machines.delete(id);
  });

  test("that cannot be made leaves nothing, and a slip of the pen is refused here", async () => {
    const { machines } = bench();
    await expect(bench().newMachine({ name: "box" })).rejects.toMatchObject({ code: "name_taken" });
    await expect(bench().newMachine({ name: "none", image: "no-such-image" })).rejects.toMatchObject({
      code: "image_not_found",
    });
    await expect(machines.create({ lifetime: 5 } as never)).rejects.toBeInstanceOf(ArgumentError);
    await expect(machines.create({ isolated: undefined, size: { cpu: 1 } as never })).rejects.toMatchObject({
      code: "invalid_request",
    });
    expect((await machines.list()).map(({ name }) => name)).toEqual(["box"]);
  });

  test("row 29: several are made in one call, with the fate of each", async () => {
    const { machines } = bench();
    await bench().newMachine({ name: "burst-2" });
    const fates = await machines.createMany(3, { name: "burst", ...SMALL });
    expect(fates.map((fate) => ("machine" in fate ? fate.machine.name : fate.error.code))).toEqual([
      "burst-1",
      "name_taken",
      "burst-3",
    ]);
    for (const name of ["burst-1", "burst-2", "burst-3"]) await machines.delete(name);
  });
});

describe("a sandbox", () => {
  test("lives for its block, under a lease, and runs code of several languages", async () => {
    const { client, machines } = bench();
    let id: string;
    {
      await using sandbox = await client.sandbox(SMALL);
      ({ id } = sandbox);
      expect(sandbox).toBeInstanceOf(Sandbox);
      expect(sandbox.description.lease).toBe(300);
      expect((await sandbox.run("print(6 * 7)")).check().stdout).toBe("42\n");
      expect((await sandbox.run("echo $((6 * 7))", { language: "bash" })).check().stdout).toBe("42\n");
      expect((await sandbox.run("import sys; sys.exit(3)")).exitCode).toBe(3);
      expect((await sandbox.run("print(input())", { stdin: "given\n" })).check().stdout).toBe("given\n");
      const long = `x = ${JSON.stringify("y".repeat(300_000))}\nprint(len(x))`;
      expect((await sandbox.run(long)).check().stdout).toBe("300000\n");
      await sandbox.write("/root/f", "text");
      expect((await sandbox.read("/root/f")).toString()).toBe("text");
      await expect(sandbox.run("1", { language: "cobol" as never })).rejects.toBeInstanceOf(ArgumentError);
    }
    await expect(machines.get(id)).rejects.toBeInstanceOf(NotFoundError);
  });

  test("is deleted too when its block throws", async () => {
    const { client, machines } = bench();
    let id = "";
    const block = async (): Promise<void> => {
      await using sandbox = await client.sandbox(SMALL);
      ({ id } = sandbox);
      throw new Error("inside");
    };
    await expect(block()).rejects.toThrow("inside");
    await expect(machines.get(id)).rejects.toBeInstanceOf(NotFoundError);
  });
});

describe("a port", () => {
  test("is waited for, listed, and answers at its addresses, with a link without a key", async () => {
    const { machines, box, server } = bench();
    expect(await machines.url(box, 8123)).toMatchObject({ listening: false, public: false });
    const { id } = await machines.startExec(box, {
      argv: ["python3", "-m", "http.server", "8123", "-d", "/usr/share"],
    });
    await machines.waitUntilReady(box, { port: 8123 });
    const address = await machines.url(box, 8123);
    expect(address).toMatchObject({ listening: true, url: expect.stringContaining("//8123-box.localhost:") });
    const asked = await fetch(address.pathUrl, { headers: { authorization: `Bearer ${server.key}` } });
    expect([asked.status, await asked.text()]).toEqual([200, expect.stringContaining("Directory listing")]);
    expect((await fetch(address.pathUrl)).status).toBe(401);
    const { url } = await machines.link(box, 8123, { expiresSeconds: 60 });
    expect(new URL(url).hostname).toBe(`8123-${box}.localhost`);
    expect((await machines.setPort(box, 8123, { public: true })).public).toBe(true);
    expect((await fetch(address.pathUrl)).status).toBe(200);
    await machines.endExec(box, id);
  });
});
