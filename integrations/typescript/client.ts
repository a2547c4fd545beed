// What a workload system says to Reservoir, and what it hears.
//
// Everything is asked again until it is answered. That changes nothing twice: a question changes nothing, and a submit
// is applied once by its generation.

import { randomUUID } from "node:crypto";
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { type Delivery, type Fact, type Inbox, keyOf, keysOf, Listener, type Stream } from "./listener.ts";
import type { NodeDraining, NodeStatus, RejectedProblem, WorkloadDescribed, WorkloadManifest } from "./types.ts";

export type { Delivery, Fact, Inbox } from "./listener.ts";
export type * from "./types.ts";

/** Any error of the client beside those of AWS's own library. */
export class ClientError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}
/** The call needs an answer, and the client was made without a queue to hear it on. */
export class NotSubscribedError extends ClientError {}
/** Nobody answered in time. What was sent may still come about; sending it again changes nothing twice. */
export class UnansweredError extends ClientError {}
/** Somebody else has written the workload: nothing of ours is stored. Read it (`status`) and decide again. */
export class GenerationConflictError extends ClientError {}
/** The workload that is waited for was withdrawn, or nobody has sent it. */
export class WithdrawnError extends ClientError {}
/** What was sent cannot be; it changed nothing. */
export class RejectedError extends ClientError {
  readonly problems: RejectedProblem[];
  constructor(key: string, problems: RejectedProblem[]) {
    super(`${key} was rejected: ${problems.map((it) => `${it.path}: ${it.message}`).join("; ")}`);
    this.problems = problems;
  }
}

export interface Outbox {
  /** Send a message; return SQS's id of it. */
  send(message: object): Promise<string>;
}

export interface Submitted {
  key: string;
  generation: number;
  /** Whether Reservoir has said that it is stored; otherwise nobody was asked. */
  isStored: boolean;
}

/** Time and chance, for tests. */
export interface Surroundings {
  nowS: () => number;
  jitter: (shortestS: number, longestS: number) => number;
  newId: () => string;
}

type Timeout = { timeoutS?: number };
interface Listening {
  /** Return when nothing comes for so long; by default never. */
  idleS?: number;
  /** Return when it is aborted and the reading that is under way ends, in 20 s at most. */
  stop?: AbortSignal;
}

const ANSWERED_WITHIN_S = 120;
const FIRST_PAUSE_S = 4;
const LONGEST_PAUSE_S = 64;
const REMEMBERED = 20_000;
const AWAITING_LAUNCH = ["planned", "launching"];
const REAL: Surroundings = {
  nowS: () => performance.now() / 1000,
  jitter: (shortestS, longestS) => shortestS + Math.random() * (longestS - shortestS),
  newId: randomUUID,
};

/** Speaks to one deployment; any number of calls may be under way. */
export class Client {
  readonly #outbox: Outbox;
  readonly #listener: Listener | undefined;
  readonly #around: Surroundings;
  readonly #handled = new Set<string>();

  /** `inbox` is a subscription's; without it nothing can be done that needs an answer. */
  constructor(outbox: Outbox, inbox?: Inbox, around: Surroundings = REAL) {
    this.#outbox = outbox;
    this.#listener = inbox && new Listener(inbox, around.nowS);
    this.#around = around;
  }

  /** Connect to a demand queue, and to the queue of a subscription if answers are wanted. */
  static connect(demandQueueUrl: string, eventsQueueUrl?: string, sqs: SQSClient = new SQSClient()): Client {
    const inbox = eventsQueueUrl === undefined ? undefined : new SqsInbox(sqs, eventsQueueUrl);
    return new Client(new SqsOutbox(sqs, demandQueueUrl), inbox);
  }

