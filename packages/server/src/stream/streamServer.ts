import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import { WebSocketServer } from "ws";
import { callerOf } from "../http/gate.ts";
import { refuseOnSocket } from "../http/httpServer.ts";
import { toSandpoolError } from "../http/sendError.ts";
import type { RequestContext } from "../http/serveRequests.ts";
import { serverClosing } from "../http/serverClosing.ts";
import { SocketConnection, type StreamContext } from "./connection.ts";
import { isStreamUpgrade, matchStream } from "./matchStream.ts";
import { chooseProtocol, readQuery } from "./readOpening.ts";

/** How long a client may take to answer the closing of its WebSocket. */
const CLOSE_TIMEOUT_MS = 2_000;
/** A host that vanished is noticed by the kernel, without a ping that a busy trainer would have to answer. */
const TCP_KEEPALIVE_MS = 15_000;

/** The WebSockets of every pool's stream, behind the same gate as all other routes. */
export class StreamServer {
  readonly #context: StreamContext & Pick<RequestContext, "gate" | "isClosing">;
  readonly #sockets: WebSocketServer;

  constructor(context: StreamContext & Pick<RequestContext, "gate" | "isClosing">) {
    this.#context = context;
    const options = {
      noServer: true,
      perMessageDeflate: false,
      maxPayload: context.limits.stepBodyBytes,
      closeTimeout: CLOSE_TIMEOUT_MS,
      handleProtocols: (protocols: Set<string>) => chooseProtocol([...protocols].join(",")) ?? false,
    };
    this.#sockets = new WebSocketServer(options);
    this.#sockets.on("wsClientError", (error, socket) => {
      this.#refuse(socket, new SandpoolError("invalid_request", `the request opens no WebSocket: ${error.message}`));
    });
  }

  /** Takes a connection off HTTP, or refuses it in the form of every refusal. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // HTTP has let go of the socket: an error of it would be nobody's.
    const ignore = (): void => {};
    socket.on("error", ignore);
    try {
      const opening = this.#admit(request);
      request.socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
      this.#sockets.handleUpgrade(request, socket, head, (opened) => {
        socket.off("error", ignore);
        new SocketConnection(this.#context, opened, socket, opening);
      });
    } catch (error) {
      this.#refuse(socket, error);
    }
  }

  /** Closes what the pools' ends have not closed already; resolves when no connection is left. */
  async close(): Promise<void> {
    const closed = [...this.#sockets.clients].map((client) => {
      const gone = new Promise((resolve) => client.once("close", resolve));
      client.close(1001, "server_closing");
      return gone;
    });
    await Promise.all(closed);
    this.#sockets.close();
  }

  #admit(request: IncomingMessage) {
    if (this.#context.isClosing()) throw serverClosing();
    this.#context.gate.admit(request);
    const match = matchStream(request.url ?? "");
    if (match === null || !isStreamUpgrade(request)) throw noUpgrade(request);
    chooseProtocol(request.headers["sec-websocket-protocol"]);
    return { caller: callerOf(request), idOrName: match.idOrName, ...readQuery(match.query) };
  }

  #refuse(socket: Duplex, thrown: unknown): void {
    const error = toSandpoolError(thrown, this.#context.logger);
    this.#context.metrics.error(error.code);
    refuseOnSocket(socket, error);
  }
}

function noUpgrade(request: IncomingMessage): SandpoolError {
  const asked = `${request.method} ${(request.url ?? "").slice(0, 200)} to ${request.headers.upgrade}`;
  return new SandpoolError("invalid_request", `${asked} is no upgrade that this server makes`, {
    hint: "only GET /v1/pools/{id}/stream becomes something else, a WebSocket",
  });
}
