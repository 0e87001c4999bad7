import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { Readable } from "node:stream";
import { encodeFrame, FRAME_KINDS, type Frame, FrameReader, frameChecksum } from "@sandpool/protocol";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { MachineExit, ShimConnection } from "../../src/drivers/machine.ts";
import { makeLiveMachine } from "../../src/machines/live.ts";
import { WINDOW_BYTES } from "../../src/machines/session/inlet.ts";
import { MachineSession } from "../../src/machines/session/session.ts";
import { execOf } from "./support.ts";

/** The other end of a session: an agent that a program inside has taken over says what it likes. */
class OddAgent {
  readonly heard: Frame[] = [];
  adoptions = 0;
  readonly #folder = mkdtempSync(`${tmpdir()}/sandpool-odd-`);
  readonly #server = createServer();
  #socket: Socket | null = null;
  onRequest: (head: Record<string, unknown>, answer: (head: object, body?: Buffer) => void) => void = () => undefined;

  constructor() {
    this.#server.on("connection", (socket) => {
      this.#socket = socket;
      socket.on("error", () => undefined);
      const reader = new FrameReader((frame) => this.#hear(socket, frame));
      socket.on("data", (chunk: Buffer) => reader.push(chunk));
    });
  }

  async connect(): Promise<ShimConnection> {
    const path = `${this.#folder}/s`;
    if (!this.#server.listening) {
      this.#server.listen(path);
      await once(this.#server, "listening");
    }
    const socket = connect(path);
    await Promise.all([once(socket, "connect"), once(this.#server, "connection")]);
    const shim = { state: "running" as const, pid: 1, started_at: 1, exit: null, version: "0" };
    return { id: "m00000000000000000000", socket, shim, agent: {} };
  }

  session(connection: ShimConnection): MachineSession {
    const adopt = async (): Promise<ShimConnection | MachineExit> => {
      this.adoptions += 1;
      return await this.connect();
    };
    return new MachineSession(connection, { driver: { adopt }, warn: () => undefined });
  }

  say(kind: "reply" | "event" | "data", sequence: number, head: object, body: Buffer[] = []): void {
    this.write(...encodeFrame(FRAME_KINDS[kind], sequence, head, body));
  }

  write(...chunks: Buffer[]): void {
    for (const chunk of chunks) this.#socket?.write(chunk);
  }

  drop(): void {
    this.#socket?.destroy();
  }

  async close(): Promise<void> {
    this.#socket?.destroy();
    this.#server.close();
    await once(this.#server, "close");
    rmSync(this.#folder, { recursive: true });
  }

  events(name: string): Record<string, unknown>[] {
    return this.heard.filter(({ head }) => head.event === name).map(({ head }) => head);
  }

  #hear(socket: Socket, frame: Frame): void {
    this.heard.push(frame);
    if (frame.kind !== FRAME_KINDS.request) return;
    this.onRequest(frame.head, (head, body) => {
      for (const chunk of encodeFrame(FRAME_KINDS.reply, frame.sequence, head, body === undefined ? [] : [body]))
        socket.write(chunk);
    });
  }
}

describe("a session with an agent that a program inside has taken over", () => {
  let agent: OddAgent;
  let session: MachineSession;
  let machine: ReturnType<typeof makeLiveMachine>;

  beforeEach(async () => {
    agent = new OddAgent();
    session = agent.session(await agent.connect());
    const saveDisk = () => Promise.reject(new Error("not asked for"));
    machine = makeLiveMachine({ session, outerAddress: null, networkEnviron: {}, memoryGroup: null, saveDisk });
  });
  afterEach(async () => {
    session.close(null);
    await agent.close();
  });

  test("more than the credit fails the stream at once; no more than a window is ever held", async () => {
    agent.onRequest = ({ s }, answer) => {
      answer({ ok: true, stat: entry });
      for (let sent = 0; sent <= WINDOW_BYTES; sent += 65_536) agent.say("data", 0, { s }, [Buffer.alloc(65_536)]);
    };
    const { content } = await machine.readFile("/a", {});
    await expect.poll(() => agent.events("cancel")).toEqual([{ event: "cancel", s: 1 }]);
    const failure = content.toArray();
    await expect(failure).rejects.toMatchObject({ code: "agent_failed", message: expect.stringContaining("more") });
  });

  test("a million tiny pieces are not a million objects: they are joined while nobody reads", async () => {
    const text = Array.from({ length: 100_000 }, (_, index) => String(index)).join("\n");
    agent.onRequest = ({ s }, answer) => {
      answer({ ok: true, stat: entry });
      for (let at = 0; at < text.length; at += 7) agent.say("data", 0, { s }, [Buffer.from(text.slice(at, at + 7))]);
      agent.say("data", 0, { s, end: true });
    };
    const { content } = await machine.readFile("/a", {});
    agent.onRequest = (_, answer) => answer({ ok: true, ports: [] });
    // Its answer comes after all the data.
    await machine.listPorts();
    const pieces = await content.toArray();
    expect(Buffer.concat(pieces).toString()).toBe(text);
    expect(pieces.length).toBeLessThan(text.length / 4096);
  });

  test("a frame larger than any reply ends the connection, and the next one is slower to come", async () => {
    agent.onRequest = () => {
      const [head] = encodeFrame(FRAME_KINDS.reply, 1, { ok: true });
      (head as Buffer).writeUInt32LE(2 ** 30 - 1, 16);
      agent.write(withChecksum(head as Buffer));
    };
    const asked = machine.moveFile("/a", "/b", {});
    await expect(asked).rejects.toMatchObject({ code: "agent_failed", hint: expect.stringContaining("not known") });
    expect(agent.adoptions).toBe(1);
  });

  test("answers that are not what they should be are named as such, and nothing of them is passed on", async () => {
    const answers: [object, () => Promise<unknown>, string][] = [
      [{ ports: [{ port: "80", pid: null }] }, () => machine.listPorts(), "ports[].port"],
      [{ ports: "none" }, () => machine.listPorts(), "ports"],
      [{ entry: { ...entry, size: null } }, () => machine.statFile("/a", {}), "entry.size"],
      [{ entries: [entry, 7] }, () => machine.listFiles("/", {}), "entries[]"],
      [{ execs: [{ id: "x", state: "odd" }] }, () => machine.listExecs(), "execs[].state"],
      [{ pid: {} }, () => machine.startExec(execOf(["/bin/true"])), "pid"],
      [{ signalled: "9" }, () => machine.signalExec("x", "TERM", false), "signalled"],
      [{ id: "x", stdout: {} }, () => machine.waitExec("x", { collect: false }), "stdout.bytes"],
    ];
    for (const [reply, ask, member] of answers) {
      agent.onRequest = (_, answer) => answer({ ok: true, ...reply });
      await expect(ask()).rejects.toMatchObject({ code: "agent_failed", details: { member } });
    }
  });

  test("only codes that an agent may use cross; a member's text is cut", async () => {
    const errors: [unknown, string][] = [
      [{ code: "unauthorized", message: "log in" }, "agent_failed"],
      [{ code: "__proto__", message: "x" }, "agent_failed"],
      [{ code: "file_not_found", message: "x".repeat(100_000), hint: 7, details: "none" }, "file_not_found"],
      [{ code: 7 }, "agent_failed"],
      [null, "agent_failed"],
      ["text", "agent_failed"],
    ];
    for (const [error, code] of errors) {
      agent.onRequest = (_, answer) => answer({ ok: false, error });
      const thrown = await machine.listPorts().catch((failure: Error) => failure);
      expect(thrown).toMatchObject({ name: "SandpoolError", code, hint: expect.any(String) });
      expect((thrown as Error).message.length).toBeLessThan(5000);
    }
  });

  test("frames for nobody, and events of no meaning, change nothing", async () => {
    agent.say("data", 0, { s: 99 }, [Buffer.from("x")]);
    agent.say("data", 0, { s: "1", end: true });
    agent.say("reply", 12345, { ok: true });
    agent.say("event", 0, { event: "credit", s: 99, bytes: 5 });
    agent.say("event", 0, { event: "credit", s: 1, bytes: "many" });
    agent.write(Buffer.from("no frame at all"));
    agent.onRequest = (_, answer) => answer({ ok: true, ports: [{ port: 80, pid: null }] });
    expect(await machine.listPorts()).toEqual([{ port: 80, pid: null }]);
  });

  test("a stream sends what the credit allows, and goes on when more is given", async () => {
    let outlet = 0;
    let received = 0;
    agent.onRequest = ({ s }) => {
      outlet = s as number;
    };
    const size = 3 * WINDOW_BYTES;
    const written = machine.writeFile("/a", Readable.from([Buffer.alloc(size)]), {});
    written.catch(() => undefined);
    const count = (): number => {
      received = agent.heard.filter(({ head }) => head.s === outlet).reduce((sum, { body }) => sum + body.length, 0);
      return received;
    };
    await expect.poll(count).toBe(WINDOW_BYTES);
    agent.onRequest = (_, answer) => answer({ ok: true, ports: [] });
    // The other calls are not held up by it.
    await machine.listPorts();
    expect(count()).toBe(WINDOW_BYTES);
    agent.say("event", 0, { event: "credit", s: outlet, bytes: size });
    await expect.poll(count).toBe(size);
    expect(agent.heard.every(({ body }) => body.length <= 65_536)).toBe(true);
  });

  test("a stream that breaks before anybody listens is no unhandled error", async () => {
    agent.onRequest = ({ op }, answer) => answer(op === "port.dial" ? { ok: true } : { ok: true, stat: entry });
    const connection = await machine.dialPort(80);
    const { content } = await machine.readFile("/a", {});
    agent.drop();
    const failure = once(content.resume(), "error");
    expect(await failure).toMatchObject([{ code: "agent_failed" }]);
    const refused = new Promise((resolve) => connection.write("x", resolve));
    expect(await refused).toMatchObject({ code: "agent_failed" });
  });
});

const entry = {
  ...{ name: "a", path: "/a", kind: "file", size: 1, mode: 0o644 },
  ...{ uid: 0, gid: 0, mtime_ms: 0, target: null },
};

/** As the agent would have written it, had it meant what it says. */
function withChecksum(head: Buffer): Buffer {
  head.writeUInt32LE(frameChecksum(head, head.readUInt32LE(12)), 20);
  return head;
}
