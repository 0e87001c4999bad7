import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { encryptedHello, makeHello, serverName } from "./hellos.ts";
import { type Actor, places, World } from "./world.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const hosts = [
  ...["one.example", "*.wide.example", "odd.example:8443", "ssh.example:22", "inner.example", "mirror.example:3141"],
  ...["turning.example", "mapped.example", "own.example", places.otherPublic, "169.254.169.254", "closed.example"],
];
const proxy = { address: places.gateway, port: 999 };

describe.skipIf(process.geteuid?.() !== 0)("egress lists", () => {
  let world: World;
  let machine: Actor;
  let certificate: { key: string; cert: string };

  beforeAll(async () => {
    certificate = makeCertificate();
    world = await World.make([`${places.exception}:3141`]);
    const { host, internet } = world;
    machine = await world.startMachine();
    await world.connect("m-egress", { kind: "egress", hosts }, machine);
    const { key, cert } = certificate;
    for (const [name, address, port] of [
      ["public", places.public, 443],
      ["public", places.public, 8443],
      ["other", places.otherPublic, 443],
      ["metadata", places.metadata, 443],
    ] as const)
      await internet.serveTls(name, address, port, key, cert);
    for (const [name, address, port] of [
      ["ssh", places.public, 22],
      ["plain", places.public, 8080],
      ["private", places.private, 443],
      ["mirror", places.exception, 3141],
      ["not the mirror", places.exception, 8080],
    ] as const)
      await internet.serve(name, address, port);
    await internet.serveDatagrams("public", places.public, 443);
    await internet.serveHttp("web", places.public, 80);
    await host.serve("host", "0.0.0.0", 443);
    await host.serveNames("127.0.0.1", 5353, {
      "one.example": [places.public],
      "a.wide.example": [places.public],
      "odd.example": [places.public],
      "ssh.example": [places.public],
      "two.example": [places.public],
      "inner.example": [places.private],
      "mirror.example": [places.exception],
      "turning.example": [places.public, places.private, places.metadata],
      "own.example": [places.host],
      "closed.example": [places.otherPublic],
    });
  });
  afterAll(() => world?.end());

  const through = (target: string, name: string | null, raw?: Buffer) =>
    machine.tls({
      ...proxy,
      through: target,
      serverName: name,
      ...(raw === undefined ? {} : { raw: raw.toString("base64") }),
    });
  const direct = (address: string, name: string | null, raw?: Buffer) =>
    machine.tls({
      address,
      port: 443,
      serverName: name,
      ...(raw === undefined ? {} : { raw: raw.toString("base64") }),
    });

  test("a listed host is reached through the proxy and by programs that know none", async () => {
    const reached = { reached: true, said: `public as one.example ${places.host}` };
    expect(await through("one.example:443", "one.example")).toEqual(reached);
    expect(await through("ONE.example.:443", "one.EXAMPLE")).toMatchObject({ reached: true });
    expect(await direct(places.public, "one.example")).toEqual(reached);
    expect(await direct("192.0.2.99", "a.wide.example")).toMatchObject({ reached: true });
    expect(await through("odd.example:8443", "odd.example")).toMatchObject({ reached: true });
    expect(await through(`${places.otherPublic}:443`, null)).toMatchObject({ reached: true });
  });

  test("a port that is listed takes what is no TLS, and servers that speak first", async () => {
    expect(await through("ssh.example:22", null, Buffer.from("SSH-2.0-machine\r\n"))).toEqual({
      reached: true,
      said: `ssh ${places.host}`,
    });
  });

  test("http is passed on for a listed host, in absolute form and to port 80", async () => {
    const page = await machine.run([
      "curl",
      "-sS",
      "-m",
      "5",
      "--proxy",
      `http://${places.gateway}:999`,
      "http://one.example/a?b",
    ]);
    expect(page).toBe("web GET /a?b one.example");
    expect(
      await machine.run([
        "curl",
        "-sS",
        "-m",
        "5",
        "--resolve",
        `one.example:80:${places.public}`,
        "http://one.example/c",
      ]),
    ).toBe("web GET /c one.example");
    const posted = await machine.run([
      "curl",
      "-sS",
      "-m",
      "5",
      "--proxy",
      `http://${places.gateway}:999`,
      "-d",
      "x".repeat(100_000),
      "http://one.example/d",
    ]);
    expect(posted).toBe("web POST /d one.example 100000");
  });

  test("class 46: what stands in a request's body never becomes a request of its own", async () => {
    const inner = "GET /smuggled HTTP/1.1\r\nHost: two.example\r\n\r\n";
    const chunked = `GET http://one.example/outer HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
    const both = `POST http://one.example/both HTTP/1.1\r\nHost: one.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`;
    const second = `GET http://one.example/first HTTP/1.1\r\nHost: one.example\r\n\r\n${inner}`;
    const said = [];
    for (const text of [chunked, both, second])
      said.push(await machine.talk(proxy.address, proxy.port, Buffer.from(text).toString("base64")));
    expect(said[0]).toContain(`web GET /outer one.example ${inner.length}`);
    expect(said[1]).toMatch(/^HTTP\/1\.1 400 /);
    expect(said[2]).toContain("two.example:80 is not in this machine's egress list");
    const paths = (await world.internet.accepted()).filter((text) => /outer|both|smuggled/.test(text));
    expect(paths).toEqual(["web /outer"]);
  });

  test("every request in a tunnel to port 80 is looked at, and an upgrade passes", async () => {
    const tunnel = "CONNECT one.example:80 HTTP/1.1\r\nHost: one.example:80\r\n\r\n";
    const get = (host: string): string => `GET /in-${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
    const requests = Buffer.from(tunnel + get("one.example") + get("two.example")).toString("base64");
    const said = await machine.talk(proxy.address, proxy.port, requests);
    expect(said).toContain("web GET /in-one.example one.example");
    expect(said).toContain("two.example:80 is not in this machine's egress list");
    const wanted = "GET /ws HTTP/1.1\r\nHost: one.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    const upgraded = await through("one.example:80", null, Buffer.from(wanted));
    expect(upgraded).toMatchObject({ reached: true, said: expect.stringMatching(/^HTTP\/1\.1 101 /) });
  });

  test("random bytes to every port neither end the service nor reach a server", async () => {
    const seed = randomInt(2 ** 31);
    const random = randomBytesOf(seed);
    const before = await world.internet.accepted();
    for (const [address, port] of [
      [proxy.address, proxy.port],
      [places.public, 443],
      [places.public, 80],
      [proxy.address, 53],
    ] as const) {
      const texts = Array.from({ length: 60 }, (_value, at) => prefixes[at % prefixes.length] + random(at * 7));
      await Promise.all(
        texts.map((text) => machine.talk(address, port, Buffer.from(text, "latin1").toString("base64"), { end: true })),
      );
    }
    expect({ seed, accepted: await world.internet.accepted() }).toEqual({ seed, accepted: before });
    expect(await through("one.example:443", "one.example")).toMatchObject({ reached: true });
  });

  test("the proxy says why it refuses", async () => {
    const page = await machine.run([
      "curl",
      "-sS",
      "-m",
      "5",
      "--proxy",
      `http://${places.gateway}:999`,
      "-w",
      " %{http_code}",
      "http://two.example/",
    ]);
    expect(page).toBe("Sandpool's egress proxy: two.example:80 is not in this machine's egress list\n 403");
    expect(await through("inner.example:443", "inner.example")).toMatchObject({
      why: expect.stringContaining("only addresses that machines never reach"),
    });
    expect(await through("closed.example:80", null)).toMatchObject({
      why: expect.stringContaining("does not answer"),
    });
  });

  const bypasses: [string, () => Promise<unknown>][] = [
    ["another host", () => through("two.example:443", "two.example")],
    ["another host, named in TLS only", () => through("one.example:443", "two.example")],
    ["another host, named in CONNECT only", () => through("two.example:443", "one.example")],
    ["an address of a listed host", () => through(`${places.public}:443`, "one.example")],
    ["no server name", () => through("one.example:443", null)],
    [
      "an encrypted hello",
      () => through("one.example:443", null, makeHello([serverName("one.example"), encryptedHello])),
    ],
    ["two server names", () => through("one.example:443", null, makeHello([serverName("one.example", "two.example")]))],
    [
      "no TLS on 443",
      () => through("one.example:443", null, Buffer.from("GET / HTTP/1.1\r\nHost: one.example\r\n\r\n")),
    ],
    [
      "another Host in a tunnel to 80",
      () => through("one.example:80", null, Buffer.from("GET / HTTP/1.1\r\nHost: two.example\r\n\r\n")),
    ],
    [
      "two Hosts in a tunnel to 80",
      () =>
        through(
          "one.example:80",
          null,
          Buffer.from("GET / HTTP/1.1\r\nHost: one.example\r\nHost: two.example\r\n\r\n"),
        ),
    ],
    ["a listed host's other port", () => through("one.example:8080", null, Buffer.from("x"))],
    ["the name that a wildcard is below", () => through("wide.example:443", "wide.example")],
    ["a name that only ends like a listed one", () => through("xone.example:443", "xone.example")],
    ["a name with another in front", () => through("two.example@one.example:443", "one.example")],
    ["TLS with another name on a listed port", () => through("odd.example:8443", "two.example")],
    ["an address with a name in TLS", () => through(`${places.otherPublic}:443`, "two.example")],
    ["the metadata service, although it is listed", () => through("169.254.169.254:443", null)],
    ["the metadata service in decimal", () => through("2852039166:443", null)],
    ["the metadata service as a mapped address", () => through("[::ffff:169.254.169.254]:443", null)],
    ["a listed name with a private address", () => through("inner.example:443", "inner.example")],
    ["a listed name with the host's own address", () => through("own.example:443", "own.example")],
    ["directly, another name", () => direct(places.public, "two.example")],
    ["directly, no name", () => direct(places.public, null)],
    [
      "directly, an encrypted hello",
      () => direct(places.public, null, makeHello([serverName("one.example"), encryptedHello])),
    ],
    ["directly, the metadata service", () => direct(places.metadata, null)],
    ["directly, another port", () => machine.tcp(places.public, 8080)],
    ["directly, QUIC", () => machine.udp(places.public, 443)],
    ["directly, an exception of the operator's that is not listed", () => machine.tcp(places.exception, 8080)],
    ["a listed name on a port that is no exception", () => through("mirror.example:443", "mirror.example")],
  ];
  test.each(bypasses)("class 46: %s is refused, and no server is told a byte", async (_what, attempt) => {
    const before = await Promise.all([world.internet.accepted(), world.host.accepted()]);
    expect(await attempt()).toMatchObject({ reached: expect.any(Boolean) });
    const after = await Promise.all([world.internet.accepted(), world.host.accepted()]);
    expect(after).toEqual(before);
  });

  test("class 46: the same attempts reach a server from an open network, or from the host", async () => {
    const open = await world.startMachine();
    await world.connect("m-open", { kind: "open" }, open);
    expect(await open.tls({ address: places.public, port: 443, serverName: "two.example" })).toMatchObject({
      reached: true,
    });
    expect(await open.tls({ address: places.public, port: 443, serverName: null })).toMatchObject({ reached: true });
    expect(await open.tcp(places.public, 8080)).toMatchObject({ reached: true });
    expect(await open.udp(places.public, 443)).toMatchObject({ reached: true });
    expect(await world.host.tcp(places.private, 443)).toMatchObject({ reached: true });
    expect(await world.host.tls({ address: places.metadata, port: 443, serverName: null })).toMatchObject({
      reached: true,
    });
  });

  test("class 46: a name that turns to a private address between two answers is never dialled there", async () => {
    const attempts = await Promise.all(
      Array.from({ length: 9 }, () => through("turning.example:443", "turning.example")),
    );
    const said = attempts.map((attempt) => (attempt.reached ? attempt.said : attempt.why.split(":")[0]));
    expect(new Set(said)).toEqual(
      new Set([`public as turning.example ${places.host}`, "HTTP/1.1 403 Refused\r\nContent-Type"]),
    );
  });

  test("an exception of the operator's is reached under a listed name, on its port only", async () => {
    expect(await through("mirror.example:3141", null, Buffer.from("x"))).toEqual({
      reached: true,
      said: `mirror ${places.host}`,
    });
  });

  test("class 46: names outside the list are refused, and their question leaves the host in no form", async () => {
    expect(await machine.lookUp(places.gateway, "one.example")).toEqual([places.public]);
    expect(await machine.lookUp(places.gateway, "a.wide.example")).toEqual([places.public]);
    expect(await machine.lookUp(places.gateway, "secret.two.example")).toBe("EREFUSED");
    expect(await machine.lookUp("192.0.2.1", "secret.two.example")).toBe("EREFUSED");
    expect(await machine.lookUp(places.gateway, "one.example", "TXT")).toBe("ENOTIMP");
    expect(await machine.lookUp(places.gateway, "one.example", "AAAA")).toBe("ENODATA");
    expect((await world.host.askedNames()).filter((asked) => /secret|TXT/.test(asked))).toEqual([]);
  });
});