  /**
   * Have a workload wanted as it is given: new, changed or once more; return when it is stored.
   *
   * Without `metadata.generation` the generation follows from the content: what is stored already keeps its number,
   * anything else gets the next. A client without a subscription sends what has a generation, and returns.
   */
  async submit(workload: WorkloadManifest, { timeoutS = ANSWERED_WITHIN_S }: Timeout = {}): Promise<Submitted> {
    const { namespace = "default", name, generation: given } = workload.metadata;
    const key = keyOf({ namespace, name });
    if (!this.#listener && given !== undefined) {
      await this.#send("submit", workload);
      return { key, generation: given, isStored: false };
    }
    this.#hearing("submit without a generation");
    const until = this.#around.nowS() + timeoutS;
    const generation = given ?? next(await this.#ask(key, until, workload));
    await this.#store(key, { ...workload, metadata: { ...workload.metadata, generation } }, generation, until);
    return { key, generation, isStored: true };
  }

  /** Have a workload (`namespace/name`) not wanted any more, as it is stored now; return when this is so. */
  async withdraw(key: string, { timeoutS = ANSWERED_WITHIN_S }: Timeout = {}): Promise<void> {
    const until = this.#around.nowS() + timeoutS;
    let generation: number | undefined;
    this.#hearing("withdraw");
    for (const _ of this.#attempts(until)) {
      const known = await this.#ask(key, until);
      const stored = known.workload.generation ?? undefined;
      if (stored === undefined || known.withdrawn) return;
      generation ??= stored;
      if (stored !== generation) throw conflict(key, generation, known);
      await this.#send("withdraw", named(key, { generation }));
    }
    throw new UnansweredError(`${key} was not withdrawn in time`);
  }

  /** Say that replicas (by default all of the workload) have left a draining node; a repeat changes nothing. */
  async release(key: string, nodeClaim: string, replicas?: number): Promise<void> {
    await this.#send("release", named(key), replicas === undefined ? { nodeClaim } : { nodeClaim, replicas });
  }

  /** Ask what is known of a workload now: generation, who sent it, why replicas wait, nodes and their drains. */
  async status(key: string, { timeoutS = ANSWERED_WITHIN_S }: Timeout = {}): Promise<WorkloadDescribed> {
    this.#hearing("status");
    return await this.#ask(key, this.#around.nowS() + timeoutS);
  }

  /** Wait until every replica has a place (`launched`: on an instance); facts only make it look sooner. */
  async waitPlaced(
    key: string,
    { launched = false, timeoutS = Infinity, stop }: Timeout & { launched?: boolean; stop?: AbortSignal } = {},
  ): Promise<WorkloadDescribed> {
    const listener = this.#hearing("waitPlaced");
    const until = this.#around.nowS() + timeoutS;
    const concerns = (fact: Fact) =>
      keysOf(fact).includes(key) && fact.type !== "Workload Described" && fact.type !== "Workload Accepted";
    const stream = listener.open(concerns, false, stop);
    let known: WorkloadDescribed | undefined;
    try {
      for (const pauseS of this.#attempts(until)) {
        if (stop?.aborted) break;
        stream.waiting.length = 0;
        known = await this.#ask(key, this.#around.nowS() + ANSWERED_WITHIN_S);
        if (known.workload.generation == null || known.withdrawn) throw new WithdrawnError(`nobody wants ${key}`);
        if (isPlaced(known, launched)) return known;
        await listener.next(stream, Math.min(pauseS, until - this.#around.nowS()));
      }
    } finally {
      listener.close(stream);
    }
    const why = known?.waiting.map((it) => `${it.replicas} because ${it.message}`).join("; ");
    throw new UnansweredError(`${key} has no place yet: ${why || "no plan has looked at it"}`);
  }

  /** Yield the facts of the subscription, repeats left out. One counts as dealt with when the next is asked for. */
  async *events({ idleS = Infinity, stop }: Listening = {}): AsyncGenerator<Fact, void, void> {
    const listener = this.#hearing("events");
    const stream = listener.open(() => true, true, stop);
    try {
      for (let fact; (fact = await listener.next(stream, idleS)); ) {
        yield fact;
        await listener.done(stream, fact);
      }
    } finally {
      listener.close(stream);
    }
  }

  /**
   * Call `handle` once for each drain of `whose`; when it returns, those replicas are released.
   *
   * `whose` names namespaces, or single workloads (`namespace/name`). The latter are asked for first, so that drains of
   * which the notice was missed are handled too. If `handle` throws, nothing is released, and the drain is handled
   * again by the next call, in whichever process.
   */
  async onDraining(
    handle: (notice: NodeDraining) => void | Promise<void>,
    whose: string[],
    { idleS = Infinity, stop }: Listening = {},
  ): Promise<void> {
    const listener = this.#hearing("onDraining");
    const stream = listener.open((fact) => fact.type === "Node Draining", true, stop);
    try {
      for (const key of whose.filter((one) => one.includes("/"))) {
        for (const notice of drainsOf(await this.status(key))) await this.#handle(notice, handle);
      }
      for (let fact; (fact = await listener.next(stream, idleS)); ) {
        if (fact.type === "Node Draining") await this.#handle(ours(fact.detail, whose), handle);
        await listener.done(stream, fact);
      }
    } finally {
      listener.close(stream);
    }
  }

  async #handle(notice: NodeDraining, handle: (notice: NodeDraining) => void | Promise<void>): Promise<void> {
    const mark = (workload: { namespace: string; name: string }) => `${notice.drainId} ${keyOf(workload)}`;
    // A notice that is repeated may name more workloads than before.
    const workloads = notice.workloads.filter((one) => !this.#handled.has(mark(one)));
    if (workloads.length === 0) return;
    await handle({ ...notice, workloads });
    for (const one of workloads) await this.release(keyOf(one), notice.node.nodeClaim);
    for (const one of workloads) this.#handled.add(mark(one));
    for (const oldest of this.#handled) {
      if (this.#handled.size <= REMEMBERED) break;
      this.#handled.delete(oldest);
    }
  }

  /** Ask what is known of a workload, and whether it is stored as `workload` has it. */
  async #ask(key: string, until: number, workload?: WorkloadManifest): Promise<WorkloadDescribed> {
    const asked = new Set<string>();
    const sent = new Set<string>();
    const answers = (fact: Fact) =>
      fact.type === "Workload Rejected"
        ? keysOf(fact).includes(key)
        : fact.type === "Workload Described" && asked.has(fact.detail.requestId);
    return await this.#whileListening(answers, async (stream) => {
      for (const pauseS of this.#attempts(until)) {
        const requestId = this.#around.newId();
        asked.add(requestId);
        sent.add(await this.#send("describe", workload ?? named(key), { requestId }));
        const answer = await this.#putTogether(stream, key, sent, pauseS);
        if (answer) return answer;
      }
      throw unanswered(key);
    });
  }

  /** The first answer of which all parts are there. */
  async #putTogether(stream: Stream, key: string, sent: Set<string>, timeoutS: number) {
    const parts = new Map<string, Map<number, WorkloadDescribed>>();
    for await (const fact of this.#facts(stream, timeoutS)) {
      if (fact.type === "Workload Rejected" && sent.has(fact.detail.messageId)) {
        throw new RejectedError(key, fact.detail.problems);
      }
      if (fact.type !== "Workload Described") continue;
      const known = parts.get(fact.detail.requestId) ?? new Map<number, WorkloadDescribed>();
      parts.set(fact.detail.requestId, known.set(fact.detail.part, fact.detail));
      if (known.size === fact.detail.partCount) {
        const inOrder = [...known.values()].sort((one, other) => one.part - other.part);
        return { ...fact.detail, nodes: inOrder.flatMap((it) => it.nodes), part: 1, partCount: 1 };
      }
    }
    return undefined;
  }

  /** Send a workload until it is stored. */
  async #store(key: string, workload: WorkloadManifest, generation: number, until: number): Promise<void> {
    const told = ["Workload Accepted", "Workload Ignored", "Workload Rejected"];
    const outcome = (fact: Fact) => told.includes(fact.type) && keysOf(fact).includes(key);
    const sent = new Set<string>();
    await this.#whileListening(outcome, async (stream) => {
      for (const pauseS of this.#attempts(until)) {
        sent.add(await this.#send("submit", workload));
        const said = await this.#said(stream, sent, pauseS);
        if (said?.type === "Workload Accepted") return;
        if (said?.type === "Workload Rejected") throw refusal(key, said.detail.problems);
        // What was said of it may be lost.
        const known = await this.#ask(key, until, workload);
        const stored = known.workload.generation ?? 0;
        // A release before this client's does not compare: it is asked until it says itself that nothing was changed.
        const isUnknown = known.isStored == null && said === undefined;
        if (stored < generation || (stored === generation && isUnknown)) continue;
        if (stored === generation && (known.isStored ?? isUnchanged(said))) return;
        throw conflict(key, generation, known);
      }
      throw unanswered(key);
    });
  }

  /** What was said of one of the messages that were sent. */
  async #said(stream: Stream, sent: Set<string>, timeoutS: number) {
    for await (const fact of this.#facts(stream, timeoutS)) {
      if ("messageId" in fact.detail && sent.has(fact.detail.messageId)) return fact;
    }
    return undefined;
  }

  /** The facts that come within `timeoutS`, each dealt with as it is taken. */
  async *#facts(stream: Stream, timeoutS: number): AsyncGenerator<Fact, void, void> {
    const listener = this.#hearing("an answer");
    const until = this.#around.nowS() + timeoutS;
    for (let fact; (fact = await listener.next(stream, until - this.#around.nowS())); ) {
      await listener.done(stream, fact);
      yield fact;
    }
  }

  async #whileListening<T>(wants: (fact: Fact) => boolean, act: (stream: Stream) => Promise<T>): Promise<T> {
    const listener = this.#hearing("an answer");
    const stream = listener.open(wants, true);
    try {
      return await act(stream);
    } finally {
      listener.close(stream);
    }
  }

  /** Yield how long to wait for an answer each time, ever longer, as long as there is time. */
  *#attempts(until: number): Generator<number, void, void> {
    for (let pauseS = FIRST_PAUSE_S; ; pauseS = Math.min(2 * pauseS, LONGEST_PAUSE_S)) {
      const leftS = until - this.#around.nowS();
      if (leftS <= 0) return;
      yield Math.min(this.#around.jitter(pauseS / 2, pauseS), leftS);
    }
  }

  async #send(action: string, workload: object, more: object = {}): Promise<string> {
    return await this.#outbox.send({ schemaVersion: 1, action, workload, ...more });
  }

  #hearing(call: string): Listener {
    if (this.#listener) return this.#listener;
    throw new NotSubscribedError(`${call} needs an answer: give the client the queue of a subscription`);
  }
}

