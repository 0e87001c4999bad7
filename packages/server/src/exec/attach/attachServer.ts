import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { AttachQuery, SandpoolError } from "@sandpool/protocol";
import { Compile } from "typebox/compile";
import { WebSocketServer } from "ws";
import { checked } from "../../batches/requests.ts";
import type { Gate } from "../../http/gate.ts";
import { callerOf } from "../../http/gate.ts";
import { type AttachContext, Attachment } from "./attachment.ts";
import { ExecInputs } from "./inputs.ts";
import { type AttachTarget, isAttachUpgrade, matchAttach } from "./matchAttach.ts";

/** One message of a client, such as a large paste. */
const MESSAGE_LIMIT_BYTES = 16 * 2 ** 20;
/** How long a client may take to answer the closing of its WebSocket. */
const CLOSE_TIMEOUT_MS = 2_000;
const TCP_KEEPALIVE_MS = 15_000;

const checkQuery = Compile(AttachQuery);

/** The WebSockets of every machine's execs. */
export class AttachServer {
  readonly #context: AttachContext & { gate: Gate };
  readonly #sockets: WebSocketServer;

  constructor(context: Omit<AttachContext, "inputs"> & { gate: Gate }) {
    this.#context = { ...context, inputs: new ExecInputs() };
    const options = {
      noServer: true,
      perMessageDeflate: false,
      maxPayload: MESSAGE_LIMIT_BYTES,
      closeTimeout: CLOSE_TIMEOUT_MS,
    };
    this.#sockets = new WebSocketServer(options);
    this.#sockets.on("wsClientError", (error, socket) => {
      socket.destroy(error);
    });
  }

  /** Takes a connection off HTTP once the machine is found. @throws what is to be answered instead */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const target = matchAttach(request.url ?? "");
    if (target === null || !isAttachUpgrade(request)) throw notOne(request);
    this.#context.gate.admit(request);
    const caller = callerOf(request);
    const { from = "start" } = readQuery(target);
    const found = await this.#context.machines.find(caller.owner, target.machine);
    if (socket.destroyed) return;
    request.socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
    this.#sockets.handleUpgrade(request, socket, head, (opened) => {
      new Attachment(this.#context, opened, { caller, found, exec: target.exec, from });
    });
  }

  /** Resolves when no connection is left; the execs go on. */
  async close(): Promise<void> {
    const closed = [...this.#sockets.clients].map((client) => {
      const gone = new Promise((resolve) => client.once("close", resolve));
      client.close(1001, "server_closing");
      return gone;
    });
    await Promise.all(closed);
    this.#sockets.close();
  }
}

function readQuery({ query }: AttachTarget) {
  const names = [...query.keys()];
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice === undefined) return checked(checkQuery, Object.fromEntries(query));
  throw new SandpoolError("invalid_request", `the query has ${JSON.stringify(twice.slice(0, 80))} twice`);
}

function notOne(request: IncomingMessage): SandpoolError {
  return new SandpoolError("invalid_request", `${request.method} with an upgrade opens no attachment`, {
    hint: "open ws://…/v1/machines/{machine}/exec/attach with a WebSocket client",
  });
}
