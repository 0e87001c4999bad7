import { lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { Agent, buildConnector } from "undici";
import { isPrivateAddress } from "../../layers/addresses.ts";
import { imageFailed } from "../failed.ts";

/**
 * Connections that reach no private address, but those of hosts the operator listed. The address that was looked at is the one that is
 * dialled, for every host that a registry sends us to as well.
 */
export function openDialer(privateHosts: readonly string[], certificates: string | null): Agent {
  const listed = new Set(privateHosts.map((host) => host.toLowerCase()));
  const connect = buildConnector({
    timeout: 20_000,
    ...(certificates === null ? {} : { ca: certificates }),
  });
  const checked = buildConnector({
    timeout: 20_000,
    ...(certificates === null ? {} : { ca: certificates }),
    lookup: checkedLookup,
  });
  return new Agent({
    headersTimeout: 60_000,
    bodyTimeout: 60_000,
    connect: (options, done) => {
      const host = bareHost(options.hostname);
      if (listed.has(host)) return connect(options, done);
      if (isIP(host) !== 0 && isPrivateAddress(host)) return done(refused(host, host), null);
      checked(options, done);
    },
  });
}

/** Whether plain http is meant: by convention, for a registry on this very host; such a host has to be listed all the same. */
export function isLoopbackName(host: string): boolean {
  const bare = bareHost(host.replace(/:\d+$/, ""));
  return bare === "localhost" || bare.endsWith(".localhost") || /^127\.\d+\.\d+\.\d+$/.test(bare) || bare === "::1";
}

function bareHost(host: string): string {
  return host.replace(/^\[|\]$/g, "").toLowerCase();
}

const checkedLookup: LookupFunction = (host, options, done) => {
  lookup(host, { ...options, all: true }, (error, answers) => {
    if (error !== null) return done(error, "", 0);
    const usable = answers.filter(({ address }) => !isPrivateAddress(address));
    const [first] = usable;
    if (first === undefined) return done(refused(host, answers[0]?.address ?? "nothing"), "", 0);
    if (options.all === true) done(null, usable);
    else done(null, first.address, first.family);
  });
};

function refused(host: string, address: string): NodeJS.ErrnoException {
  return imageFailed(`The registry host ${JSON.stringify(host)} has the private address ${address}.`, {
    hint: `Private addresses are reached only by hosts the operator listed: sandpool up --private-host ${host}`,
    details: { host, address },
  });
}
