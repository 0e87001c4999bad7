import { hostFolders } from "../host/folders.ts";
import type { ConnectedNetwork, NetworkOptions, Networks } from "./contract.ts";
import { HostNetwork } from "./host-network.ts";
import { insideOf } from "./inside.ts";
import { parseExceptions } from "./policy/exceptions.ts";
import { probeNetworks } from "./probe.ts";

/**
 * The networks of one server's machines. Nothing is made on the host before the first machine needs it.
 * @throws TypeError for an exception that cannot be one
 */
export function createNetworks(options: NetworkOptions): Networks {
  const host = new HostNetwork(hostFolders(options.dataDir), parseExceptions(options.allowed), {
    warn: options.warn ?? ((): void => undefined),
    ...(options.nameServers === undefined ? {} : { nameServers: options.nameServers }),
  });
  let canWork = false;
  return {
    probe: async () => {
      const problem = canWork ? null : await probeNetworks();
      canWork = problem === null;
      return problem;
    },
    inside: insideOf,
    connect: (id, policy, network): Promise<ConnectedNetwork> => host.connect(id, policy, network),
    adopt: (id, policy, network): Promise<ConnectedNetwork> => host.adopt(id, policy, network),
    disconnect: (id) => host.disconnect(id),
    reconcile: (ids) => host.reconcile(ids),
    close: ({ keep }) => host.close(keep),
  };
}