/** Where parsers go on from. */
const prefixes = [
  "",
  "\x16\x03\x01",
  "\x16\x03\x01\x00\x40\x01\x00\x00\x3c",
  "CONNECT ",
  "GET http://one.example",
  "GET / HTTP/1.1\r\nHost: ",
  "\x00\x20",
];

/** A linear congruential generator (Numerical Recipes), so that a failure can be had again from its seed. */
function randomBytesOf(seed: number): (count: number) => string {
  let state = seed;
  return (count) => {
    const bytes = Buffer.alloc(count);
    for (let at = 0; at < count; at += 1) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      bytes[at] = state >>> 24;
    }
    return bytes.toString("latin1");
  };
}

function makeCertificate(): { key: string; cert: string } {
  const folder = mkdtempSync(`${tmpdir()}/sandpool-certificate-`);
  const paths = ["-keyout", `${folder}/key.pem`, "-out", `${folder}/cert.pem`];
  const kind = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-days",
    "1",
    "-subj",
    "/CN=example",
  ];
  execFileSync("openssl", ["req", "-x509", ...kind, ...paths], { stdio: "ignore" });
  const [key, cert] = ["key", "cert"].map((name) => readFileSync(`${folder}/${name}.pem`, "utf8"));
  rmSync(folder, { recursive: true });
  return { key: key as string, cert: cert as string };
}
