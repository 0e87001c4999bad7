import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { mostConnections } from "../../src/network/host/rules.ts";
import { type Actor, places, startActor, World } from "./world.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = process.geteuid?.() === 0;
const open = { kind: "open" } as const;

describe.skipIf(!root)("open networks", () => {
  let world: World;
  let one: Actor;
  let two: Actor;
  let outer: { one: string; two: string };

  beforeAll(async () => {
    world = await World.make();
    const { host, internet } = world;
    [one, two] = await Promise.all([world.startMachine(), world.startMachine()]);
    outer = { one: await world.connect("m-one", open, one), two: await world.connect("m-two", open, two) };
    await internet.serve("internet", places.public, 8080);
    await internet.serve("internet", places.public, 853);
    await internet.serveDatagrams("internet", places.public, 9999);
    await internet.serve("private", places.private, 8080);
    await internet.serve("metadata", places.metadata, 80);
    await internet.serveDatagrams("metadata", places.metadata, 80);
    await host.serve("host", "0.0.0.0", 7070);
    await host.serveNames("127.0.0.1", 5353, { "one.example": [places.public], "meta.example": [places.metadata] });
    await two.serve("machine two", "0.0.0.0", 8080);
    await two.serveDatagrams("machine two", "0.0.0.0", 8081);
  });
  afterAll(() => world?.end());
  beforeEach(
    () =>
      world.switchOn([
        ["m-one", open, one],
        ["m-two", open, two],
      ]),
    30_000,
  );

  test("the internet is reached over TCP and UDP, seen as the host's address", async () => {
    expect(await one.tcp(places.public, 8080)).toEqual({ reached: true, said: `internet ${places.host}` });
    expect(await one.udp(places.public, 9999)).toEqual({ reached: true, said: `internet ${places.host}` });
  });

  test("every machine has the same address inside and another one outside", async () => {
    const inside = await Promise.all(
      [one, two].map((machine) => machine.run(["ip", "-brief", "address", "show", "eth0"])),
    );
    const addresses = inside.map((text) => text.replace(/@if\d+/, ""));
    expect(addresses[0]).toBe(addresses[1]);
    expect(inside[0]).toContain("198.18.0.1/30");
    expect(inside[0]).not.toContain("fe80");
    expect(outer.one).not.toBe(outer.two);
  });

  test("two machines with the same address and port inside are told apart by those they speak to", async () => {
    const both = await Promise.all(
      [one, two].map((machine) => machine.tcp(places.public, 8080, { from: "198.18.0.1", fromPort: 40_000 })),
    );
    expect(both.map(({ reached }) => reached)).toEqual([true, true]);
  });

  test("a datagram to a port where nobody listens is refused at once, by the far end's own message", async () => {
    expect(await one.udp(places.public, 9998)).toEqual({ reached: false, why: "ECONNREFUSED" });
  });

  const denied: { what: string; attempt: () => Promise<unknown>; canary: string }[] = [
    {
      what: "class 43: the metadata service over TCP",
      attempt: () => one.tcp(places.metadata, 80),
      canary: "metadata",
    },
    {
      what: "class 43: the metadata service over UDP",
      attempt: () => one.udp(places.metadata, 80),
      canary: "metadata",
    },
    { what: "class 43: the metadata service in decimal", attempt: () => one.tcp("2852039166", 80), canary: "metadata" },
    { what: "class 44: a private network", attempt: () => one.tcp(places.private, 8080), canary: "private" },
    { what: "class 44: the host's address on its way out", attempt: () => one.tcp(places.host, 7070), canary: "host" },
    {
      what: "class 44: the service's address, another port",
      attempt: () => one.tcp("198.19.0.1", 7070),
      canary: "host",
    },
    { what: "class 45: another machine over TCP", attempt: () => one.tcp(outer.two, 8080), canary: "machine two" },
    { what: "class 45: another machine over UDP", attempt: () => one.udp(outer.two, 8081), canary: "machine two" },
  ];
  test.each(denied)("$what is refused at once, and reached without the rules", async ({ attempt, canary }) => {
    expect(await attempt()).toEqual({ reached: false, why: "ECONNREFUSED" });
    await world.switchOff();
    expect(await attempt()).toMatchObject({ reached: true, said: expect.stringMatching(`^${canary} `) });
  });

  test("class 43: the metadata service's mapped IPv6 address, and any IPv6 at all, leads nowhere", async () => {
    const attempt = () => one.tcp("::ffff:169.254.169.254", 80);
    expect(await attempt()).toEqual({ reached: false, why: "ECONNREFUSED" });
    await world.switchOff();
    expect(await attempt()).toMatchObject({ reached: true });
    expect(await one.tcp("2001:db8::1", 80)).toEqual({ reached: false, why: "ENETUNREACH" });
  });

  test("class 43: a name of the metadata service has no address", async () => {
    expect(await one.lookUp(places.gateway, "meta.example")).toBe("ENODATA");
    expect(await one.lookUp("127.0.0.1", "meta.example")).not.toContain(places.metadata);
  });

  test("class 44: the gateway has the name service and nothing else", async () => {
    expect(await one.tcp(places.gateway, 7070)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await one.tcp(places.gateway, 999)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await one.lookUp(places.gateway, "one.example")).toEqual([places.public]);
  });

  test("class 45: another machine's address as source, neighbours of one's own making, and a false route lead nowhere", async () => {
    const [mac] = /02:73:70:00:00:02/.exec(await one.run(["ip", "neigh"])) ?? [];
    expect(mac).toBeDefined();
    await one.run(["ip", "address", "add", `${outer.two}/32`, "dev", "eth0"]);
    await one.run(["ip", "route", "add", "198.19.0.0/16", "dev", "eth0"]);
    expect(await one.tcp(places.public, 8080, { from: outer.two, waitMs: 700 })).toEqual({
      reached: false,
      why: expect.stringMatching(/Timeout|Abort|ABORT/),
    });
    await one.run(["ip", "address", "del", `${outer.two}/32`, "dev", "eth0"]);
    await one.run(["ip", "neigh", "add", outer.two, "lladdr", String(mac), "dev", "eth0"]);
    expect(await one.tcp(outer.two, 8080)).toEqual({ reached: false, why: "ECONNREFUSED" });
    await one.run(["ip", "route", "del", "198.19.0.0/16", "dev", "eth0"]);
    expect(await two.accepted()).not.toContainEqual(expect.stringContaining("198.18.0.1"));
  });

  test("class 45: an IPv6 neighbour has no address and no answer", async () => {
    await Promise.all(
      [one, two].map((machine, at) =>
        machine.run(["ip", "address", "add", `fd00::${at + 1}/64`, "dev", "eth0", "nodad"]),
      ),
    );
    await two.serve("machine two", "fd00::2", 8090);
    expect(await one.tcp("fd00::2", 8090, { waitMs: 700 })).toMatchObject({ reached: false });
  });

  test("class 45: nobody on the host opens a connection to a machine", async () => {
    const attempt = () => world.host.tcp(outer.two, 8080);
    expect(await attempt()).toMatchObject({ reached: false });
    await world.switchOff();
    expect(await attempt()).toMatchObject({ reached: true, said: expect.stringContaining("machine two") });
  });

  test("class 15: an abstract socket of the host is not there inside, and is on the host", async () => {
    await world.host.abstractListen("sandpool-canary");
    expect(await one.abstract("sandpool-canary")).toEqual({ reached: false, why: "ECONNREFUSED" });
    const beside = await startActor(`/proc/${world.host.pid}/ns/net`);
    expect(await beside.abstract("sandpool-canary")).toEqual({ reached: true, said: "host" });
    await beside.end();
  });

  test("a machine that fills the host's table of connections is stopped at its share", async () => {
    const three = await world.startMachine();
    await world.connect("m-three", open, three);
    await three.sendTo(places.public, 10_000, mostConnections + 200);
    expect(await three.tcp(places.public, 8080)).toEqual({ reached: false, why: "ECONNREFUSED" });
    expect(await one.tcp(places.public, 8080)).toMatchObject({ reached: true });
    await world.host.networks("disconnect", "m-three");
  });

  test("an interface of ours without an entry reaches nothing", async () => {
    await world.host.run(["nft", "flush", "map", "inet", world.names.table, "policies"]);
    expect(await one.udp(places.public, 9999, { waitMs: 700 })).toMatchObject({ reached: false });
  });

  test("the host becomes nobody's router", async () => {
    const lan = await startActor();
    await world.host.run([
      "ip",
      "link",
      "add",
      "name",
      "lan0",
      "type",
      "veth",
      "peer",
      "name",
      "lan0",
      "netns",
      String(lan.pid),
    ]);
    await world.host.run(["ip", "address", "add", "10.99.0.1/24", "dev", "lan0"]);
    await world.host.run(["ip", "link", "set", "lan0", "up"]);
    await lan.run(["ip", "address", "add", "10.99.0.2/24", "dev", "lan0"]);
    await lan.run(["ip", "link", "set", "lan0", "up"]);
    await lan.run(["ip", "route", "add", "default", "via", "10.99.0.1"]);
    await lan.serve("lan", "0.0.0.0", 8080);
    await world.internet.run(["ip", "route", "add", "10.99.0.0/24", "via", places.host]);
    await world.host.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/lan0/forwarding"]);
    const attempt = (waitMs = 15_000) => world.internet.tcp("10.99.0.2", 8080, { waitMs });
    expect(await world.host.read("/proc/sys/net/ipv4/conf/up0/forwarding")).toBe("1\n");
    expect(await attempt(700)).toMatchObject({ reached: false });
    await world.host.run(["nft", "flush", "set", "inet", world.names.table, "guarded"]);
    expect(await attempt()).toMatchObject({ reached: true });
    await world.host.run(["ip", "link", "delete", "lan0"]);
    await lan.end();
  });
});
