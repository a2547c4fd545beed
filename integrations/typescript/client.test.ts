// Plays the transcript of the Python client to this one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, type Delivery, type Fact, type WorkloadDescribed } from "./client.ts";

const HIDDEN_S = 120;
const TRANSCRIPT = new URL("../../tests/client/transcript.json", import.meta.url);

interface Conversation {
  name: string;
  listens: boolean;
  steps: any[];
  sent: { message: object; facts: object[] }[];
  left: number;
}

class HandlerError extends Error {
  override name = "HandlerError";
}

/** A queue as SQS's, whose time passes when somebody waits for messages; what is sent must be what was sent. */
class Replay {
  nowS = 0;
  messages: { id: string; body: string; visibleAtS: number; receiveCount: number }[] = [];
  sentCount = 0;
  conversation: Conversation;
  #messageCount = 0;
  #questionCount = 0;

  constructor(conversation: Conversation) {
    this.conversation = conversation;
  }

  client(): Client {
    return new Client(this, this.conversation.listens ? this : undefined, {
      nowS: () => this.nowS,
      jitter: (_, longestS) => longestS,
      newId: () => `q-${++this.#questionCount}`,
    });
  }

  async send(message: object): Promise<string> {
    const entry = this.conversation.sent[this.sentCount];
    assert.deepEqual(JSON.parse(JSON.stringify(message)), entry?.message);
    this.deliver(entry?.facts ?? []);
    return `sent-${this.sentCount++}`;
  }

  deliver(facts: object[]): void {
    for (const fact of facts) {
      const id = `message-${++this.#messageCount}`;
      this.messages.push({ id, body: JSON.stringify(fact), visibleAtS: 0, receiveCount: 0 });
    }
  }

  async receive(waitS: number): Promise<Delivery[]> {
    const visible = this.messages.filter((it) => it.visibleAtS <= this.nowS).slice(0, 10);
    if (visible.length === 0) this.nowS += waitS;
    return visible.map((it) => {
      it.visibleAtS = this.nowS + HIDDEN_S;
      it.receiveCount += 1;
      return { messageId: it.id, receipt: `${it.id}/${it.receiveCount}`, body: it.body };
    });
  }

  async delete(receipts: string[]): Promise<void> {
    const gone = receipts.map((it) => it.split("/")[0]);
    this.messages = this.messages.filter((it) => !gone.includes(it.id));
  }
}

function summary(known: WorkloadDescribed): object {
  return {
    generation: known.workload.generation,
    withdrawn: known.withdrawn,
    wanted: known.wanted,
    placed: known.placed,
    finished: known.finished,
    nodes: known.nodes.map((node) => node.nodeClaim),
  };
}

async function call(client: Client, step: any, handled: unknown[]): Promise<unknown> {
  const timeout = { timeoutS: step.timeoutS ?? 120 };
  switch (step.call) {
    case "submit":
      return await client.submit(step.workload, timeout);
    case "withdraw":
      return await client.withdraw(step.key, timeout);
    case "release":
      return await client.release(step.key, step.nodeClaim, step.replicas);
    case "status":
      return summary(await client.status(step.key, timeout));
    case "waitPlaced":
      return summary(await client.waitPlaced(step.key, { ...timeout, launched: step.launched ?? false }));
    case "events": {
      const seen: Fact[] = [];
      const facts = client.events({ idleS: step.idleS });
      while (seen.length < (step.most ?? Infinity)) {
        const { value, done } = await facts.next();
        if (done) break;
        seen.push(value);
      }
      await facts.return();
      return seen.map((fact) => fact.type);
    }
    case "onDraining":
      return await client.onDraining(
        (notice) => {
          handled.push([notice.drainId, ...notice.workloads.map((it) => `${it.namespace}/${it.name}`)]);
          if (step.handlerFails) throw new HandlerError("the disk is full");
        },
        step.whose,
        { idleS: step.idleS },
      );
  }
  throw new Error(step.call);
}

async function perform(client: Client, step: any): Promise<object> {
  const handled: unknown[] = [];
  const told = step.call === "onDraining" ? { handled } : {};
  try {
    const gives = await call(client, step, handled);
    return gives === undefined ? told : { gives, ...told };
  } catch (error) {
    const { name, message } = error as Error;
    for (const text of step.says ?? []) assert.ok(message.includes(text), `${message} does not say ${text}`);
    return { fails: name.replace(/Error$/, ""), ...told };
  }
}

const { conversations } = JSON.parse(readFileSync(TRANSCRIPT, "utf8")) as { conversations: Conversation[] };
for (const conversation of conversations) {
  test(conversation.name, async () => {
    const replay = new Replay(conversation);
    let client = replay.client();
    for (const step of conversation.steps) {
      if (step.restart) client = replay.client();
      else if (step.deliver) replay.deliver(step.deliver);
      else {
        const wanted = Object.entries(step).filter(([name]) => ["gives", "fails", "handled"].includes(name));
        assert.deepEqual(await perform(client, step), Object.fromEntries(wanted), JSON.stringify(step));
      }
    }
    assert.equal(replay.sentCount, conversation.sent.length);
    assert.equal(replay.messages.length, conversation.left);
  });
}
