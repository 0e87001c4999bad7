import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import type { AttachServer } from "../exec/attach/attachServer.ts";
import { matchAttach } from "../exec/attach/matchAttach.ts";
import { asksUpgrade } from "../ports/address.ts";
import type { PortServer } from "../ports/portServer.ts";
import type { StreamServer } from "../stream/streamServer.ts";
import { refuseOnSocket } from "./httpServer.ts";
import { toSandpoolError } from "./sendError.ts";
import type { RequestContext } from "./serveRequests.ts";
import { serverClosing } from "./serverClosing.ts";

/** What becomes something else than HTTP: a pool's stream, an exec's attachment, a connection to a program. */
export class Upgrades {
  readonly #context: Pick<RequestContext, "logger" | "metrics" | "isClosing">;
  readonly #streams: StreamServer;
  readonly #attachments: AttachServer;
  readonly #ports: PortServer;

  constructor(
    context: Pick<RequestContext, "logger" | "metrics" | "isClosing">,
    parts: { streams: StreamServer; attachments: AttachServer; ports: PortServer },
  ) {
    this.#context = context;
    this.#streams = parts.streams;
    this.#attachments = parts.attachments;
    this.#ports = parts.ports;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = this.#ports.addressOf(request);
    if (address === null && matchAttach(request.url ?? "") === null) {
      this.#streams.upgrade(request, socket, head);
      return;
    }
    // HTTP has let go of the socket: an error of it would be nobody's.
    socket.on("error", () => {});
    const opened = this.#context.isClosing()
      ? Promise.reject(serverClosing())
      : address === null
        ? this.#attachments.upgrade(request, socket, head)
        : this.#openPort(address, request, socket, head);
    opened.catch((thrown: unknown) => {
      const error = toSandpoolError(thrown, this.#context.logger);
      this.#context.metrics.error(error.code);
      if (!socket.destroyed) refuseOnSocket(socket, error);
    });
  }

  async #openPort(...[address, request, socket, head]: Parameters<PortServer["upgrade"]>): Promise<void> {
    if (!asksUpgrade(request)) {
      throw new SandpoolError(
        "invalid_request",
        "a request has a body and asks for an upgrade, expected one of the two",
      );
    }
    await this.#ports.upgrade(address, request, socket, head);
  }

  /** Resolves when no connection is left. */
  async close(): Promise<void> {
    this.#ports.close();
    await Promise.all([this.#streams.close(), this.#attachments.close()]);
  }
}
