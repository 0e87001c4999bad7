import { SandpoolError } from "@sandpool/protocol";

export const DEFAULT_LISTEN = "127.0.0.1:7070";

export interface ListenAddress {
  /** The name as it was given, brackets included for IPv6. */
  name: string;
  /** What to bind. */
  host: string;
  port: number;
  loopback: boolean;
}

/** Takes `host:port`, `[::1]:port` or a port alone apart. Throws `listen_refused`. */
export function parseListen(text: string): ListenAddress {
  const match = /^(?:(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535) {
    throw new SandpoolError("listen_refused", `--listen is ${JSON.stringify(text)}, expected host:port`, {
      hint: `for example ${DEFAULT_LISTEN}, [::1]:7070 or box.example:7070`,
    });
  }
  const name = (match[1] ?? "127.0.0.1").toLowerCase();
  const bare = name.replace(/^\[|\]$/g, "");
  const loopback = bare === "localhost" || bare === "::1" || /^127(\.\d{1,3}){3}$/.test(bare);
  return { name, host: bare === "localhost" ? "127.0.0.1" : bare, port, loopback };
}

/** Beyond loopback, keys and observations would cross the network readable: TLS or an explicit `insecure`. */
export function requireSafeListen(address: ListenAddress, tls: boolean, insecure: boolean): void {
  if (address.loopback || tls || insecure) return;
  throw new SandpoolError("listen_refused", `${address.name} is reachable from other hosts and there is no TLS`, {
    hint: "give a certificate and key, or --insecure if the network itself is trusted",
    details: { listen: `${address.name}:${address.port}` },
  });
}
