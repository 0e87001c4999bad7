import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { hostFolders } from "../../src/host/folders.ts";
import { type Actor, places, startActor, World } from "./world.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const open = { kind: "open" } as const;
const egress = { kind: "egress", hosts: ["one.example"] } as const;

describe.skipIf(process.geteuid?.() !== 0)("a network's life", () => {
  let world: World;
  let one: Actor;

  beforeEach(async () => {
    world = await World.make();
    await serveInternet();
    one = await world.startMachine();
    await world.connect("m-one", open, one);
  });
  afterEach(() => world?.end());

  async function serveInternet(): Promise<void> {
    await world.internet.serve("internet", places.public, 8080);
    await world.internet.serve("metadata", places.metadata, 80);
    await world.host.serveNames("127.0.0.1", 5353, { "one.example": [places.public] });
  }

  function servicePids(): number[] {
    const control = `"control":"${hostFolders(world.dataDir).own}/`;
    return readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry))
      .map(Number)
      .filter((pid) => commandOf(pid).includes(control));
  }

  test("class 46: a server that was killed leaves the rules, the way out and the names; its next start takes them over", async () => {
    const outer = await world.adopt("m-one", open, one);
    await world.killHost();
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await one.tcp(places.metadata, 80)).toEqual({ reached: false, why: "ECONNREFUSED" });
    await world.host.serveNames("127.0.0.1", 5353, { "one.example": [places.public] });
    expect(await one.lookUp(places.gateway, "one.example")).toEqual([places.public]);
    const [service] = servicePids();
    await world.createNetworks();
    expect(await world.adopt("m-one", open, one)).toBe(outer);
    expect(servicePids()).toEqual([service]);
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await one.lookUp(places.gateway, "one.example")).toEqual([places.public]);
    const two = await world.startMachine();
    expect(await world.connect("m-two", open, two)).not.toBe("");
    expect(await two.tcp(places.public, 8080)).toMatchObject({ reached: true });
  });

  test("class 46: a list stands again when its machine is adopted, whatever the table said", async () => {
    await world.killHost();
    await world.host.serveNames("127.0.0.1", 5353, { "one.example": [places.public] });
    await world.createNetworks();
    await world.adopt("m-one", egress, one);
    expect(await one.tcp(places.public, 8080)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await one.lookUp(places.gateway, "two.example")).toBe("EREFUSED");
  });

  test("rules that somebody flushed stand again after the next start, those of unknown machines are gone", async () => {
    const two = await world.startMachine();
    await world.connect("m-two", open, two);
    await world.killHost();
    await world.host.run(["nft", "flush", "ruleset"]);
    await world.createNetworks();
    await world.host.networks("reconcile", ["m-one"]);
    await world.adopt("m-one", open, one);
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await one.tcp(places.metadata, 80)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await two.run(["ip", "link"])).not.toContain("eth0");
    const links = await world.host.run(["ip", "-brief", "link"]);
    expect(links.match(/spm\w+/g)).toHaveLength(1);
  });

  test("rules that somebody flushed stand again while the server runs, and without them nothing is reached", async () => {
    await world.host.serve("host", places.host, 7070);
    await world.host.run(["nft", "flush", "ruleset"]);
    expect(await one.tcp(places.host, 7070, { waitMs: 700 })).toMatchObject({ reached: false });
    expect(await one.tcp(places.metadata, 80, { waitMs: 700 })).toMatchObject({ reached: false });
    await expect
      .poll(() => one.tcp(places.public, 8080, { waitMs: 500 }), { timeout: 45_000, interval: 500 })
      .toMatchObject({ reached: true });
    expect(await one.tcp(places.metadata, 80)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await world.host.warnings()).toEqual([expect.stringContaining("were gone, and are made again")]);
  });

  test("a service that was killed is started again, and knows every machine", async () => {
    const [service] = servicePids();
    process.kill(service as number, "SIGKILL");
    await world.host.networks("disconnect", "m-unknown");
    await expect.poll(() => one.lookUp(places.gateway, "one.example"), { timeout: 20_000 }).toEqual([places.public]);
    const [next] = servicePids();
    expect(next).not.toBe(service);
  });

  test("the service is a user of its own without any right, and no other process of the host has it", async () => {
    const [service] = servicePids();
    const status = await world.host.read(`/proc/${service}/status`);
    const field = (name: string): string => (new RegExp(`^${name}:[ \\t]*(.*)$`, "m").exec(status)?.[1] ?? "").trim();
    expect(field("Uid").split(/\s+/)).toEqual(Array(4).fill("65520"));
    expect(field("Groups")).toBe("");
    for (const set of ["CapInh", "CapPrm", "CapEff", "CapAmb"]) expect(field(set)).toMatch(/^0+$/);
    expect(field("NoNewPrivs")).toBe("1");
    expect((await world.host.read(`/proc/${service}/environ`)).split("\0").filter(Boolean)).toEqual([
      expect.stringMatching(/^PATH=/),
    ]);
    expect(await world.host.run(["readlink", `/proc/${service}/cwd`])).toBe("/\n");
    const descriptors = await world.host.run(["ls", "-l", `/proc/${service}/fd`]);
    expect(descriptors).not.toMatch(/\.(sqlite|db|key)/);
  });

  test("class 46: the service itself reaches no private address, even if it were told to", async () => {
    await world.internet.serve("private", places.private, 8080);
    await world.host.serve("host", "127.0.0.1", 7070);
    const attempt = (address: string, port: number): Promise<string> =>
      world.host.run([
        "setpriv",
        "--reuid=65520",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        connectProgram,
        address,
        String(port),
      ]);
    expect(await attempt(places.private, 8080)).toBe("ConnectionRefusedError\n");
    expect(await attempt("127.0.0.1", 7070)).toBe("ConnectionRefusedError\n");
    expect(await attempt(places.public, 8080)).toBe("reached\n");
    await world.switchOff();
    expect(await attempt(places.private, 8080)).toBe("reached\n");
    expect(await attempt("127.0.0.1", 7070)).toBe("reached\n");
  });

  test("disconnect takes everything of a machine, and its address is not given to the next one", async () => {
    const before = await world.adopt("m-one", open, one);
    await world.host.networks("disconnect", "m-one");
    await world.host.networks("disconnect", "m-one");
    expect(await one.run(["ip", "link"])).not.toContain("eth0");
    const rules = await world.host.run(["nft", "list", "table", "inet", world.names.table]);
    expect(rules).not.toContain(before);
    expect(await world.host.run(["ip", "route"])).not.toContain(before);
    const two = await world.startMachine();
    expect(await world.connect("m-two", open, two)).not.toBe(before);
  });

  test("a connect that fails leaves nothing of the machine", async () => {
    const before = await world.leftovers();
    const gone = await startActor();
    await gone.end();
    await expect(world.connect("m-gone", open, gone)).rejects.toThrow(/the machine's network: ip ended with/);
    const blocked = await world.startMachine();
    await blocked.run(["ip", "link", "add", "name", "eth0", "type", "veth", "peer", "name", "other"]);
    await expect(world.connect("m-blocked", open, blocked)).rejects.toThrow(/File exists/);
    expect(await world.leftovers()).toEqual(before);
  });

  test("close without machines, and close that keeps none, leave nothing on the host", async () => {
    expect(await world.host.read("/proc/sys/net/ipv4/conf/up0/forwarding")).toBe("1\n");
    await world.host.networks("close", { keep: false });
    expect(await world.leftovers()).toEqual([]);
    expect(servicePids()).toEqual([]);
    expect(await world.host.read("/proc/sys/net/ipv4/conf/up0/forwarding")).toBe("0\n");
  });

  test("a host that forwards already is left as it is", async () => {
    await world.host.networks("close", { keep: false });
    await world.host.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]);
    await world.createNetworks();
    await world.connect("m-one", open, one);
    expect(await world.host.run(["nft", "list", "set", "inet", world.names.table, "guarded"])).not.toContain("up0");
    await world.host.networks("close", { keep: false });
    expect(await world.host.read("/proc/sys/net/ipv4/conf/up0/forwarding")).toBe("1\n");
  });

  test("a machine that ended takes its interface along, and a service without machines and server ends by itself", async () => {
    await world.killHost();
    await one.end();
    await expect.poll(servicePids, { timeout: 30_000, interval: 200 }).toEqual([]);
  });

  test("what a server left whose folder is gone is removed by the next one", async () => {
    const table = world.names.table;
    await world.killHost();
    await world.forgetFolder();
    const other = await World.beside(world);
    await other.host.networks("reconcile", []);
    const tables = await world.host.run(["nft", "list", "tables"]);
    expect(tables).not.toContain(table);
    await expect.poll(() => world.leftovers(), { timeout: 20_000 }).toEqual([]);
    expect(existsSync(hostFolders(other.dataDir).own)).toBe(false);
  });

  test("two servers on one host share the range and never each other's machines", async () => {
    const other = await World.beside(world);
    const two = await world.startMachine();
    const outer = await other.connect("m-two", open, two);
    await two.serve("two", "0.0.0.0", 8080);
    expect(await two.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await two.lookUp(places.gateway, "one.example")).toEqual([places.public]);
    expect(await one.tcp(outer, 8080)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    await other.host.networks("close", { keep: false });
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await one.lookUp(places.gateway, "one.example")).toEqual([places.public]);
  });

  test("a firewall of the host's own that drops is told, with the command that lets machines through", async () => {
    await world.host.networks("close", { keep: false });
    await world.host.run([
      "nft",
      "add table ip theirs; add chain ip theirs FORWARD { type filter hook forward priority 0; policy drop; }",
    ]);
    await world.createNetworks();
    await world.connect("m-one", open, one);
    expect(await world.host.warnings()).toEqual([expect.stringContaining("chain ip theirs FORWARD")]);
    expect(await one.tcp(places.public, 8080, { waitMs: 700 })).toMatchObject({ reached: false });
    const commands = /\((nft .*)\)/.exec((await world.host.warnings())[0] ?? "")?.[1] ?? "";
    await world.host.run(["sh", "-c", commands]);
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
  });

  test("a host that routes the machines' range elsewhere is refused with the route", async () => {
    await world.host.networks("close", { keep: false });
    await world.host.run(["ip", "route", "add", "198.19.7.0/24", "via", "192.0.2.1"]);
    await world.createNetworks();
    await expect(world.connect("m-one", open, one)).rejects.toThrow(/this host routes 198\.19\.7\.0\/24 to up0/);
    expect(await world.leftovers()).toEqual([]);
  });
});

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

const connectProgram = `
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)
    print("reached")
except Exception as error:
    print(type(error).__name__)
`;
