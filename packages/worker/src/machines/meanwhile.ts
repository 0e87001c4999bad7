import { fail } from "../fail.ts";
import type { ImageStore, ResolvedImage } from "../images/contract.ts";
import type { Networks } from "../network/contract.ts";

const absent = { reason: "this build has no networks for machines", hint: "make the machine isolated" };

/** A host without networks for machines. */
export const noNetworks: Networks = {
  probe: async () => absent,
  inside: () => ({ environ: {}, resolvConf: null }),
  connect: () => Promise.reject(fail("driver_unavailable", absent.reason, { hint: absent.hint })),
  adopt: () => Promise.reject(fail("driver_unavailable", absent.reason, { hint: absent.hint })),
  disconnect: async () => undefined,
  reconcile: async () => undefined,
  close: async () => undefined,
};

const host: ResolvedImage = {
  ...{ id: "host", name: "host", image: { kind: "host" }, environ: {}, user: null, cwd: null },
  drivers: { namespace: { allowed: true, reason: null }, gvisor: { allowed: true, reason: null } },
};

/** A host with the image `host` only. */
export const hostImageOnly: ImageStore = {
  list: async () => [
    {
      ...{ id: "host", name: "host", kind: "host", source: null, bytes: null, created_at: null },
      description: "the host's own programs and libraries, read-only",
    },
  ],
  resolve: async (nameOrId) => {
    if (nameOrId === "host") return host;
    throw fail("image_not_found", `There is no image ${JSON.stringify(nameOrId)} on this host.`, {
      hint: 'Use the image "host".',
    });
  },
  build: () => Promise.reject(fail("image_failed", "This build makes no images.", { hint: 'Use the image "host".' })),
  pull: () => Promise.reject(fail("image_failed", "This build makes no images.", { hint: 'Use the image "host".' })),
  import: () => Promise.reject(fail("image_failed", "This build makes no images.", { hint: 'Use the image "host".' })),
  remove: () => Promise.reject(fail("image_not_found", "There is no such image.", { hint: 'Use the image "host".' })),
};
