import { Sandpool } from "sandpool";
import { EXIT } from "../../output/failure.ts";
import { type Output, safe } from "../../output/output.ts";

export interface UrlOptions {
  link?: number;
  public?: boolean;
}

/** The addresses of a port, for browsers and for programs; or a signed one. */
export async function machineUrl(output: Output, machine: string, port: number, options: UrlOptions): Promise<number> {
  const { machines } = new Sandpool();
  if (options.public !== undefined) await machines.setPort(machine, port, { public: options.public });
  if (options.link !== undefined) {
    const link = await machines.link(machine, port, { expiresSeconds: options.link });
    if (output.json) output.document(link);
    else {
      output.line(safe(link.url));
      output.note(`It needs no key until ${safe(link.expires_at)}.`);
    }
    return EXIT.ok;
  }
  const { url, pathUrl, public: isPublic, listening } = await machines.url(machine, port);
  if (output.json) output.document({ url, path_url: pathUrl, public: isPublic, listening });
  else {
    output.line(safe(url));
    output.line(safe(pathUrl));
    if (!listening) output.note(`Nothing listens on port ${port} yet.`);
    if (!isPublic) output.note("Both need the key; --link makes an address that needs none, --public opens the port.");
  }
  return EXIT.ok;
}
