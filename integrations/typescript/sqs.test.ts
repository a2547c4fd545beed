// Has the classes for SQS speak to a queue of SQS, which RESERVOIR_TEST_QUEUE_URL names; it has to be empty.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { SQSClient } from "@aws-sdk/client-sqs";
import { type Delivery, SqsInbox, SqsOutbox } from "./client.ts";

const QUEUE_URL = process.env.RESERVOIR_TEST_QUEUE_URL;
const COUNT = 11; // more than SQS takes or gives at once

test("messages come through a queue, each once, and are gone when they are deleted", { skip: !QUEUE_URL }, async () => {
  const sqs = new SQSClient();
  const [outbox, inbox] = [new SqsOutbox(sqs, QUEUE_URL!), new SqsInbox(sqs, QUEUE_URL!)];
  const sent = Array.from({ length: COUNT }, (_, number) => ({ number, text: "ä" }));
  const ids: string[] = [];
  for (const message of sent) ids.push(await outbox.send(message));

  const received: Delivery[] = [];
  while (received.length < COUNT) {
    const deliveries = await inbox.receive(1);
    assert.ok(deliveries.length > 0, `${received.length} of ${COUNT} messages came`);
    received.push(...deliveries);
  }
  assert.deepEqual(received.map((it) => it.messageId).sort(), ids.sort());
  const bodies = received.map((it) => JSON.parse(it.body)).sort((a, b) => a.number - b.number);
  assert.deepEqual(bodies, sent);

  await inbox.delete(received.map((it) => it.receipt));
  await setTimeout(1500); // the queue hides what it gave for a second
  assert.deepEqual(await inbox.receive(0), []);
});
