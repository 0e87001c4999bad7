import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type PortAddress, readPortAddress } from "./address.ts";
import { handlePort, handlePortUpgrade, type PortContext } from "./handlePort.ts";

/** Everything that goes to programs in machines, and what of it is no HTTP any more. */
export class PortServer {
  readonly #context: PortContext;
  readonly #upgraded = new Set<Duplex>();

  constructor(context: PortContext) {
    this.#context = context;
  }

  /** The port that a request is for; null where it is for the API. */
  addressOf(request: IncomingMessage): PortAddress | null {
    return readPortAddress(request, this.#context.gate.listening);
  }

  handle(address: PortAddress, request: IncomingMessage, response: ServerResponse): Promise<void> {
    return handlePort(this.#context, address, request, response);
  }

  async upgrade(address: PortAddress, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    this.#upgraded.add(socket);
    socket.once("close", () => this.#upgraded.delete(socket));
    await handlePortUpgrade(this.#context, address, request, socket, head);
  }

  close(): void {
    for (const socket of this.#upgraded) socket.destroy();
  }
}
