import { once } from "node:events";
import { describe, expect, test } from "vitest";
import type { WebSocket } from "ws";
import { sha256, useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";

const server = useMachines();

/** An attachment as a client sees it. */
class Client {
  readonly socket: WebSocket;
  readonly controls: Record<string, unknown>[] = [];
  readonly closed: Promise<number>;
  stdout = Buffer.alloc(0);
  stderr = Buffer.alloc(0);

  constructor(socket: WebSocket) {
    this.socket = socket;
    this.closed = once(socket, "close").then(([code]) => Number(code));
    socket.on("error", () => {});
    socket.on("message", (data: Buffer) => {
      const bytes = data.subarray(1);
      if (data[0] === 1) this.stdout = Buffer.concat([this.stdout, bytes]);
      else if (data[0] === 2) this.stderr = Buffer.concat([this.stderr, bytes]);
      else this.controls.push(JSON.parse(bytes.toString()));
    });
  }

  control(value: object): void {
    this.socket.send(Buffer.concat([Buffer.of(3), Buffer.from(JSON.stringify(value))]));
  }

  input(bytes: string | Buffer): void {
    this.socket.send(Buffer.concat([Buffer.of(0), Buffer.from(bytes)]));
  }

  get errorCode(): unknown {
    return (this.controls.at(-1)?.error as { code?: string } | undefined)?.code;
  }

  get exit(): Record<string, unknown> | undefined {
    return this.controls.find((control) => "exit" in control)?.exit as Record<string, unknown> | undefined;
  }
}

function open(tail = "attach", options = {}): Client {
  return new Client(server().socket(`/v1/machines/${server().box}/exec/${tail}`, options));
}

async function start(request: object): Promise<Client> {
  const client = open();
  await once(client.socket, "open");
  client.control({ start: request });
  return client;
}

describe("an attachment", () => {
  test("row 14, row 15: starts a program, feeds it in order, and closes its input after the last byte", async () => {
    const client = await start({ command: "sha256sum; echo done >&2; exit 6", stdin: "first " });
    const pieces = Array.from({ length: 64 }, (_, at) => Buffer.alloc(40_000, `piece ${at} `));
    for (const piece of pieces) client.input(piece);
    client.control({ end_stdin: true });
    expect(await client.closed).toBe(1000);
    expect(client.controls[0]).toEqual({
      id: expect.any(String),
      pid: expect.any(Number),
      state: "running",
      dropped: { stdout: 0, stderr: 0 },
    });
    expect(client.stdout.toString()).toBe(`${sha256(Buffer.concat([Buffer.from("first "), ...pieces]))}  -\n`);
    expect(client.stderr.toString()).toBe("done\n");
    expect(client.exit).toMatchObject({ exit_code: 6, stdout_bytes: 68, truncated: false });
    expect(client.controls.at(-1)).toHaveProperty("exit");
  });

  test("row 13: with stdin null the program's input is at its end", async () => {
    const client = await start({ command: "cat; echo end", stdin: null });
    expect([await client.closed, client.stdout.toString()]).toEqual([1000, "end\n"]);
  });

  test("row 13: a program that reads nothing ends the call, however much it was sent", async () => {
    const client = await start({ command: "sleep 0.3; exit 3" });
    for (let piece = 0; piece < 40; piece += 1) client.input(Buffer.alloc(100_000));
    await client.closed;
    expect(client.exit).toMatchObject({ exit_code: 3 });
  });

  test("has a real terminal, which is resized and takes Ctrl-C", async () => {
    const client = await start({ argv: ["/bin/bash", "--norc", "-i"], tty: { rows: 10, columns: 40 } });
    client.input("stty size; tty\n");
    await until(() => /10 40\r\n\/dev\/pts\/\d+\r\n/.test(client.stdout.toString()));
    client.control({ resize: { rows: 33, columns: 99 } });
    client.input("stty size\n");
    await until(() => client.stdout.includes("33 99\r\n"));
    client.input("sleep 9991\n");
    await until(async () => (await server().run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes("sleep 9991"));
    client.input("\x03");
    client.input("echo a$((40 + 2))z\n");
    await until(() => client.stdout.includes("a42z\r\n"));
    client.input("exit 5\n");
    expect(await client.closed).toBe(1000);
    expect([client.exit?.exit_code, client.stderr.length]).toEqual([5, 0]);
  });

  test("row 19: several see the same, each may write, and who comes later sees what was kept", async () => {
    const one = await start({ command: 'while read -r line; do echo "<$line>"; done; echo end' });
    await until(() => one.controls.length === 1);
    const { id } = one.controls[0] as { id: string };
    const two = open(`${id}/attach`);
    await until(() => two.controls.length === 1);
    one.input("one\n");
    await until(() => two.stdout.includes("<one>"));
    two.input("two\n");
    await until(() => one.stdout.includes("<two>"));
    one.socket.close();
    await one.closed;
    two.socket.terminate();
    await two.closed;
    const three = open(`${id}/attach`);
    const now = open(`${id}/attach?from=now`);
    await until(() => three.stdout.includes("<two>") && now.controls.length === 1);
    three.input("three\n");
    three.control({ end_stdin: true });
    expect(await Promise.all([three.closed, now.closed])).toEqual([1000, 1000]);
    expect(three.stdout.toString()).toBe("<one>\n<two>\n<three>\nend\n");
    expect(now.stdout.toString()).toBe("<three>\nend\n");
    const late = open(`${id}/attach`);
    await late.closed;
    expect([late.stdout.toString(), late.exit?.exit_code]).toEqual(["<one>\n<two>\n<three>\nend\n", 0]);
  });

  test("signals the program, or its tree", async () => {
    const client = await start({ command: "trap 'echo caught' USR1; echo ready; while :; do sleep 0.05; done" });
    await until(() => client.stdout.includes("ready"));
    client.control({ signal: "USR1", tree: false });
    await until(() => client.stdout.includes("caught"));
    client.control({ signal: "KILL", tree: true });
    await client.closed;
    expect(client.exit).toMatchObject({ signal: "KILL", exit_code: 137, left: [] });
  });

  test("row 11: carries any amount, at the pace of its reader", async () => {
    const size = 24 * 2 ** 20;
    const client = await start({ command: `head -c ${size} /dev/zero`, stdin: null });
    client.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 300));
    let received = 0;
    client.socket.removeAllListeners("message");
    client.socket.on("message", (data: Buffer) => {
      if (data[0] === 1) received += data.length - 1;
    });
    client.socket.resume();
    await client.closed;
    expect(received).toBe(size);
  });
});