function named(key: string, more: object = {}): object {
  const [namespace, name] = key.split("/", 2);
  return { metadata: { namespace, name, ...more } };
}

/** The generation with which to submit what was asked about. What was withdrawn is wanted anew. */
function next(known: WorkloadDescribed): number {
  const stored = known.workload.generation ?? 0;
  return known.isStored && !known.withdrawn ? stored : stored + 1;
}

function isPlaced(known: WorkloadDescribed, launched: boolean): boolean {
  const counted = known.nodes.filter((node) => !launched || !AWAITING_LAUNCH.includes(node.state));
  const unfinished = known.wanted - known.finished;
  return known.placed >= unfinished && unfinished <= counted.reduce((sum, node) => sum + node.replicas, 0);
}

/** Leave in a notice the workloads of `whose`: what others run on a shared node is theirs to release. */
function ours(notice: NodeDraining, whose: string[]): NodeDraining {
  const isOurs = (one: { namespace: string; name: string }) =>
    whose.includes(one.namespace) || whose.includes(keyOf(one));
  return { ...notice, workloads: notice.workloads.filter(isOurs) };
}

/** The notices that somebody who heard nothing has missed. */
function drainsOf(known: WorkloadDescribed): NodeDraining[] {
  return known.nodes.flatMap((node: NodeStatus) => {
    const { namespace, name } = known.workload;
    if (!node.drain?.awaiting) return [];
    const { awaiting, ...drain } = node.drain;
    return [{ version: 1 as const, ...drain, node, workloads: [{ namespace, name, replicas: awaiting }] }];
  });
}

