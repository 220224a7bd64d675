// SPDX-License-Identifier: MIT
//
// traffic.mjs PEERS URL INTAKE QUEUE PREFIX PER_SECOND MAX_DELAY: publishes delayed messages to INTAKE
// with confirms, and consumes QUEUE, with a client that nobody here wrote (amqplib from npm). What
// happens is written to the standard output, in the lines of ../jobs/history.py. A message that was
// not confirmed is published again. After SIGTERM only those are, and then there is the line
// "drained"; SIGINT ends the program.
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';

const [peers, url, intake, queue, prefix, perSecond, maxDelay] = process.argv.slice(2);
const amqplib = createRequire(peers + '/')('amqplib');
const STEP_MS = 50;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const tell = (...words) => writeSync(1, `${process.pid} ${words.join(' ')}\n`);
const nowUs = () => Date.now() * 1000;
let stopping = false;

// Calls work(channel) with a new channel each time that the connection is lost.
async function keepConnected(work) {
  for (;;) {
    try {
      const connection = await amqplib.connect(url, { timeout: 5000 });
      const closed = new Promise((done) => connection.on('close', done));
      connection.on('error', () => {});
      await work(connection);
      await closed;
    } catch {
      // the broker is down
    }
    await pause(200);
  }
}

async function consume(connection) {
  const channel = await connection.createChannel();
  channel.on('error', () => connection.close().catch(() => {}));
  await channel.prefetch(100);
  await channel.consume(queue, (m) => {
    if (m === null) return;
    const { messageId, headers } = m.properties;
    tell('came', messageId, headers['x-uvsched-id'], nowUs(), Number(m.fields.redelivered));
    try {
      channel.ack(m);
    } catch {
      // the connection is lost: the message comes again
    }
  });
}

let next = 0;
const left = new Map(); // number: delay; not confirmed

async function publish(connection) {
  const channel = await connection.createConfirmChannel();
  let lost = false;
  channel.on('error', () => { lost = true; });
  channel.on('close', () => { lost = true; });
  connection.on('close', () => { lost = true; });
  const send = (k) => channel.publish(intake, 'key.' + k, Buffer.from('body ' + k),
    { messageId: prefix + k, persistent: true, headers: { 'x-delay': left.get(k) } }, (error) => {
      if (error || !left.delete(k)) return;
      tell('confirmed', prefix + k);
    });
  for (const k of left.keys()) send(k);
  while (!lost) {
    for (let i = 0; i < (perSecond * STEP_MS) / 1000 && !stopping && !lost; i++) {
      const k = next++;
      const delay = (k * 7919) % (Number(maxDelay) + 1);
      left.set(k, delay);
      tell('sent', prefix + k, nowUs(), delay * 1000);
      send(k);
    }
    if (stopping && left.size === 0) {
      tell('drained');
      await new Promise(() => {});
    }
    await pause(STEP_MS);
  }
}

process.on('SIGTERM', () => { stopping = true; });
process.on('SIGINT', () => process.exit(0));
keepConnected(consume);
keepConnected(publish);