describe("what an attachment refuses", () => {
  test("what is no message of a client, with 1008 and the reason", async () => {
    for (const [send, code] of [
      [(client: Client) => client.input("before start"), "invalid_request"],
      [(client: Client) => client.socket.send("text"), "invalid_request"],
      [(client: Client) => client.socket.send(Buffer.of()), "invalid_request"],
      [(client: Client) => client.socket.send(Buffer.of(9, 1)), "invalid_request"],
      [(client: Client) => client.socket.send(Buffer.from("\x03{")), "invalid_request"],
      [(client: Client) => client.control({ resize: { rows: 1, columns: 1 } }), "invalid_request"],
      [(client: Client) => client.control({ start: {} }), "invalid_request"],
      [(client: Client) => client.control({ start: { command: "true", detach: true } }), "invalid_request"],
      [(client: Client) => client.control({ start: { argv: ["/no/such"] } }), "exec_failed"],
    ] as const) {
      const client = open();
      await once(client.socket, "open");
      send(client);
      expect(await client.closed).toBe(1008);
      expect(client.errorCode).toBe(code);
    }
    const unknown = open("x0000000000000000/attach");
    expect(await unknown.closed).toBe(1008);
    expect(unknown.errorCode).toBe("exec_not_found");
  });

  test("who has no key, another owner, a foreign Host or Origin, an unknown query: before anything is opened", async () => {
    for (const [options, tail, status] of [
      [{ key: null }, "attach", 401],
      [{ key: server().otherKey }, "attach", 404],
      [{ headers: { host: "evil.example" } }, "attach", 403],
      [{ headers: { origin: "https://evil.example" } }, "attach", 403],
      [{}, "attach?from=middle", 400],
      [{}, "attach?from=now&from=start", 400],
    ] as const) {
      const socket = server().socket(`/v1/machines/${server().box}/exec/${tail}`, options);
      socket.on("error", () => {});
      const [, response] = await once(socket, "unexpected-response");
      expect([tail, response.statusCode]).toEqual([tail, status]);
      socket.terminate();
    }
    const plain = await server().api.send({ path: `/v1/machines/${server().box}/exec/attach` });
    expect([plain.status, plain.json.error?.code]).toEqual([426, "upgrade_required"]);
  });
});
