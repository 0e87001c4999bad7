import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { OpenCounts, Rates } from "../../src/network/service/limits.ts";
import { type Actor, places, World } from "./world.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describe.skipIf(process.geteuid?.() !== 0)("names", () => {
  let world: World;
  let machine: Actor;
  const many = Array.from({ length: 120 }, (_value, at) => `203.0.113.${at + 1}`);

  beforeAll(async () => {
    world = await World.make([`${places.exception}:3141`]);
    machine = await world.startMachine();
    await world.connect("m-names", { kind: "open" }, machine);
    await world.host.serveNames("127.0.0.1", 5353, {
      "one.example": [places.public],
      "all-mixed.example": ["10.0.0.1", places.public, "127.0.0.1", places.metadata, "100.64.0.1", places.host],
      "all-many.example": many,
      "mirror.example": [places.exception],
      "1.0.0.10.in-addr.arpa": [],
    });
  });
  afterAll(() => world?.end());

  const lookUp = (name: string, type = "A") => machine.lookUp(places.gateway, name, type);

  test("class 46: of a name's answers those that lead to private addresses or the host are left out", async () => {
    expect(await lookUp("all-mixed.example")).toEqual([places.public]);
  });

  test("an exception of the operator's is an answer", async () => {
    expect(await lookUp("mirror.example")).toEqual([places.exception]);
  });

  test("an answer that is too long for a datagram comes over TCP, with 100 records at most", async () => {
    expect(await lookUp("all-many.example")).toEqual(many.slice(0, 100));
  });

  test("a name has no IPv6 address and no encrypted hello's key, and nobody is asked for them", async () => {
    expect(await lookUp("one.example", "AAAA")).toBe("ENODATA");
    expect((await world.host.askedNames()).filter((asked) => asked.startsWith("AAAA"))).toEqual([]);
  });

  test("names of private addresses, and names of one label, are asked of nobody", async () => {
    expect(await lookUp("1.0.0.10.in-addr.arpa", "PTR")).toBe("ENOTFOUND");
    expect(await lookUp("localhost.", "A")).toBe("ENOTFOUND");
    expect((await world.host.askedNames()).filter((asked) => /arpa|localhost/.test(asked))).toEqual([]);
  });

  test("a name that is not there is told as such", async () => {
    expect(await lookUp("missing.example")).toBe("ENOTFOUND");
  });

  test("what is no question gets no answer, and the service goes on", async () => {
    await machine.sendDatagrams(places.gateway, 53, [
      "",
      "x",
      "\u0000".repeat(11),
      "\u00ff".repeat(64),
      `${"\u0000".repeat(5)}\u00ff`.repeat(100),
    ]);
    expect(await lookUp("one.example")).toEqual([places.public]);
  });

  test("nobody but a machine is answered", async () => {
    expect(await world.host.lookUp("198.19.0.1", "one.example")).toMatch(/ETIMEOUT|ECONNREFUSED/);
    expect(await world.host.tcp("198.19.0.1", 999)).toEqual({ reached: false, why: "closed" });
  });

  test("a machine that opens connections without end leaves the others theirs", async () => {
    const flood = await world.startMachine();
    await world.connect("m-flood", { kind: "egress", hosts: ["one.example"] }, flood);
    await flood.openMany(places.gateway, 999, 400);
    await expect.poll(() => flood.openCount(), { timeout: 10_000 }).toBe(256);
    const other = await world.startMachine();
    await world.connect("m-other", { kind: "egress", hosts: ["one.example"] }, other);
    await other.openMany(places.gateway, 999, 4);
    const page = await other.run(["curl", "-sS", "--proxy", `http://${places.gateway}:999`, "http://two.example/"]);
    expect(page).toContain("not in this machine's egress list");
    expect(await other.openCount()).toBe(4);
    expect(await lookUp("one.example")).toEqual([places.public]);
  });
});

test("a machine may ask a burst, then so many a second, whatever others do", () => {
  const rates = new Rates(10, 20);
  const takeAll = (client: string, nowMs: number): number => {
    let taken = 0;
    while (rates.take(client, nowMs)) taken += 1;
    return taken;
  };
  expect(takeAll("a", 0)).toBe(20);
  expect(takeAll("a", 500)).toBe(5);
  expect(takeAll("b", 500)).toBe(20);
  expect(takeAll("a", 3_600_000)).toBe(20);
});

test("what is given back can be taken again", () => {
  const counts = new OpenCounts(2);
  expect([counts.take("a"), counts.take("a"), counts.take("a"), counts.take("b")]).toEqual([true, true, false, true]);
  counts.give("a");
  expect([counts.take("a"), counts.take("a")]).toEqual([true, false]);
});