function refusal(key: string, problems: RejectedProblem[]): ClientError {
  return problems.some((it) => it.rule === "generation-taken")
    ? new GenerationConflictError(problems.map((it) => it.message).join("; "))
    : new RejectedError(key, problems);
}

function conflict(key: string, generation: number, known: WorkloadDescribed): GenerationConflictError {
  const what = known.withdrawn ? "withdrawn" : "sent";
  const by = known.sentBy == null ? "" : ` by ${known.sentBy}`;
  const at = known.sentAt == null ? "" : ` at ${known.sentAt}`;
  const stored = `generation ${known.workload.generation} was ${what}${by}${at}`;
  return new GenerationConflictError(`generation ${generation} of ${key} is not what is stored: ${stored}`);
}

function isUnchanged(said: Fact | undefined): boolean {
  return said?.type === "Workload Ignored" && said.detail.reason === "Unchanged";
}

function unanswered(key: string): UnansweredError {
  return new UnansweredError(`no answer came about ${key} in time: is the subscription of its namespace?`);
}

/** The demand queue. A lost answer has a message sent twice; each is applied once by its generation. */
export class SqsOutbox implements Outbox {
  readonly #sqs: SQSClient;
  readonly #queueUrl: string;
  constructor(sqs: SQSClient, queueUrl: string) {
    this.#sqs = sqs;
    this.#queueUrl = queueUrl;
  }

  async send(message: object): Promise<string> {
    const command = new SendMessageCommand({ QueueUrl: this.#queueUrl, MessageBody: JSON.stringify(message) });
    return (await this.#sqs.send(command)).MessageId!;
  }
}

/** The subscription's queue. */
export class SqsInbox implements Inbox {
  readonly #sqs: SQSClient;
  readonly #queueUrl: string;
  constructor(sqs: SQSClient, queueUrl: string) {
    this.#sqs = sqs;
    this.#queueUrl = queueUrl;
  }

  async receive(waitS: number): Promise<Delivery[]> {
    const input = { QueueUrl: this.#queueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: waitS };
    const { Messages = [] } = await this.#sqs.send(new ReceiveMessageCommand(input));
    return Messages.map((it) => ({ messageId: it.MessageId!, receipt: it.ReceiptHandle!, body: it.Body! }));
  }

  /** Delete in batches; a receipt that has expired belongs to a message that comes again. */
  async delete(receipts: string[]): Promise<void> {
    for (let start = 0; start < receipts.length; start += 10) {
      const part = receipts.slice(start, start + 10);
      const Entries = part.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
      await this.#sqs.send(new DeleteMessageBatchCommand({ QueueUrl: this.#queueUrl, Entries }));
    }
  }
}
