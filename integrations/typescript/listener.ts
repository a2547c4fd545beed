// One reader of a subscription's queue for everybody in the process who waits for a fact.
//
// A fact's message is deleted when all who take the fact are done with it, so that what a process had in hand when it
// died is delivered again. A fact that nobody takes yet is kept, and its message too.

import { type Events, REQUIRED } from "./types.ts";

/** One message of the subscription's queue; a later delivery of it has another receipt. */
export interface Delivery {
  messageId: string;
  receipt: string;
  body: string;
}

export interface Inbox {
  receive(waitS: number): Promise<Delivery[]>;
  delete(receipts: string[]): Promise<void>;
}

type Told<T extends keyof Events> = { id: string; time: string; type: T; detail: Events[T] };
/** A fact, told apart by `type`. `id` is EventBridge's: a step that is repeated has another. */
export type Fact = { [T in keyof Events]: Told<T> }[keyof Events];

export interface Named {
  namespace: string;
  name: string;
}
interface Naming {
  workload?: Named | null;
  workloads?: Named[];
  returned?: Named[];
}
/** These answer somebody's message; whoever did not ask has no use for them. */
const ANSWERS = ["Workload Accepted", "Workload Described", "Workload Ignored", "Workload Rejected"];
/** Facts that were dealt with, by identity: repeats come soon or not at all. */
const REMEMBERED = 20_000;
/** Facts that nobody takes yet; the oldest go first, and SQS delivers them again. */
const KEPT = 5_000;
const LONG_POLL_S = 20;

export function keyOf(workload: Named): string {
  return `${workload.namespace}/${workload.name}`;
}

/** The workloads that a fact names. */
export function keysOf(fact: Fact): string[] {
  const detail = fact.detail as Naming;
  const named = [detail.workload, ...(detail.workloads ?? []), ...(detail.returned ?? [])];
  return named.filter((one) => one != null).map(keyOf);
}

/** What tells repeats apart: the drain or the claim that a fact is about, where there is one, else its id. */
function identityOf(fact: Fact): string {
  if (fact.type === "Node Draining") {
    // One that names more workloads is news to those.
    const told = fact.detail.workloads.map(keyOf).sort();
    return JSON.stringify([fact.type, fact.detail.drainId, fact.detail.deadline, told]);
  }
  if (fact.type === "Node Launched" || fact.type === "Node Terminated") {
    return JSON.stringify([fact.type, fact.detail.node.nodeClaim]);
  }
  return fact.id;
}

/** Read a message of the queue; undefined for what is no fact that this release knows. */
export function parseFact(body: string): Fact | undefined {
  try {
    const { id, time, source, detail, "detail-type": type } = JSON.parse(body);
    const required = Object.entries(REQUIRED[type as keyof Events]);
    const isComplete = required.every(([name, kind]) => detail[name] !== null && typeof detail[name] === kind);
    return source === "reservoir" && isComplete ? { id, time, type, detail } : undefined;
  } catch {
    return undefined;
  }
}

/** What one waiting party sees. `takes`: the fact counts as dealt with only once this party is done with it. */
export interface Stream {
  wants: (fact: Fact) => boolean;
  takes: boolean;
  waiting: Fact[];
  stop: AbortSignal | undefined;
}

/** A fact whose message is not deleted yet, and who has it in hand. A repeat is a message of its own. */
interface Held {
  fact: Fact;
  receipts: Map<string, string>;
  takers: Set<Stream>;
}

export class Listener {
  readonly #inbox: Inbox;
  readonly #nowS: () => number;
  readonly #streams = new Set<Stream>();
  readonly #held = new Map<string, Held>();
  readonly #done = new Set<string>();
  #reading: Promise<void> | undefined;

  constructor(inbox: Inbox, nowS: () => number) {
    this.#inbox = inbox;
    this.#nowS = nowS;
  }

  /** Take part from now on, beginning with what was kept. `close` it: what is in hand then is delivered again. */
  open(wants: Stream["wants"], takes: boolean, stop?: AbortSignal): Stream {
    const stream: Stream = { wants, takes, waiting: [], stop };
    this.#streams.add(stream);
    if (takes) for (const held of this.#held.values()) offer(stream, held);
    return stream;
  }

  close(stream: Stream): void {
    this.#streams.delete(stream);
    for (const held of this.#held.values()) held.takers.delete(stream);
  }

  /** The stream's next fact; undefined when there is none in time, or the stream is stopped. */
  async next(stream: Stream, timeoutS: number): Promise<Fact | undefined> {
    const until = this.#nowS() + timeoutS;
    while (!stream.stop?.aborted) {
      const fact = stream.waiting.shift();
      if (fact) return fact;
      const leftS = until - this.#nowS();
      if (leftS <= 0) return undefined;
      await this.#readOrWait(leftS);
    }
    return undefined;
  }

  /** Say that the party has dealt with a fact; when all have, its message is deleted. */
  async done(stream: Stream, fact: Fact): Promise<void> {
    const held = this.#held.get(identityOf(fact));
    if (!held) return;
    held.takers.delete(stream);
    if (held.takers.size === 0) await this.#inbox.delete(this.#forget(held));
  }

  async #readOrWait(leftS: number): Promise<void> {
    if (this.#reading) {
      // Whoever reads says what went wrong; the others try again, a second later at the latest.
      const second = new Promise<void>((resolve) => setTimeout(resolve, Math.min(leftS, 1) * 1000));
      await Promise.race([this.#reading.catch(() => second), second]);
      return;
    }
    this.#reading = this.#read(leftS);
    try {
      await this.#reading;
    } finally {
      this.#reading = undefined;
    }
  }

  async #read(leftS: number): Promise<void> {
    // A part of a second is asked for as one, so that nobody spins.
    const deliveries = await this.#inbox.receive(Math.max(1, Math.floor(Math.min(leftS, LONG_POLL_S))));
    const receipts = deliveries.flatMap((delivery) => this.#takeIn(delivery));
    if (receipts.length > 0) await this.#inbox.delete(receipts);
  }

  /** Hand a message to whom it concerns; return the receipts of what is to be deleted. */
  #takeIn(delivery: Delivery): string[] {
    const fact = parseFact(delivery.body);
    if (!fact || this.#done.has(identityOf(fact))) return [delivery.receipt];
    const known = this.#held.get(identityOf(fact));
    if (known) {
      known.receipts.set(delivery.messageId, delivery.receipt);
      return [];
    }
    const held: Held = {
      fact,
      receipts: new Map([[delivery.messageId, delivery.receipt]]),
      takers: new Set(),
    };
    this.#held.set(identityOf(fact), held);
    for (const stream of this.#streams) offer(stream, held);
    if (ANSWERS.includes(fact.type) && held.takers.size === 0) return this.#forget(held);
    this.#dropWhatIsTooMuch();
    return [];
  }

  #forget(held: Held): string[] {
    this.#held.delete(identityOf(held.fact));
    this.#done.add(identityOf(held.fact));
    for (const oldest of this.#done) {
      if (this.#done.size <= REMEMBERED) break;
      this.#done.delete(oldest);
    }
    return [...held.receipts.values()];
  }

  #dropWhatIsTooMuch(): void {
    for (const [identity, held] of this.#held) {
      if (this.#held.size <= KEPT) return;
      if (held.takers.size === 0) this.#held.delete(identity);
    }
  }
}

function offer(stream: Stream, held: Held): void {
  if (!stream.wants(held.fact)) return;
  stream.waiting.push(held.fact);
  if (stream.takes) held.takers.add(stream);
}
