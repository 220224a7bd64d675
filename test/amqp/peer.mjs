// SPDX-License-Identifier: MIT
//
// A client of RabbitMQ that nobody here wrote (amqplib from npm), driven by check_amqp.py: one
// command as JSON on each line of the standard input, one answer on each line of the output.
// argv[2] is the folder with node_modules.
import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const amqplib = createRequire(process.argv[2] + '/')('amqplib');
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const consumers = new Map(); // by queue: what came
let url, connection, channel, producing;

async function open() {
  connection = await amqplib.connect(url, { timeout: 5000 });
  connection.on('error', () => {});
  channel = await connection.createConfirmChannel();
  channel.on('error', () => {});
  channel.on('return', () => {});
}

function describe(m, at) {
  const small = m.content.length <= 1000;
  return {
    at,
    exchange: m.fields.exchange,
    key: m.fields.routingKey,
    properties: Object.fromEntries(Object.entries(m.properties).filter(([, v]) => v !== undefined)),
    size: m.content.length,
    body: small ? m.content.toString('latin1') : createHash('sha256').update(m.content).digest('hex'),
  };
}

// Consumes until the program ends, also over restarts of the broker and lost connections.
async function consume(queue) {
  const taken = { list: [], wanted: 0, wake: null };
  consumers.set(queue, taken);
  const once = async () => {
    const c = await amqplib.connect(url, { timeout: 5000 });
    const closed = new Promise((done) => c.on('close', done));
    c.on('error', () => {});
    const ch = await c.createChannel();
    ch.on('error', () => c.close().catch(() => {}));
    await ch.prefetch(500);
    await ch.consume(queue, (m) => {
      if (m === null) return;
      taken.list.push(describe(m, Date.now()));
      ch.ack(m);
      if (taken.list.length >= taken.wanted && taken.wake) taken.wake();
    });
    return { closed }; // in an object, because `await once()` must not wait for it
  };
  let current = await once();
  (async () => {
    for (;;) {
      await current.closed;
      current = await once().catch(() => ({ closed: pause(200) }));
    }
  })();
}

function makeBody(body) {
  if (typeof body === 'string') return Buffer.from(body, 'latin1');
  return Buffer.alloc(body.size, body.fill ?? 0);
}

// Publishes n messages with different ids, and repeats each until the broker has confirmed it.
async function produce({ exchange, prefix, n, maxDelay, perSecond }) {
  const result = { sent: {}, confirmed: 0 };
  let c, ch;
  const left = Array.from({ length: n }, (_, i) => i);
  const pending = new Set();
  while (left.length > 0 || pending.size > 0) {
    try {
      if (!ch) {
        c = await amqplib.connect(url, { timeout: 5000 });
        c.on('error', () => {});
        c.on('close', () => { ch = undefined; });
        ch = await c.createConfirmChannel();
        ch.on('error', () => { ch = undefined; });
      }
      for (let i = 0; i < Math.max(1, perSecond / 20) && left.length > 0; i++) {
        const k = left.shift();
        const id = prefix + k;
        const delay = (k * 7919) % (maxDelay + 1);
        result.sent[id] ??= { delay, at: Date.now() };
        pending.add(k);
        ch.publish(exchange, 'p.' + k, Buffer.from('body ' + k),
          { messageId: id, persistent: true, headers: { 'x-delay': delay } },
          (error) => {
            pending.delete(k);
            if (error) left.push(k);
            else result.confirmed++;
          });
      }
    } catch {
      ch = undefined;
    }
    await pause(50);
    if (!ch) { // what was not confirmed is sent again
      left.push(...pending);
      pending.clear();
    }
  }
  await c?.close().catch(() => {});
  return result;
}

const commands = {
  async open(c) { url = c.url; await open(); },
  async close() { await connection.close(); },
  async exchange(c) { await channel.assertExchange(c.name, c.type ?? 'topic', { durable: true }); },
  async deleteExchange(c) { await channel.deleteExchange(c.name); },
  async queue(c) {
    await channel.assertQueue(c.name, { durable: true, arguments: c.arguments });
    if (c.exchange) await channel.bindQueue(c.name, c.exchange, c.key ?? '#');
  },
  async deleteQueue(c) { await channel.deleteQueue(c.name); },
  async count(c) { return (await channel.checkQueue(c.name)).messageCount; },
  async get(c) {
    const m = await channel.get(c.name, { noAck: true });
    return m === false ? null : describe(m, Date.now());
  },
  async publish(c) {
    const times = [];
    for (const m of c.messages) {
      times.push(Date.now());
      channel.publish(m.exchange, m.key ?? '', makeBody(m.body ?? ''), m.options ?? {});
    }
    await channel.waitForConfirms();
    return times;
  },
  consume: (c) => consume(c.name),
  // Waits until n messages have come in all, or for c.ms. With `clear`, forgets them afterwards.
  async taken(c) {
    const taken = consumers.get(c.name);
    if (taken.list.length < c.n) {
      taken.wanted = c.n;
      await Promise.race([new Promise((done) => { taken.wake = done; }), pause(c.ms ?? 60000)]);
      taken.wake = null;
    }
    return c.clear ? taken.list.splice(0) : taken.list;
  },
  async produce(c) { producing = produce(c); },
  produced: () => producing,
};

for await (const line of createInterface({ input: process.stdin })) {
  const c = JSON.parse(line);
  try {
    console.log(JSON.stringify({ value: (await commands[c.op](c)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
process.exit(0);
