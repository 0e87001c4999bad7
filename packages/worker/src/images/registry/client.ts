import type { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import { type Agent, type Dispatcher, request } from "undici";
import { imageFailed } from "../failed.ts";
import { apiHost, nameOf, type Reference } from "../reference.ts";
import { isLoopbackName } from "./dial.ts";
import { fetchToken, parseChallenge } from "./token.ts";

type Reply = Dispatcher.ResponseData;

const mostRedirects = 5;

/** Reads one repository of a registry by the OCI distribution specification. */
export class RegistryClient {
  readonly #reference: Reference;
  readonly #agent: Agent;
  readonly #signal: AbortSignal;
  readonly #base: string;
  #authorization: string | null = null;

  constructor(reference: Reference, agent: Agent, signal: AbortSignal) {
    this.#reference = reference;
    this.#agent = agent;
    this.#signal = signal;
    const scheme = isLoopbackName(reference.registry) ? "http" : "https";
    this.#base = `${scheme}://${apiHost(reference.registry)}/v2/${reference.repository}`;
  }

  /** The body of a small object. @throws `image_failed` where it has over `limitBytes` */
  async read(
    path: string,
    accept: string,
    limitBytes: number,
  ): Promise<{ body: Buffer; type: string; digest: string | null }> {
    const reply = await this.#get(path, accept);
    const body = await readLimited(reply.body, limitBytes);
    const header = (name: string): string => String(reply.headers[name] ?? "");
    return {
      body,
      type: header("content-type").split(";")[0]?.trim() ?? "",
      digest: header("docker-content-digest") || null,
    };
  }

  async stream(path: string): Promise<Readable> {
    return (await this.#get(path, "*/*")).body;
  }

  async #get(path: string, accept: string): Promise<Reply> {
    const url = new URL(`${this.#base}/${path}`);
    let reply = await this.#follow(url, accept);
    if (reply.statusCode === 401) {
      const challenge = parseChallenge(String(reply.headers["www-authenticate"] ?? ""));
      await reply.body.dump();
      if (challenge === null) throw this.#refused("asks for a login that needs a name and a password");
      const scope = `repository:${this.#reference.repository}:pull`;
      this.#authorization = await fetchToken(challenge, scope, url, this.#agent, this.#signal);
      reply = await this.#follow(url, accept);
    }
    if (reply.statusCode === 200) return reply;
    await reply.body.dump();
    throw this.#refused(explainStatus(reply.statusCode, path));
  }

  /** Redirects are followed by hand: our authorization goes to the registry only. */
  async #follow(first: URL, accept: string): Promise<Reply> {
    let url = first;
    for (let hops = 0; hops <= mostRedirects; hops += 1) {
      const reply = await this.#send(url, accept, url.origin === first.origin);
      const location = reply.headers.location;
      if (reply.statusCode < 301 || reply.statusCode > 308 || typeof location !== "string") return reply;
      await reply.body.dump();
      const next = URL.parse(location, url.href);
      const safe = next?.protocol === "https:" || (next?.protocol === "http:" && first.protocol === "http:");
      if (next === null || !safe) throw this.#refused("sends us on to an address that is not https");
      url = next;
    }
    throw this.#refused(`sends us on over ${mostRedirects} times`);
  }

  async #send(url: URL, accept: string, own: boolean): Promise<Reply> {
    const headers: Record<string, string> = { accept, "user-agent": "sandpool" };
    if (own && this.#authorization !== null) headers.authorization = this.#authorization;
    try {
      return await request(url, { dispatcher: this.#agent, headers, signal: this.#signal });
    } catch (error) {
      throw explainConnection(error, url, this.#signal);
    }
  }

  #refused(how: string): SandpoolError {
    return imageFailed(`The registry ${this.#reference.registry} ${how} (${nameOf(this.#reference)}).`, {
      hint: "Check the name, and that it can be pulled without a login.",
      details: { registry: this.#reference.registry, repository: this.#reference.repository },
    });
  }
}

export async function readLimited(body: Readable, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += (chunk as Buffer).length;
    if (bytes > limitBytes) throw imageFailed(`The registry's answer has over ${limitBytes} bytes.`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}

export function explainConnection(error: unknown, url: URL, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof SandpoolError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  return imageFailed(`${url.origin} could not be reached: ${code ?? message}.`, {
    hint: "Check the registry's name and this host's network.",
    details: { origin: url.origin, reason: message },
    cause: error,
  });
}

function explainStatus(status: number, path: string): string {
  if (status === 404) return `has no such ${path.startsWith("blobs/") ? "blob" : "image"}`;
  if (status === 401 || status === 403) return "does not let us read it";
  if (status === 429) return "says that too much was asked of it: try again later";
  return `answers with status ${status}`;
}
