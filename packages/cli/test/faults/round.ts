import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { leaks } from "./audit.ts";
import type { Answer, FaultServer } from "./faultServer.ts";
import type { Fault, Noted, Step } from "./messages.ts";

export const VERBS = ["create", "stop", "start", "delete"] as const;
export type Verb = (typeof VERBS)[number];

/** Only a bound for what hangs. */
const LIMIT_MS = 120_000;

export interface Plan {
  verbs: readonly Verb[];
  driver: "namespace" | "gvisor";
  network: "isolated" | "open";
  fault: Fault;
  at: Step | null;
}

/** A machine that lives through all faults, with a program that counts. */
export interface Bystander {
  id: string;
  pid: number;
  counted: number;
}

interface Task {
  verb: Verb;
  name: string;
  key: string;
}

export async function makeBystander({ client }: FaultServer): Promise<Bystander> {
  const { id } = await client.machines.create({ name: "bystander", driver: "namespace", isolated: true });
  const count = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.02; done";
  const { pid } = await client.machines.startExec(id, { command: count });
  await client.machines.exec(id, { command: "until [ -s /tmp/count ]; do sleep 0.01; done" });
  return { id, pid, counted: 0 };
}

/**
 * Runs the verbs at once, each on a machine of its own, and has the fault strike at the step. Then: every machine answers or
 * says why not, what was asked for is done when it is asked again, and nothing else is left on the host.
 * @returns the steps of the server, null where it has ended
 */
export async function playRound(server: FaultServer, bystander: Bystander, plan: Plan): Promise<Noted | null> {
  const about = `${plan.verbs} of ${plan.driver} machines (${plan.network}), ${plan.fault} at ${JSON.stringify(plan.at)}`;
  const tasks = plan.verbs.map((verb) => ({ verb, name: `box-${verb}`, key: randomUUID() }));
  await Promise.all(tasks.map((task) => prepare(server, plan, task)));
  await server.arm({ fault: plan.fault, at: plan.at, machines: server.machines, spared: [bystander.id] });
  const outcomes = await Promise.allSettled(tasks.map((task) => ask(server, plan, task)));
  const noted = await server.disarm();
  if (noted === null || (plan.fault === "terminate" && noted.isStruck)) await server.ended();
  for (const outcome of outcomes) checkOutcome(outcome, server, noted, about);
  await server.start();
  await settle(server, about);
  await Promise.all(tasks.map((task, index) => finish(server, plan, task, outcomes[index], about)));
  await checkBystander(server, bystander, about);
  await expectNoLeaks(server, [bystander.id], about);
  return noted;
}

/** Brings a machine to where its verb begins, with a word on its disk. */
async function prepare({ client }: FaultServer, plan: Plan, { verb, name }: Task): Promise<void> {
  if (verb === "create") return;
  await client.machines.create({ name, driver: plan.driver, isolated: plan.network === "isolated" });
  await client.machines.files.write(name, "/root/word", name);
  if (verb === "start") await client.machines.stop(name);
}

function ask(server: FaultServer, plan: Plan, { verb, name, key }: Task): Promise<Answer> {
  if (verb === "delete") return server.send("DELETE", `/v1/machines/${name}`);
  if (verb !== "create") return server.send("POST", `/v1/machines/${name}/${verb}`, {});
  const request = { name, driver: plan.driver, isolated: plan.network === "isolated" };
  return server.send("POST", "/v1/machines", request, { "idempotency-key": key });
}

/** It succeeded, or the server was gone, or it says in a code and in words why not. */
function checkOutcome(
  outcome: PromiseSettledResult<Answer>,
  server: FaultServer,
  noted: Noted | null,
  about: string,
): void {
  if (outcome.status === "rejected") {
    const hasEnded = !server.isRunning || (noted?.isStruck ?? true);
    expect(hasEnded, `${about}: ${outcome.reason}`).toBe(true);
    return;
  }
  const { status, body } = outcome.value;
  if (status < 300) return;
  const told = `${about}: ${status} ${JSON.stringify(body)}`;
  // What the server itself does not know is hidden behind a request's id.
  expect(body.error?.message, told).toMatch(/^(?!an internal fault)\S/);
  expect(body.error?.hint, told).toMatch(/\S/);
}

/** Until no machine is on its way any more. */
async function settle(server: FaultServer, about: string): Promise<void> {
  await until(async () => {
    const machines = await server.client.machines.list();
    const known = machines.map(({ id }) => id);
    return [
      ...machines
        .filter(({ state }) => /ing$/.test(state) && state !== "running")
        .map(({ name, state }) => `${name} is ${state}`),
      ...leaks(server, known),
    ];
  }, about);
}

/** Asks again for what was asked for, looks whether it is there, and takes it away. */
async function finish(
  server: FaultServer,
  plan: Plan,
  task: Task,
  outcome: PromiseSettledResult<Answer> | undefined,
  about: string,
): Promise<void> {
  const { verb, name } = task;
  const { machines } = server.client;
  const told = `${about}: ${verb} again`;
  const before = (await machines.list()).find((machine) => machine.name === name);
  const again = await ask(server, plan, task);
  const said = `${told}: ${JSON.stringify(again)}, before it ${JSON.stringify(before)}`;
  expect(again.status, said).toBeLessThan(300);
  if (verb === "delete") {
    expect(again.body.deleted, said).toBe(true);
    return;
  }
  // One whose runtime was killed at the very end was made and then crashed, which it says; its disk is an empty one.
  const hasCrashed = plan.fault === "runtime" && again.body.reason === "crashed";
  expect(again.body.state, said).toBe(verb === "stop" || hasCrashed ? "stopped" : "running");
  if (verb === "create" && outcome?.status === "fulfilled" && outcome.value.status === 201) {
    expect(again.body.id, said).toBe(outcome.value.body.id);
  }
  if (again.body.state === "stopped") await machines.start(name);
  const { stdout } = await machines.exec(name, { command: "cat /root/word 2>/dev/null || echo nothing" });
  // Only a machine that never got to save its disk may have lost it, and it says so.
  const isSaved = verb !== "create" && (before?.state === "running" || before?.disk_saved_at !== null);
  expect(stdout, said).toBe(isSaved ? name : "nothing\n");
  const deleted = await server.send("DELETE", `/v1/machines/${name}`);
  expect(deleted.body.deleted, `${said}: ${JSON.stringify(deleted)}`).toBe(true);
}

async function checkBystander(server: FaultServer, bystander: Bystander, about: string): Promise<void> {
  const command = `kill -0 ${bystander.pid} && cat /tmp/count`;
  const { stdout, exitCode } = await server.client.machines.exec(bystander.id, { command });
  expect([exitCode, Number(stdout) > bystander.counted], `${about}: the bystander counts ${stdout}`).toEqual([0, true]);
  bystander.counted = Number(stdout);
}

/** What goes in the background after a restart may take its time. */
export async function expectNoLeaks(server: FaultServer, known: readonly string[], about: string): Promise<void> {
  await until(async () => leaks(server, known), about);
}

/** Waits until the list is empty. */
export async function until(left: () => Promise<string[]>, about: string): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  for (let now = await left(); now.length > 0; now = await left()) {
    if (performance.now() > deadline) expect(now, about).toEqual([]);
    await sleep(50);
  }
}
