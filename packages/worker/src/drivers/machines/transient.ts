/**
 * Machines that this process itself has under way and that no server knows: probes and sandboxes of image builds. Whoever starts one adds
 * its id first and takes it out once it is removed; after a crash nothing is in here, and what is left is removed as unknown.
 */
export const transientMachines = new Set<string>();
