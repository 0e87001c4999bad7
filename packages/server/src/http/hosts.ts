import type { IncomingMessage } from "node:http";
import { SandpoolError } from "@sandpool/protocol";

/**
 * The exact Host and Origin headers a server answers to. It is what keeps a web page whose name resolves to this
 * machine (DNS rebinding) from speaking to the API with the visitor's browser.
 */
export class AllowedHosts {
  readonly #hosts = new Set<string>();
  readonly #origins = new Set<string>();
  /** By which addresses of machines' ports are recognised. */
  readonly listening: { readonly scheme: "http" | "https"; readonly port: number };

  constructor(scheme: "http" | "https", port: number, names: readonly string[]) {
    this.listening = { scheme, port };
    for (const name of names) {
      const lower = name.toLowerCase();
      const hasPort = /(^[^[\]:]+|\]):\d+$/.test(lower);
      this.#add(scheme, hasPort ? lower : `${lower}:${port}`);
      if (!hasPort && port === (scheme === "https" ? 443 : 80)) this.#add(scheme, lower);
    }
  }

  #add(scheme: string, host: string): void {
    this.#hosts.add(host);
    this.#origins.add(`${scheme}://${host}`);
  }

  /** Throws `host_not_allowed` unless Host, and Origin if there is one, are on the list. */
  check(request: IncomingMessage): void {
    const { host, origin } = request.headers;
    // A target such as http://other/v1/pools names a host of its own, and it would outrank the header.
    if (request.url?.startsWith("/") !== true) throw this.#refuse("Host", request.url);
    if (host === undefined || !this.#hosts.has(host.toLowerCase())) throw this.#refuse("Host", host);
    if (origin !== undefined && !this.#origins.has(origin.toLowerCase())) throw this.#refuse("Origin", origin);
  }

  #refuse(header: string, received: string | undefined): SandpoolError {
    const allowed = [...(header === "Host" ? this.#hosts : this.#origins)];
    return new SandpoolError("host_not_allowed", `${header} is ${JSON.stringify(received ?? null)}, not on the list`, {
      hint: `use one of ${allowed.join(", ")}; the server's --listen name and allowed hosts extend the list`,
      details: { received: received ?? null, allowed },
    });
  }
}
